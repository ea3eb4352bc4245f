//! Bitmaps, least significant bit first.

pub(crate) fn get(bitmap: &[u8], bit: usize) -> bool {
    bitmap[bit / 8] & (1 << (bit % 8)) != 0
}

/// Appends one bit to a bitmap of `len` bits.
pub(crate) fn push(bitmap: &mut Vec<u8>, len: usize, value: bool) {
    if len.is_multiple_of(8) {
        bitmap.push(0);
    }
    if value {
        bitmap[len / 8] |= 1 << (len % 8);
    }
}

/// Appends `count` ones to a bitmap of `len` bits.
pub(crate) fn push_ones(bitmap: &mut Vec<u8>, len: usize, count: usize) {
    let end = len + count;
    if let (Some(last), 1..) = (bitmap.last_mut(), len % 8) {
        *last |= 0xff << (len % 8);
    }
    bitmap.resize(end.div_ceil(8), 0xff);
    if let (Some(last), 1..) = (bitmap.last_mut(), end % 8) {
        *last &= (1 << (end % 8)) - 1;
    }
}

/// Appends `count` bits of `from`, from bit `start` on, to a bitmap of `len` bits.
pub(crate) fn push_range(bitmap: &mut Vec<u8>, len: usize, from: &[u8], start: usize, count: usize) {
    let to_boundary = (len.next_multiple_of(8) - len).min(count);
    for i in 0..to_boundary {
        push(bitmap, len + i, get(from, start + i));
    }
    let (start, count) = (start + to_boundary, count - to_boundary);
    if count == 0 {
        return;
    }
    let source = &from[start / 8..(start + count).div_ceil(8)];
    let shift = start % 8;
    if shift == 0 {
        bitmap.extend_from_slice(source);
    } else {
        bitmap.extend((0..count.div_ceil(8)).map(|i| {
            let high = source.get(i + 1).copied().unwrap_or(0);
            (source[i] >> shift) | (high << (8 - shift))
        }));
    }
    // Later pushes set bits and never clear them.
    if let (Some(last), spare @ 1..) = (bitmap.last_mut(), count % 8) {
        *last &= (1 << spare) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_append_as_single_bits_do(
            head in proptest::collection::vec(any::<bool>(), 0..40),
            body in proptest::collection::vec(any::<bool>(), 1..200),
            cut in any::<(u16, u16)>(),
        ) {
            let start = usize::from(cut.0) % body.len();
            let count = usize::from(cut.1) % (body.len() - start + 1);
            let pack = |bits: &[bool]| {
                let mut bitmap = Vec::new();
                bits.iter().enumerate().for_each(|(i, bit)| push(&mut bitmap, i, *bit));
                bitmap
            };
            let mut bitmap = pack(&head);
            push_range(&mut bitmap, head.len(), &pack(&body), start, count);
            let expected: Vec<bool> = head.iter().chain(&body[start..start + count]).copied().collect();
            prop_assert_eq!(bitmap, pack(&expected));

            let mut ones = pack(&head);
            push_ones(&mut ones, head.len(), count);
            let expected: Vec<bool> = head.iter().copied().chain(std::iter::repeat_n(true, count)).collect();
            prop_assert_eq!(ones, pack(&expected));
        }
    }
}
