use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::ConnectionInfo;

/// Where a call came in and what it is for: one object for all calls of a method on a connection.
pub struct Destination {
    connection: Arc<ConnectionInfo>,
    service: Box<str>,
    method: Box<str>,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Destination {
    /// Names that are not UTF-8 are mended: C++ peers accept such names and find no service of that name; so shall we.
    pub(crate) fn new(connection: Arc<ConnectionInfo>, service: &[u8], method: &[u8]) -> Self {
        let text = |raw| String::from_utf8_lossy(raw).into_owned().into_boxed_str();
        Self { connection, service: text(service), method: text(method), note: OnceLock::new() }
    }

    pub(crate) fn is(&self, service: &[u8], method: &[u8]) -> bool {
        self.service.as_bytes() == service && self.method.as_bytes() == method
    }

    /// The connection that brought the call.
    pub fn connection(&self) -> &Arc<ConnectionInfo> {
        &self.connection
    }

    /// Full name of the service, e.g. `kudu.master.MasterService`; bytes that are not UTF-8 are replaced.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Bare name of the method, e.g. `ConnectToMaster`; bytes that are not UTF-8 are replaced.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// What the handler has noted about this method, so that it need not look it up for each call; `None` if there is no
    /// note, or one of another type.
    pub fn note<T: 'static>(&self) -> Option<&T> {
        self.note.get()?.downcast_ref()
    }

    /// Makes a note, unless there is one.
    pub fn set_note(&self, note: impl Any + Send + Sync) {
        let _ = self.note.set(Box::new(note));
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} from {}", self.service, self.method, self.connection.peer)
    }
}
