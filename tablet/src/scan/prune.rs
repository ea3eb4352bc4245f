//! Batches that a scan need not read: their bounds say that no row of theirs is wanted.

use schema::key::encode_component;
use schema::{DataType, Predicate, Schema};

use super::part::Part;
use super::spec::ScanSpec;

/// Whether the part may have rows that the scan wants.
pub(crate) fn may_match(schema: &Schema, spec: &ScanSpec, part: &Part) -> bool {
    let Some((stored, number)) = part.stored() else { return true };
    let batch = &stored.file.batches()[number];
    let below = |lower: &Vec<u8>| *batch.last_key < **lower;
    let above = |upper: &Vec<u8>| *batch.first_key >= **upper;
    let read_before = |last: &Vec<u8>| *batch.last_key <= **last;
    if spec.lower_key.as_ref().is_some_and(below)
        || spec.upper_key.as_ref().is_some_and(above)
        || spec.last_key.as_ref().is_some_and(read_before)
    {
        return false;
    }
    spec.predicates.iter().all(|predicate| {
        let column = predicate.column();
        let Some(position) = part.position(column) else { return true };
        let nulls = stored.file.nulls(number, position);
        match predicate {
            Predicate::IsNull { .. } => nulls > 0,
            Predicate::IsNotNull { .. } => nulls < batch.rows,
            _ if nulls == batch.rows => false,
            _ => {
                let Some(bounds) = stored.file.bounds(number, position) else { return true };
                let order = |raw: &[u8]| ordered(schema.columns()[column].data_type, raw);
                match (order(&bounds.least), order(&bounds.greatest)) {
                    (Some(least), Some(greatest)) => overlaps(predicate, &least, &greatest, order),
                    _ => true,
                }
            }
        }
    })
}

/// Whether a cell that is neither below `least` nor above `greatest` may be wanted.
fn overlaps(
    predicate: &Predicate,
    least: &[u8],
    greatest: &[u8],
    order: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> bool {
    let inside = |raw: &[u8]| order(raw).is_none_or(|value| *least <= *value && *value <= *greatest);
    match predicate {
        Predicate::Range { lower, upper, .. } | Predicate::InBloomFilter { lower, upper, .. } => {
            let order = |bound: &Option<bytes::Bytes>| bound.as_ref().and_then(|raw| order(raw));
            order(lower).is_none_or(|lower| *lower <= *greatest)
                && order(upper).is_none_or(|upper| *upper > *least)
        }
        Predicate::Equality { value, .. } => inside(value),
        Predicate::InList { values, .. } => values.iter().any(|value| inside(value)),
        Predicate::IsNull { .. } | Predicate::IsNotNull { .. } => true,
    }
}

/// Bytes that compare as cells of the type do, where that is simple.
fn ordered(data_type: DataType, raw: &[u8]) -> Option<Vec<u8>> {
    if matches!(data_type, DataType::Float | DataType::Double | DataType::IsDeleted | DataType::Bool)
        || !data_type.fits(raw)
    {
        return None;
    }
    let mut bytes = Vec::with_capacity(raw.len());
    encode_component(data_type, raw, true, &mut bytes);
    Some(bytes)
}
