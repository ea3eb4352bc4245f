//! Finding the leading master, and asking it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use net_addr::HostPort;
use parking_lot::Mutex;
use proto::kudu::consensus::raft_peer_pb::Role;
use proto::kudu::master::{self, ConnectToMasterRequestPb, ConnectToMasterResponsePb, MasterErrorPb};
use proto::methods::master_service::ConnectToMaster;
use rpc_core::{Messenger, Method, Proxy};
use tokio::task::JoinSet;

use crate::builder::Options;
use crate::client::{Shared, host_port};
use crate::code::{MasterCode, Refusal};
use crate::error::{AttemptError, MasterError};
use crate::names::Names;
use crate::retry::{Backoff, Deadline, is_leader_lost, is_unreachable, may_ask_master_again};

/// The masters of the cluster, and which of them leads.
pub(crate) struct Masters {
    /// As given by the user, then whoever else the leader names.
    known: Mutex<Vec<HostPort>>,
    leader: Mutex<Option<Leader>>,
    /// Held while the leader is looked for, so that many callers cause one search.
    searching: tokio::sync::Mutex<()>,
    cluster_id: Mutex<Option<String>>,
}

#[derive(Clone)]
struct Leader {
    host: HostPort,
    proxy: Proxy,
}

impl fmt::Display for Masters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.known.lock().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(formatter, "{comma}{host}")?;
        }
        Ok(())
    }
}

impl Masters {
    pub(crate) fn new(given: Vec<HostPort>) -> Masters {
        Masters {
            known: Mutex::new(given),
            leader: Mutex::new(None),
            searching: tokio::sync::Mutex::new(()),
            cluster_id: Mutex::new(None),
        }
    }

    pub(crate) fn cluster_id(&self) -> Option<String> {
        self.cluster_id.lock().clone()
    }

    /// Finds the leader for the first time. Gives the location that it assigns to this client.
    pub(crate) async fn connect(
        &self,
        messenger: &Messenger,
        names: &Names,
        options: &Options,
        deadline: &Deadline,
    ) -> Result<String, MasterError> {
        let mut backoff = Backoff::default();
        loop {
            match self.search(messenger, names, options, deadline).await {
                Ok(answer) => return Ok(answer.client_location().to_owned()),
                Err(error) if !may_ask_master_again(&error) => {
                    return Err(refused::<ConnectToMaster>("", error));
                }
                Err(error) => {
                    if !deadline.pause(backoff.next()).await {
                        return Err(self.timed_out::<ConnectToMaster>("", deadline, Some(error)));
                    }
                }
            }
        }
    }

    async fn leader(&self, shared: &Shared, deadline: &Deadline) -> Result<Leader, AttemptError> {
        if let Some(leader) = self.leader.lock().clone() {
            return Ok(leader);
        }
        let _turn = self.searching.lock().await;
        if let Some(leader) = self.leader.lock().clone() {
            return Ok(leader);
        }
        self.search(&shared.messenger, &shared.names, &shared.options, deadline).await?;
        let found = self.leader.lock().clone();
        found.ok_or_else(|| AttemptError::NotLeader { host: self.first_known() })
    }

    /// Asks all masters at once; the first that leads is it.
    async fn search(
        &self,
        messenger: &Messenger,
        names: &Names,
        options: &Options,
        deadline: &Deadline,
    ) -> Result<ConnectToMasterResponsePb, AttemptError> {
        let known = self.known.lock().clone();
        let until = deadline.of_try(options.rpc_timeout);
        let mut tries = JoinSet::new();
        let mut failed = None;
        for host in known {
            let (messenger, names) = (messenger.clone(), names.clone());
            tries.spawn(async move {
                let answer = ask_who_leads(&messenger, &names, &host, until).await;
                (host, answer)
            });
        }
        while let Some(done) = tries.join_next().await {
            let Ok((host, answer)) = done else { continue };
            match answer {
                Ok((proxy, answer)) if answer.role() == Role::Leader => {
                    self.learn(&answer);
                    *self.leader.lock() = Some(Leader { host, proxy });
                    return Ok(answer);
                }
                Ok(_) => {
                    failed.get_or_insert(AttemptError::NotLeader { host });
                }
                // What stopped a master says more than that another one does not lead.
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| AttemptError::NotLeader { host: self.first_known() }))
    }

    fn learn(&self, answer: &ConnectToMasterResponsePb) {
        if let Some(id) = answer.cluster_id.clone().filter(|id| !id.is_empty()) {
            *self.cluster_id.lock() = Some(id);
        }
        let mut known = self.known.lock();
        // A single master is known already, maybe by a better name than it has for itself.
        if answer.master_addrs.len() > 1 {
            for host in answer.master_addrs.iter().map(host_port) {
                if !known.contains(&host) {
                    known.push(host);
                }
            }
        }
    }

