//! Open scanners, until they are read out, closed, or idle for too long.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use schema::Timestamp;
use server_base::ServerUuid;

use super::format::Format;
use super::turn;
use crate::fault::Fault;

/// A scan between two calls of its client.
#[derive(Debug)]
pub(crate) struct OpenScan {
    pub(crate) scanner: tablet::Scanner,
    pub(crate) format: Format,
    /// What the next call must carry.
    pub(crate) next_call: u32,
    /// Told in each answer.
    pub(crate) snapshot: Option<Timestamp>,
    /// Whether answers carry the key of their last row.
    pub(crate) tells_last_key: bool,
}

/// A registered scan.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) id: Bytes,
    user: String,
    pub(crate) tablet_id: String,
    last_used: Mutex<Instant>,
    /// Held by the call that reads it.
    pub(crate) scan: Mutex<OpenScan>,
}

impl Registered {
    /// The scanner was used: its time to live starts again.
    pub(crate) fn touch(&self, now: Instant) {
        *self.last_used.lock() = now;
    }
}

/// The scanners of a server by id.
#[derive(Debug)]
pub(crate) struct Scanners {
    open: Mutex<HashMap<Bytes, Arc<Registered>>>,
}

impl Scanners {
    pub(crate) fn new() -> Self {
        Self { open: Mutex::default() }
    }

    pub(crate) fn add(&self, scan: OpenScan, user: &str, tablet_id: &str, now: Instant) -> Bytes {
        let id = Bytes::from(ServerUuid::random().as_str().to_owned());
        let registered = Registered {
            id: id.clone(),
            user: user.to_owned(),
            tablet_id: tablet_id.to_owned(),
            last_used: Mutex::new(now),
            scan: Mutex::new(scan),
        };
        self.open.lock().insert(id.clone(), Arc::new(registered));
        id
    }

    /// The scanner of this id, if it is this user's. It counts as used now.
    pub(crate) fn get(&self, id: &[u8], user: &str, now: Instant) -> Option<Arc<Registered>> {
        let found = self.open.lock().get(id).filter(|scanner| scanner.user == user).cloned()?;
        found.touch(now);
        Some(found)
    }

    /// The scan of a scanner that was got, for the one call that reads it. Does not wait: that call may take its time, and
    /// read the scanner out.
    pub(crate) fn lock<'a>(&self, scanner: &'a Registered) -> Result<MutexGuard<'a, OpenScan>, Fault> {
        let scan = scanner.scan.try_lock().ok_or_else(turn::busy)?;
        if self.open.lock().contains_key(&scanner.id) { Ok(scan) } else { Err(turn::expired(&scanner.id)) }
    }

    pub(crate) fn remove(&self, id: &[u8]) {
        self.open.lock().remove(id);
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Drops scanners that nobody has used for the time to live; the number of them.
    pub(crate) fn expire(&self, now: Instant, ttl: Duration) -> usize {
        let mut expired = Vec::new();
        self.open.lock().retain(|_, scanner| {
            let idle = now.saturating_duration_since(*scanner.last_used.lock()) > ttl;
            // A locked one is being read.
            let keep = !idle || scanner.scan.is_locked();
            if !keep {
                expired.push(Arc::clone(scanner));
            }
            keep
        });
        for scanner in &expired {
            tracing::info!(tablet = scanner.tablet_id, scanner = ?scanner.id, ?ttl, "scanner expired");
        }
        expired.len()
    }
}

#[cfg(test)]
mod tests {
    use proto::kudu::app_status_pb::ErrorCode;
    use schema::{Column, DataType, HybridClock, Schema};
    use tablet::{ScanSpec, Tablet, TabletOptions};

    use super::*;

    fn scan() -> OpenScan {
        let schema = Schema::new(vec![Column::new("key", DataType::Int32)], 1).unwrap();
        let options = TabletOptions {
            id: "t".into(),
            table_id: "table".into(),
            table_name: "table".into(),
            schema: schema.with_sequential_ids(0),
            partition_schema: Default::default(),
            partition: Default::default(),
            schema_version: 0,
            history_max_age_sec: None,
        };
        let tablet = Tablet::open(options, Arc::new(HybridClock::default())).unwrap();
        let scanner = tablet.scan(ScanSpec { projection: vec![0], ..ScanSpec::default() }, 1).unwrap();
        OpenScan { scanner, format: Format::Columnar, next_call: 1, snapshot: None, tells_last_key: true }
    }

    #[test]
    fn a_second_call_does_not_wait_for_the_first_nor_read_what_that_one_ended() {
        let (scanners, now) = (Scanners::new(), Instant::now());
        let id = scanners.add(scan(), "me", "t", now);
        let (first, second) = (scanners.get(&id, "me", now).unwrap(), scanners.get(&id, "me", now).unwrap());
        let reading = scanners.lock(&first).unwrap();
        assert_eq!(scanners.lock(&second).unwrap_err().status, ErrorCode::ServiceUnavailable);
        drop(reading);
        assert_eq!(scanners.lock(&second).unwrap().next_call, 1, "between two calls it is free");
        scanners.remove(&id);
        assert_eq!(scanners.lock(&second).unwrap_err().status, ErrorCode::NotFound);
    }
}
