//! What operators do to tablet servers: maintenance and unregistering.

use std::time::Instant;

use prost::Message;
use proto::kudu::master::{SysTServerStateEntryPb, TServerStatePb};

use super::Catalog;
use super::store::Kind;
use crate::fault::Fault;

impl Catalog {
    /// Whether an operator works on this server.
    pub(crate) fn in_maintenance(&self, uuid: &str) -> bool {
        self.maintenance.contains(uuid)
    }

    /// Begins or ends the maintenance of a server, which lasts over restarts. A server that is not known is refused at the
    /// beginning, unless it `may_be_missing`.
    pub(crate) fn set_maintenance(
        &mut self,
        uuid: &str,
        begins: bool,
        may_be_missing: bool,
        now_seconds: i64,
    ) -> Result<(), Fault> {
        if begins && !may_be_missing && self.servers.get(uuid).is_none() {
            return Err(Fault::UnknownServer(uuid.to_owned()));
        }
        if begins == self.maintenance.contains(uuid) {
            return Ok(());
        }
        let state = TServerStatePb::MaintenanceMode as i32;
        let entry = SysTServerStateEntryPb { state: Some(state), timestamp_secs: Some(now_seconds) };
        let content = begins.then(|| entry.encode_to_vec());
        self.store.write(&[(Kind::Server, uuid.to_owned(), content)])?;
        if begins {
            self.maintenance.insert(uuid.to_owned());
        } else {
            self.maintenance.remove(uuid);
        }
        Ok(())
    }

    /// Forgets a server; one that still lives only if this is forced, and it comes back with its next heartbeat.
    pub(crate) fn unregister(&mut self, uuid: &str, force: bool, now: Instant) -> Result<(), Fault> {
        if self.servers.get(uuid).is_none() {
            return Err(Fault::UnknownServer(uuid.to_owned()));
        }
        if self.servers.is_live(uuid, now) && !force {
            return Err(Fault::ServerLives(uuid.to_owned()));
        }
        self.servers.forget(uuid);
        Ok(())
    }

    /// Those of the live servers that new replicas may go to: not those in maintenance, as long as there are enough others.
    pub(super) fn open_to_replicas(&self, live: Vec<String>, replicas: usize) -> Vec<String> {
        let open: Vec<String> = live.iter().filter(|uuid| !self.in_maintenance(uuid)).cloned().collect();
        if open.len() < replicas { live } else { open }
    }
}