    fn forget_leader(&self, host: &HostPort) {
        let mut leader = self.leader.lock();
        if leader.as_ref().is_some_and(|leader| leader.host == *host) {
            *leader = None;
        }
    }

    fn first_known(&self) -> HostPort {
        self.known.lock().first().cloned().unwrap_or_else(|| HostPort { host: String::new(), port: 0 })
    }

    fn timed_out<M: Method>(
        &self,
        about: &str,
        deadline: &Deadline,
        last: Option<AttemptError>,
    ) -> MasterError {
        MasterError::TimedOut {
            method: M::NAME,
            about: about.to_owned(),
            masters: self.to_string(),
            after: deadline.given(),
            last: last.map(Box::new),
        }
    }
}

impl Shared {
    /// Asks the leading master, looking for it as often as needed, until it answers or refuses for good.
    pub(crate) async fn ask_master<M>(
        &self,
        request: &M::Request,
        features: &[u32],
        about: &str,
        deadline: &Deadline,
    ) -> Result<M::Response, MasterError>
    where
        M: Method,
        M::Response: MasterAnswer,
    {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.masters.leader(self, deadline).await {
                Ok(leader) => match self.try_master::<M>(&leader, request, features, deadline).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => {
                        if is_leader_lost(&error) {
                            self.masters.forget_leader(&leader.host);
                        }
                        error
                    }
                },
                Err(error) => error,
            };
            if !may_ask_master_again(&error) {
                return Err(refused::<M>(about, error));
            }
            if !deadline.pause(backoff.next()).await {
                return Err(self.masters.timed_out::<M>(about, deadline, Some(error)));
            }
        }
    }

    async fn try_master<M>(
        &self,
        leader: &Leader,
        request: &M::Request,
        features: &[u32],
        deadline: &Deadline,
    ) -> Result<M::Response, AttemptError>
    where
        M: Method,
        M::Response: MasterAnswer,
    {
        let mut call = leader.proxy.call::<M>(request).deadline(deadline.of_try(self.options.rpc_timeout));
        for feature in features {
            call = call.feature(*feature);
        }
        let answer = call.send().await.map_err(|source| AttemptError::call(&leader.host, source))?.message;
        match answer.refusal() {
            None => Ok(answer),
            Some(error) => {
                let refusal = Refusal::new(MasterCode(error.code), &error.status);
                Err(AttemptError::Master { host: leader.host.clone(), refusal })
            }
        }
    }

    /// The leading master as messages should name it.
    pub(crate) fn leader_host(&self) -> HostPort {
        let leader = self.masters.leader.lock().clone();
        leader.map_or_else(|| self.masters.first_known(), |leader| leader.host)
    }
}

async fn ask_who_leads(
    messenger: &Messenger,
    names: &Names,
    host: &HostPort,
    until: Instant,
) -> Result<(Proxy, ConnectToMasterResponsePb), AttemptError> {
    let address = names
        .resolve(host, until)
        .await
        .map_err(|source| AttemptError::Resolve { host: host.clone(), source: Arc::new(source) })?;
    let proxy = Proxy::new(messenger, address.clone(), &host.host);
    let call = proxy.call::<ConnectToMaster>(&ConnectToMasterRequestPb::default());
    let answer = call.feature(FEATURE_CONNECT_TO_MASTER).deadline(until).send().await;
    let answer = answer.map_err(|source| {
        if is_unreachable(&source) {
            names.mark_failed(host, &address);
        }
        AttemptError::call(host, source)
    });
    let answer = answer?.message;
    match &answer.error {
        None => Ok((proxy, answer)),
        Some(error) => {
            let refusal = Refusal::new(MasterCode(error.code), &error.status);
            Err(AttemptError::Master { host: host.clone(), refusal })
        }
    }
}

fn refused<M: Method>(about: &str, source: AttemptError) -> MasterError {
    MasterError::Refused { method: M::NAME, about: about.to_owned(), source }
}

/// An answer of a master that may hold a refusal.
pub(crate) trait MasterAnswer {
    fn refusal(&self) -> Option<&MasterErrorPb>;
}

macro_rules! master_answers {
    ($($message:ident),*) => {$(
        impl MasterAnswer for master::$message {
            fn refusal(&self) -> Option<&MasterErrorPb> {
                self.error.as_ref()
            }
        }
    )*};
}
master_answers!(
    AlterTableResponsePb,
    CreateTableResponsePb,
    DeleteTableResponsePb,
    GetTableLocationsResponsePb,
    GetTableSchemaResponsePb,
    GetTableStatisticsResponsePb,
    IsAlterTableDoneResponsePb,
    IsCreateTableDoneResponsePb,
    ListTablesResponsePb,
    ListTabletServersResponsePb,
    RecallDeletedTableResponsePb
);

/// `MasterFeatures::CONNECT_TO_MASTER`.
const FEATURE_CONNECT_TO_MASTER: u32 = 3;
