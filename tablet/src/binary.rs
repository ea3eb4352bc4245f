//! Numbers and strings of our own files: little-endian, strings behind their length (u32).
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

/// The bytes end before what should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut;

/// What is still to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a>(pub(crate) &'a [u8]);

impl<'a> Rest<'a> {
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Cut> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Cut)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Cut> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Cut> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Cut> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Cut> {
        self.take().map(i64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Cut> {
        let length = self.u32()? as usize;
        let (head, rest) = self.0.split_at_checked(length).ok_or(Cut)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Cut> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Cut)
    }
}

pub(crate) fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}
