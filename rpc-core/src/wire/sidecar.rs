//! Raw blocks behind the body: `offsets[i]` is the start of block i, counted from the first byte of `main`.

use bytes::Bytes;
use thiserror::Error;

/// Offsets that do not describe `main`; the receiver drops the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// An offset lies behind the end of `main`.
    #[error("sidecar {index} starts at byte {offset} of {len}")]
    PastEnd {
        /// Which sidecar, from 0.
        index: usize,
        /// Where it claims to start.
        offset: u32,
        /// Length of `main`.
        len: usize,
    },
    /// An offset is smaller than the one before.
    #[error("sidecar {index} starts before the one in front of it")]
    Decreasing {
        /// Which sidecar, from 0.
        index: usize,
    },
}

/// Checks that offsets do not decrease and do not pass `len`, the length of `main`.
///
/// # Errors
/// [`SidecarError`], at the first offset that is wrong.
pub fn check(offsets: &[u32], len: usize) -> Result<(), SidecarError> {
    let mut before = 0;
    for (index, offset) in offsets.iter().copied().enumerate() {
        if usize::try_from(offset).map_or(true, |offset| offset > len) {
            return Err(SidecarError::PastEnd { index, offset, len });
        }
        if offset < before {
            return Err(SidecarError::Decreasing { index });
        }
        before = offset;
    }
    Ok(())
}

/// Splits `main` into body and sidecars without copying.
///
/// # Errors
/// As [`check`].
pub fn split(mut main: Bytes, offsets: &[u32]) -> Result<(Bytes, Vec<Bytes>), SidecarError> {
    check(offsets, main.len())?;
    let mut sidecars = Vec::with_capacity(offsets.len());
    for offset in offsets.iter().rev() {
        sidecars.push(main.split_off(usize::try_from(*offset).unwrap_or(0)));
    }
    sidecars.reverse();
    Ok((main, sidecars))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_sidecars_are_sidecars() {
        let (body, sidecars) = split(Bytes::from_static(b"abcdef"), &[2, 2, 4, 6]).unwrap();
        assert_eq!(body, "ab");
        assert_eq!(sidecars, ["", "cd", "ef", ""]);
    }

    #[test]
    fn wrong_offsets_are_refused() {
        let main = Bytes::from_static(b"abcdef");
        assert_eq!(split(main.clone(), &[7]), Err(SidecarError::PastEnd { index: 0, offset: 7, len: 6 }));
        assert_eq!(split(main.clone(), &[3, 2]), Err(SidecarError::Decreasing { index: 1 }));
        assert!(split(main, &[0, u32::MAX]).is_err());
    }

    proptest! {
        #[test]
        fn pieces_join_to_the_whole(main in proptest::collection::vec(any::<u8>(), 0..50),
                                    offsets in proptest::collection::vec(0u32..60, 0..6)) {
            let main = Bytes::from(main);
            if let Ok((body, sidecars)) = split(main.clone(), &offsets) {
                prop_assert_eq!(sidecars.len(), offsets.len());
                let joined: Vec<u8> = std::iter::once(&body).chain(&sidecars).flatten().copied().collect();
                prop_assert_eq!(joined, main);
            } else {
                prop_assert!(check(&offsets, main.len()).is_err());
            }
        }
    }
}
