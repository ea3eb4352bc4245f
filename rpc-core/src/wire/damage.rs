//! Valid bytes made invalid, for tests: noise alone seldom gets past a decoder's first check.

use proptest::prelude::*;

/// One change at a place that is taken modulo the length.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Damage {
    Flip(usize, u8),
    Insert(usize, u8),
    Remove(usize),
    Cut(usize),
}

/// One to a few changes; cutting is rare, since it hides the others.
pub(crate) fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        6 => (any::<usize>(), 0_u32..8).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        3 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        3 => any::<usize>().prop_map(Damage::Remove),
        1 => any::<usize>().prop_map(Damage::Cut),
    ];
    proptest::collection::vec(one, 1..5)
}

pub(crate) fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let len = bytes.len().max(1);
        match *damage {
            Damage::Flip(at, bits) => bytes.iter_mut().skip(at % len).take(1).for_each(|byte| *byte ^= bits),
            Damage::Insert(at, byte) => bytes.insert(at % (bytes.len() + 1), byte),
            Damage::Remove(at) if !bytes.is_empty() => drop(bytes.remove(at % len)),
            Damage::Remove(_) => {}
            Damage::Cut(at) => bytes.truncate(at % len),
        }
    }
    bytes
}
