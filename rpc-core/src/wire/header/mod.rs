//! Headers of requests and responses: hand-written, borrowed, since each call pays for them.

mod request;
mod response;

pub use request::{RequestHeader, RequestIdRef};
pub use response::ResponseHeader;
