//! Kudu's block bloom filter, as a scan predicate carries it.

use bytes::Bytes;

/// A bloom filter of blocks of 32 bytes, hashed by FastHash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockBloomFilter {
    data: Bytes,
    hash_seed: u32,
    always_false: bool,
}

impl BlockBloomFilter {
    /// A filter received from a client. `always_false` filters match nothing whatever their data.
    pub fn from_parts(
        log_space_bytes: i32,
        data: Bytes,
        hash_seed: u32,
        always_false: bool,
    ) -> Result<Self, BloomError> {
        let expected = u32::try_from(log_space_bytes)
            .ok()
            .and_then(|log| 1usize.checked_shl(log.max(LEAST_LOG_SPACE)))
            .ok_or(BloomError::LogSpace { log_space_bytes })?;
        if !always_false && data.len() != expected {
            return Err(BloomError::DataSize { bytes: data.len(), expected });
        }
        Ok(Self { data, hash_seed, always_false })
    }

    /// An empty filter to insert into, of 2^`log_space_bytes` bytes (6 to 30; others are clamped).
    pub fn builder(log_space_bytes: u32, hash_seed: u32) -> BlockBloomFilterBuilder {
        let log_space_bytes = log_space_bytes.clamp(LEAST_LOG_SPACE, MOST_LOG_SPACE);
        BlockBloomFilterBuilder { data: vec![0; 1 << log_space_bytes], log_space_bytes, hash_seed }
    }

    /// The binary logarithm of the bytes that hold `values` different cells, so that about the share `false_positives`
    /// (above 0, below 1) of the cells that were not inserted is let through; within what [`builder`](Self::builder) takes.
    pub fn log_space_for(values: usize, false_positives: f64) -> u32 {
        let wanted = if false_positives > 0.0 { false_positives.min(0.999) } else { LEAST_FALSE_POSITIVES };
        let bits_each = -(BITS_A_CELL / (1.0 - wanted.powf(1.0 / BITS_A_CELL)).ln());
        let bytes = (values as f64 * bits_each / 8.0).max(1.0);
        (bytes.log2().ceil() as u32).clamp(LEAST_LOG_SPACE, MOST_LOG_SPACE)
    }

    /// Base 2 logarithm of the size in bytes.
    pub fn log_space_bytes(&self) -> u32 {
        self.data.len().max(1).ilog2()
    }

    /// The buckets.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// Seed of the hash.
    pub fn hash_seed(&self) -> u32 {
        self.hash_seed
    }

    /// Whether nothing matches.
    pub fn always_false(&self) -> bool {
        self.always_false
    }

    /// Whether the raw cell may have been inserted.
    pub fn may_contain(&self, raw: &[u8]) -> bool {
        let hash = fast_hash_32(raw, self.hash_seed);
        let (buckets, _) = self.data.as_chunks::<BUCKET>();
        let bucket = bucket_index(hash, buckets.len());
        !self.always_false
            && buckets.get(bucket).is_some_and(|bucket| {
                let (words, _) = bucket.as_chunks::<4>();
                let has = |(word, salt): (&[u8; 4], &u32)| {
                    u32::from_le_bytes(*word) >> bit_of(hash, *salt) & 1 != 0
                };
                words.iter().zip(&SALTS).all(has)
            })
    }
}

/// See [`BlockBloomFilter::builder`].
#[derive(Clone, Debug)]
pub struct BlockBloomFilterBuilder {
    data: Vec<u8>,
    log_space_bytes: u32,
    hash_seed: u32,
}

impl BlockBloomFilterBuilder {
    /// Adds a raw cell.
    pub fn insert(&mut self, raw: &[u8]) {
        let hash = fast_hash_32(raw, self.hash_seed);
        let (buckets, _) = self.data.as_chunks_mut::<BUCKET>();
        let bucket = bucket_index(hash, 1 << (self.log_space_bytes - BUCKET.ilog2()));
        let (words, _) = buckets[bucket].as_chunks_mut::<4>();
        for (word, salt) in words.iter_mut().zip(&SALTS) {
            *word = (u32::from_le_bytes(*word) | 1 << bit_of(hash, *salt)).to_le_bytes();
        }
    }

    /// The filter.
    pub fn build(self) -> BlockBloomFilter {
        BlockBloomFilter { data: self.data.into(), hash_seed: self.hash_seed, always_false: false }
    }
}

