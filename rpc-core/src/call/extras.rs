use bytes::Bytes;

use super::RequestId;

/// What few calls have; boxed, so that the others are small to move.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Application features which the *service* must know, in request order.
    pub required_features: Vec<u32>,
    /// Present on calls that are to run exactly once.
    pub request_id: Option<RequestId>,
    /// Raw blocks behind the body, which refers to them by index; at most 10,000.
    pub sidecars: Vec<Bytes>,
}

impl Extras {
    /// `None` if there is nothing in it.
    pub fn boxed(self) -> Option<Box<Self>> {
        let empty =
            self.required_features.is_empty() && self.request_id.is_none() && self.sidecars.is_empty();
        (!empty).then(|| Box::new(self))
    }
}
