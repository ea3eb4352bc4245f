//! Compressed buffers, as Arrow has them: the length of what was packed, then a frame of LZ4 or ZSTD.

use std::io::{Read, Write};

use bytes::Bytes;

use super::arrow::message::Codec;

/// In place of the length if packing would not have made it shorter.
const AS_IT_IS: i64 = -1;
/// The fastest level that still is worth it.
const ZSTD_LEVEL: i32 = 1;
/// Few buffers are longer.
const COMMON_BYTES: usize = 16 << 20;

/// Packs a buffer; no bytes stay no bytes.
pub(super) fn pack(codec: Codec, buffer: &[u8]) -> Vec<u8> {
    if buffer.is_empty() {
        return Vec::new();
    }
    let mut packed = (buffer.len() as i64).to_le_bytes().to_vec();
    let done = match codec {
        Codec::Lz4 => lz4(buffer, &mut packed).is_ok(),
        Codec::Zstd => match zstd::bulk::compress(buffer, ZSTD_LEVEL) {
            Ok(frame) => {
                packed.extend_from_slice(&frame);
                true
            }
            Err(_) => false,
        },
    };
    if done && packed.len() < 8 + buffer.len() {
        return packed;
    }
    [&AS_IT_IS.to_le_bytes(), buffer].concat()
}

/// The `len` bytes that were packed; `None` if `packed` does not hold them.
pub(super) fn unpack(codec: Codec, packed: Bytes, len: usize) -> Option<Bytes> {
    if packed.is_empty() {
        return (len == 0).then(Bytes::new);
    }
    let before = i64::from_le_bytes(*packed.first_chunk()?);
    let frame = packed.slice(8..);
    if before == AS_IT_IS {
        return (frame.len() == len).then_some(frame);
    }
    if before != i64::try_from(len).ok()? {
        return None;
    }
    // A length that is only claimed costs no memory.
    let mut content = Vec::with_capacity(len.min(COMMON_BYTES));
    let most = len as u64;
    let read = match codec {
        Codec::Lz4 => lz4_flex::frame::FrameDecoder::new(&frame[..]).take(most).read_to_end(&mut content),
        Codec::Zstd => {
            zstd::stream::read::Decoder::with_buffer(&frame[..]).ok()?.take(most).read_to_end(&mut content)
        }
    };
    (read.ok()? == len).then(|| content.into())
}

fn lz4(buffer: &[u8], packed: &mut Vec<u8>) -> std::io::Result<()> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(packed);
    encoder.write_all(buffer)?;
    encoder.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_is_what_was_packed_and_never_longer_than_said() {
        let noise: Vec<u8> = (0..3000).map(|_| fastrand::u8(..)).collect();
        for codec in [Codec::Lz4, Codec::Zstd] {
            for buffer in [&b""[..], b"x", &[7; 200_000], &noise] {
                let packed = pack(codec, buffer);
                assert!(packed.len() <= buffer.len() + 8);
                assert_eq!(unpack(codec, packed.clone().into(), buffer.len()).as_deref(), Some(buffer));
                assert_eq!(unpack(codec, packed.clone().into(), buffer.len() + 1), None);
                assert!(
                    buffer.is_empty() || unpack(codec, packed.clone().into(), buffer.len() - 1).is_none()
                );
                for cut in 0..packed.len().min(100) {
                    assert_eq!(
                        unpack(codec, Bytes::copy_from_slice(&packed[..cut]), buffer.len()),
                        None,
                        "{codec:?}, {cut}"
                    );
                }
            }
            assert!(pack(codec, &[7; 200_000]).len() < 4_000);
        }
    }
}