fn bucket_index(hash: u32, buckets: usize) -> usize {
    let spread = (u64::from(hash).wrapping_mul(0x7850_f11e_c6d1_4889)).wrapping_add(0x6773_6105_97ca_4c63);
    (spread >> 32) as usize & buckets.saturating_sub(1)
}

fn bit_of(hash: u32, salt: u32) -> u32 {
    salt.wrapping_mul(hash) >> 27
}

/// FastHash of a raw cell, folded to 32 bits; an empty cell hashes as a fixed word of its own.
pub fn fast_hash_32(raw: &[u8], seed: u32) -> u32 {
    let empty = EMPTY.to_le_bytes();
    let hash = fast_hash_64(if raw.is_empty() { &empty } else { raw }, u64::from(seed));
    hash.wrapping_sub(hash >> 32) as u32
}

fn fast_hash_64(bytes: &[u8], seed: u64) -> u64 {
    let mix = |word: u64| {
        let word = (word ^ word >> 23).wrapping_mul(0x2127_599b_f432_5c37);
        word ^ word >> 47
    };
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(FAST_HASH);
    for word in words {
        hash = (hash ^ mix(u64::from_le_bytes(*word))).wrapping_mul(FAST_HASH);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
        hash = (hash ^ mix(u64::from_le_bytes(word))).wrapping_mul(FAST_HASH);
    }
    mix(hash)
}

/// A filter whose parts do not fit together; the fault of the client that sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BloomError {
    /// A size that no filter has.
    #[error("a bloom filter of 2^{log_space_bytes} bytes")]
    LogSpace {
        /// Binary logarithm of the size in bytes.
        log_space_bytes: i32,
    },
    /// More or fewer bytes than the size says.
    #[error("{bytes} bytes in a bloom filter of {expected}")]
    DataSize {
        /// How many bytes came.
        bytes: usize,
        /// How many bytes the size says.
        expected: usize,
    },
    /// Another hash algorithm than the one that servers evaluate.
    #[error("bloom filters must be hashed by FAST_HASH, not by algorithm {algorithm}")]
    Algorithm {
        /// Number of the hash algorithm on the wire.
        algorithm: i32,
    },
}

impl BloomError {
    /// Always false: the filter itself is wrong.
    pub const fn is_retriable(&self) -> bool {
        false
    }
}

const BUCKET: usize = 32;
/// Two buckets are the least.
const LEAST_LOG_SPACE: u32 = 6;
const MOST_LOG_SPACE: u32 = 30;
const LEAST_FALSE_POSITIVES: f64 = 1e-9;
/// How many bits a cell sets.
const BITS_A_CELL: f64 = SALTS.len() as f64;
const FAST_HASH: u64 = 0x8803_55f2_1e6d_1965;
const EMPTY: u32 = 0x7dca_7eee;
const SALTS: [u32; 8] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_the_size_for_its_cells_lets_about_the_wanted_share_through() {
        for (cells, wanted) in [(100u64, 0.1), (5000, 0.01), (20_000, 0.001)] {
            let log_space = BlockBloomFilter::log_space_for(cells as usize, wanted);
            let mut filter = BlockBloomFilter::builder(log_space, 0);
            (0..cells).for_each(|cell| filter.insert(&cell.to_le_bytes()));
            let filter = filter.build();
            assert!((0..cells).all(|cell| filter.may_contain(&cell.to_le_bytes())));
            let others = 100_000u64;
            let passed =
                (cells..cells + others).filter(|cell| filter.may_contain(&cell.to_le_bytes())).count();
            // Filters of blocks let a few more through than the formula says; sizes are powers of two.
            assert!(passed as f64 / (others as f64) < wanted * 2.0, "{passed} of {others} for {wanted}");
            assert!(passed > 0 || wanted < 0.01, "larger than it need be for {wanted}");
        }
    }

    #[test]
    fn sizes_stay_within_what_a_filter_can_have() {
        assert_eq!(BlockBloomFilter::log_space_for(0, 0.01), LEAST_LOG_SPACE);
        assert_eq!(BlockBloomFilter::log_space_for(usize::MAX, 0.0), MOST_LOG_SPACE);
        assert_eq!(BlockBloomFilter::log_space_for(1, f64::NAN), LEAST_LOG_SPACE);
        // An empty filter matches nothing.
        assert!(!BlockBloomFilter::builder(0, 0).build().may_contain(b"a"));
    }
}
