//! Who may call what: a hook that a server asks before each call.

use std::sync::Arc;

use rpc_core::ConnectionInfo;

/// One question to an [`Authorizer`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Access<'a> {
    /// The connection, with the authenticated user.
    pub connection: &'a ConnectionInfo,
    /// Full name of the service.
    pub service: &'a str,
    /// Name of the method.
    pub method: &'a str,
    /// The method's rule as its .proto file names it (`AuthorizeClient`, `AuthorizeSuperUser`, ...); empty if it names none.
    pub rule: &'a str,
}

/// Says whether a user may call a method. Runs on the thread that runs the call, so it must be quick.
pub type Authorizer = Arc<dyn Fn(&Access<'_>) -> bool + Send + Sync>;

/// Lets everybody do everything: the default.
pub fn allow_all() -> Authorizer {
    Arc::new(|_| true)
}
