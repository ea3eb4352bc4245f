//! What a request asks for that makes or changes a table, checked as far as that goes without looking at other tables.

pub(crate) mod alter;
mod columns;
pub(crate) mod create;
mod properties;
mod ranges;

pub(crate) use properties::told as told_properties;

use crate::fault::{Fault, IdentifierFault};
use crate::options::Limits;

/// Checks the name of a table or column, or a comment that is not empty.
fn check(what: &'static str, text: &str, max: usize) -> Result<(), Fault> {
    let why = if text.is_empty() {
        IdentifierFault::Empty
    } else if text.len() > max {
        IdentifierFault::TooLong { text: text.to_owned(), max }
    } else if text.contains('\0') {
        IdentifierFault::ZeroByte
    } else {
        return Ok(());
    };
    Err(Fault::BadIdentifier { what, why })
}

/// Checks the name of a table.
pub(crate) fn check_table_name(name: &str, limits: &Limits) -> Result<(), Fault> {
    check("table name", name, limits.identifier_length)
}

fn replicas(asked: i32, limits: &Limits) -> Result<i32, Fault> {
    if asked > limits.max_replicas {
        return Err(Fault::TooManyReplicas { asked, max: limits.max_replicas });
    }
    if asked < limits.min_replicas {
        return Err(Fault::TooFewReplicas { asked, min: limits.min_replicas });
    }
    if asked % 2 == 0 {
        return Err(Fault::EvenReplicas(asked));
    }
    Ok(asked)
}
