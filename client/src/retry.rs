//! Deadlines, pauses, and what a failed try means for the next one.

use std::time::{Duration, Instant};

use rpc_core::call::CallStage;
use rpc_core::{CallError, RpcErrorCode};

use crate::code::{StatusCode, TabletCode};
use crate::error::AttemptError;

/// When an operation must be over, and how long it was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    given: Duration,
}

impl Deadline {
    pub(crate) fn after(given: Duration) -> Deadline {
        let now = Instant::now();
        Deadline { at: now.checked_add(given).unwrap_or(now + A_YEAR), given }
    }

    pub(crate) fn given(&self) -> Duration {
        self.given
    }

    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// When one try must be over, so that a silent server leaves time for another.
    pub(crate) fn of_try(&self, longest: Duration) -> Instant {
        Instant::now().checked_add(longest).map_or(self.at, |at| at.min(self.at))
    }

    /// Pauses, at most up to the deadline. False if there is no time left for another try.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        tokio::time::sleep_until(until.min(self.at).into()).await;
        until < self.at
    }
}

/// Growing pauses with chance in them, so that many clients do not come back at once.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// 10 to 19 ms, doubled with each further try up to 32 times that.
    pub(crate) fn next(&mut self) -> Duration {
        let doubled = self.tries.min(MAX_DOUBLINGS);
        self.tries = self.tries.saturating_add(1);
        Duration::from_millis(fastrand::u64(10..20) << doubled)
    }
}

/// What to do after a failed try at a tablet server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// It is busy: the same server again, after a pause.
    SameServer,
    /// The whole server cannot be reached.
    ServerFailed,
    /// This replica cannot serve; others may.
    ReplicaFailed,
    /// Another replica leads.
    NotLeader,
    /// The tablet is not there: ask the master.
    TabletGone,
    /// The scanner is no longer known there.
    ScannerGone,
    /// A newer authorization token is wanted.
    NewToken,
    /// Trying again does not help.
    GiveUp,
}

/// What a failed try at a write says about the next one (services.md, section 3).
pub(crate) fn advise_writer(error: &AttemptError) -> Advice {
    match error {
        AttemptError::Tablet { refusal, .. } => match (refusal.code, refusal.status) {
            (TabletCode::TABLET_NOT_FOUND, _) => Advice::TabletGone,
            (_, StatusCode::ILLEGAL_STATE | StatusCode::ABORTED) => Advice::NotLeader,
            (TabletCode::THROTTLED, _) | (_, StatusCode::SERVICE_UNAVAILABLE) => Advice::SameServer,
            _ => Advice::GiveUp,
        },
        other => advise_any(other),
    }
}

/// What a failed try at a scan says about the next one.
pub(crate) fn advise_scanner(error: &AttemptError) -> Advice {
    match error {
        AttemptError::Tablet { refusal, .. } => match (refusal.code, refusal.status) {
            (TabletCode::TABLET_NOT_FOUND, _) => Advice::TabletGone,
            (TabletCode::TABLET_FAILED | TabletCode::TABLET_NOT_RUNNING, _) => Advice::ReplicaFailed,
            (TabletCode::SCANNER_EXPIRED, _) => Advice::ScannerGone,
            (TabletCode::THROTTLED, _) | (_, StatusCode::SERVICE_UNAVAILABLE) => Advice::SameServer,
            _ => Advice::GiveUp,
        },
        other => advise_any(other),
    }
}

fn advise_any(error: &AttemptError) -> Advice {
    match error {
        AttemptError::Resolve { .. } => Advice::ServerFailed,
        AttemptError::Call { source, .. } => advise_call(source),
        AttemptError::NoReplica { .. } => Advice::TabletGone,
        _ => Advice::GiveUp,
    }
}

fn advise_call(error: &CallError) -> Advice {
    match error {
        CallError::Network { .. } | CallError::TimedOut { .. } => Advice::ServerFailed,
        CallError::Remote { error, .. } => match error.code {
            Some(RpcErrorCode::ERROR_SERVER_TOO_BUSY | RpcErrorCode::ERROR_UNAVAILABLE) => Advice::SameServer,
            Some(RpcErrorCode::FATAL_SERVER_SHUTTING_DOWN) => Advice::ServerFailed,
            Some(RpcErrorCode::ERROR_INVALID_AUTHORIZATION_TOKEN) => Advice::NewToken,
            _ => Advice::GiveUp,
        },
        CallError::Negotiation { .. } if error.is_retriable() => Advice::ServerFailed,
        _ => Advice::GiveUp,
    }
}

/// Whether nobody answers at the address at all, so that another address of the name is worth a try.
pub(crate) fn is_unreachable(error: &CallError) -> bool {
    match error {
        CallError::Network { .. } | CallError::Negotiation { .. } => true,
        CallError::TimedOut { stage, .. } => *stage == CallStage::Connecting,
        _ => false,
    }
}

/// Whether a failed try at a master may be repeated, at this master or another.
pub(crate) fn may_ask_master_again(error: &AttemptError) -> bool {
    use crate::code::MasterCode;
    match error {
        AttemptError::Resolve { .. } | AttemptError::NotLeader { .. } | AttemptError::BadLocations { .. } => {
            true
        }
        AttemptError::Call { source, .. } => {
            source.is_timeout() || !matches!(advise_call(source), Advice::GiveUp | Advice::NewToken)
        }
        AttemptError::Master { refusal, .. } => {
            matches!(
                refusal.code,
                MasterCode::NOT_THE_LEADER
                    | MasterCode::CATALOG_MANAGER_NOT_INITIALIZED
                    | MasterCode::TABLET_NOT_RUNNING
            ) || refusal.status == StatusCode::SERVICE_UNAVAILABLE
        }
        _ => false,
    }
}

/// Whether the master that failed like this should no longer be taken for the leader.
pub(crate) fn is_leader_lost(error: &AttemptError) -> bool {
    use crate::code::MasterCode;
    match error {
        AttemptError::Master { refusal, .. } => {
            matches!(refusal.code, MasterCode::NOT_THE_LEADER | MasterCode::CATALOG_MANAGER_NOT_INITIALIZED)
        }
        AttemptError::Call { source, .. } => match &**source {
            CallError::Remote { error, .. } => error.code == Some(RpcErrorCode::FATAL_SERVER_SHUTTING_DOWN),
            _ => true,
        },
        AttemptError::Resolve { .. } | AttemptError::NotLeader { .. } => true,
        _ => false,
    }
}

const MAX_DOUBLINGS: u32 = 5;
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
