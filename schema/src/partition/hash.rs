//! MurmurHash2-64A, which spreads rows over buckets.

/// The bucket of encoded hash columns.
pub fn hash_bucket(encoded: &[u8], seed: u32, buckets: u32) -> u32 {
    let hash = murmur2_64a(encoded, u64::from(seed));
    // Fits: it is less than `buckets`. Most tables have a power of two, which needs no division.
    if buckets.is_power_of_two() {
        return (hash & u64::from(buckets.wrapping_sub(1))) as u32;
    }
    (hash % u64::from(buckets.max(1))) as u32
}

/// MurmurHash2 in its 64-bit form A, as of little-endian machines.
pub fn murmur2_64a(bytes: &[u8], seed: u64) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        let word = (word ^ word >> SHIFT).wrapping_mul(MULTIPLIER);
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;
