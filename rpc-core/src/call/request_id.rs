/// Names one logical call across its attempts, so that a server can run it exactly once.
///
/// The numbers are taken as they come: clients count from 0 (C++) or 1 (Java).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// Unique for each client process or client object.
    pub client_id: String,
    /// Unique for each logical call of that client.
    pub seq_no: i64,
    /// The smallest `seq_no` whose answer the client still waits for, this call's included; -1 if none.
    pub first_incomplete_seq_no: i64,
    /// Differs between the attempts of one call.
    pub attempt_no: i64,
}
