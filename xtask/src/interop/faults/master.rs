//! A master that is no leader for some time, then too busy twice, and well from then on.
//!
//! As Kudu's does, it says so in the role while it is a follower; it is a leader that cannot lead yet (NOT_THE_LEADER in the
//! answers to other calls) for the second half of that time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use proto::kudu::consensus::raft_peer_pb::Role;
use proto::kudu::master::list_tables_response_pb::TableInfo;
use proto::kudu::master::{ConnectToMasterResponsePb, ListTablesResponsePb, MasterErrorPb, master_error_pb};
use proto::kudu::{AppStatusPb, app_status_pb};
use proto::methods::master_service::{ConnectToMaster, ListTables, SERVICE};
use rpc_core::{Method, RemoteError, RpcErrorCode};
use rpc_server::{Call, Server, Service};

use crate::interop::suite::Verdict;

/// The one table it lists once it is well.
pub(super) const TABLE: &str = "the_master_is_well";
const BUSY_ANSWERS: u32 = 2;

pub(super) struct FaultyMaster {
    server: Server,
    state: Arc<State>,
}

struct State {
    without_leader: Duration,
    /// When the first call came: what comes before is no trial.
    first: Mutex<Option<Instant>>,
    refused: AtomicU32,
    busy: AtomicU32,
}

/// What a call meets.
enum Mood {
    NoLeader,
    Busy,
    Well,
}

impl FaultyMaster {
    pub(super) fn start(without_leader: Duration) -> Result<FaultyMaster> {
        let state = Arc::new(State {
            without_leader,
            first: Mutex::new(None),
            refused: AtomicU32::new(0),
            busy: AtomicU32::new(0),
        });
        let (connects, lists) = (state.clone(), state.clone());
        let service = Service::builder(SERVICE)
            // What the client asks for by feature flag: 1.18 knows nine.
            .features(&[1, 2, 3, 4, 5, 6, 7, 8, 9])
            .cheap::<ConnectToMaster>(move |call| {
                let role = |role| ConnectToMasterResponsePb { role: Some(role as i32), ..Default::default() };
                let follower_for = connects.without_leader / 2;
                connects.answer(call, follower_for, &role(Role::Follower), &role(Role::Leader));
            })
            .cheap::<ListTables>(move |call| {
                let refusal = ListTablesResponsePb { error: Some(not_the_leader()), ..Default::default() };
                let table =
                    TableInfo { id: "0".repeat(32).into(), name: TABLE.to_owned(), ..Default::default() };
                let well = ListTablesResponsePb { tables: vec![table], ..Default::default() };
                lists.answer(call, lists.without_leader, &refusal, &well);
            })
            .build();
        let server = Server::builder().bind("127.0.0.1:0".parse()?).service(service).start()?;
        server.ready();
        Ok(FaultyMaster { server, state })
    }

    pub(super) fn address(&self) -> String {
        self.server.bound_addresses().first().map(ToString::to_string).unwrap_or_default()
    }

    /// It was asked while it was no leader, and while it was busy.
    pub(super) fn was_asked_at_its_worst(&self) -> Verdict {
        let refused = self.state.refused.load(Ordering::Relaxed);
        let busy = self.state.busy.load(Ordering::Relaxed);
        if refused > 0 && busy == BUSY_ANSWERS {
            Ok(())
        } else {
            Err(format!("asked {refused} times without leader, {busy} times when busy"))
        }
    }
}

impl State {
    fn answer<M: Method>(
        &self,
        call: Call<M>,
        refused_for: Duration,
        refusal: &M::Response,
        well: &M::Response,
    ) {
        match self.mood(refused_for) {
            Mood::NoLeader => call.respond(refusal),
            Mood::Busy => call.fail(RemoteError::new(
                RpcErrorCode::ERROR_SERVER_TOO_BUSY,
                "Service unavailable: the queue is full",
            )),
            Mood::Well => call.respond(well),
        }
    }

    fn mood(&self, refused_for: Duration) -> Mood {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.get_or_insert_with(Instant::now).elapsed() < refused_for {
            self.refused.fetch_add(1, Ordering::Relaxed);
            Mood::NoLeader
        } else if first.is_some_and(|first| first.elapsed() >= self.without_leader)
            && self.busy.load(Ordering::Relaxed) < BUSY_ANSWERS
        {
            self.busy.fetch_add(1, Ordering::Relaxed);
            Mood::Busy
        } else {
            Mood::Well
        }
    }
}

fn not_the_leader() -> MasterErrorPb {
    MasterErrorPb {
        code: master_error_pb::Code::NotTheLeader as i32,
        status: AppStatusPb {
            code: app_status_pb::ErrorCode::ServiceUnavailable as i32,
            message: Some("not the leader".to_owned()),
            posix_code: None,
        },
    }
}
