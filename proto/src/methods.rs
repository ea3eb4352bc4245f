//! The markers of all methods, one module a service.

pub use crate::kudu::consensus::consensus_service;
pub use crate::kudu::master::master_service;
pub use crate::kudu::server::generic_service;
pub use crate::kudu::transactions::txn_manager_service;
pub use crate::kudu::tserver::tablet_copy_service;
pub use crate::kudu::tserver::tablet_server_admin_service;
pub use crate::kudu::tserver::tablet_server_service;
pub use crate::nyala::tserver::local_scan_service;
