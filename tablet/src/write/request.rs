//! Which call of which client a write is.

/// The name of a logical call: however often it is tried, its effect is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKey<'a> {
    /// Unique per client process.
    pub client_id: &'a str,
    /// Number of the call within the client.
    pub seq_no: i64,
    /// Answers below this are not waited for any more; -1 if the client does not say.
    pub first_incomplete_seq_no: i64,
}
