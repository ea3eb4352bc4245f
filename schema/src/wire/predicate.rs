//! ColumnPredicatePB and BlockBloomFilterPB.

use proto::kudu::{
    BlockBloomFilterPb, ColumnPredicatePb, HashAlgorithm,
    column_predicate_pb::{Equality, InBloomFilter, InList, IsNotNull, IsNull, Predicate as Pb, Range},
};

use crate::{
    Predicate, PredicateError, Schema,
    bloom::{BlockBloomFilter, BloomError},
};

/// Reads a predicate over the table's schema. Whether its values fit is checked by [`Predicate::prepare`].
pub fn predicate_from_pb(pb: &ColumnPredicatePb, schema: &Schema) -> Result<Predicate, PredicateError> {
    let name = || pb.column().to_owned();
    let column =
        schema.index_of(pb.column()).ok_or_else(|| PredicateError::NoSuchColumn { column: name() })?;
    Ok(match pb.predicate.as_ref().ok_or_else(|| PredicateError::NoKind { column: name() })? {
        Pb::Range(range) => {
            Predicate::Range { column, lower: range.lower.clone(), upper: range.upper.clone() }
        }
        Pb::Equality(equality) => {
            let value = equality.value.clone().ok_or_else(|| PredicateError::NoValue { column: name() })?;
            Predicate::Equality { column, value }
        }
        Pb::InList(list) => Predicate::InList { column, values: list.values.clone() },
        Pb::IsNull(_) => Predicate::IsNull { column },
        Pb::IsNotNull(_) => Predicate::IsNotNull { column },
        Pb::InBloomFilter(pb) => Predicate::InBloomFilter {
            column,
            filters: pb
                .bloom_filters
                .iter()
                .map(BlockBloomFilter::try_from)
                .collect::<Result<_, _>>()
                .map_err(|source| PredicateError::Bloom { column: name(), source })?,
            lower: pb.lower.clone(),
            upper: pb.upper.clone(),
        },
    })
}

/// Writes a predicate over the table's schema.
pub fn predicate_to_pb(predicate: &Predicate, schema: &Schema) -> Result<ColumnPredicatePb, PredicateError> {
    let index = predicate.column();
    let missing = PredicateError::NoSuchIndex { column: index, columns: schema.len() };
    let column = schema.columns().get(index).ok_or(missing)?.name.clone();
    let pb = match predicate.clone() {
        Predicate::Range { lower, upper, .. } => Pb::Range(Range { lower, upper }),
        Predicate::Equality { value, .. } => Pb::Equality(Equality { value: Some(value) }),
        Predicate::InList { values, .. } => Pb::InList(InList { values }),
        Predicate::IsNull { .. } => Pb::IsNull(IsNull {}),
        Predicate::IsNotNull { .. } => Pb::IsNotNull(IsNotNull {}),
        Predicate::InBloomFilter { filters, lower, upper, .. } => Pb::InBloomFilter(InBloomFilter {
            bloom_filters: filters.iter().map(BlockBloomFilterPb::from).collect(),
            lower,
            upper,
        }),
    };
    Ok(ColumnPredicatePb { column: Some(column), predicate: Some(pb) })
}

impl TryFrom<&BlockBloomFilterPb> for BlockBloomFilter {
    type Error = BloomError;

    fn try_from(pb: &BlockBloomFilterPb) -> Result<Self, BloomError> {
        match pb.hash_algorithm.unwrap_or(HashAlgorithm::FastHash as i32) {
            algorithm if algorithm == HashAlgorithm::FastHash as i32 => {}
            algorithm => return Err(BloomError::Algorithm { algorithm }),
        }
        let data = pb.bloom_data.clone().unwrap_or_default();
        Self::from_parts(pb.log_space_bytes(), data, pb.hash_seed(), pb.always_false())
    }
}

impl From<&BlockBloomFilter> for BlockBloomFilterPb {
    fn from(filter: &BlockBloomFilter) -> Self {
        Self {
            log_space_bytes: Some(filter.log_space_bytes() as i32),
            bloom_data: Some(filter.data().clone()),
            always_false: Some(filter.always_false()),
            hash_algorithm: Some(HashAlgorithm::FastHash as i32),
            hash_seed: Some(filter.hash_seed()),
        }
    }
}
