//! Waiting until a table can be created: the master leads and knows every tablet server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use net_addr::HostPort;
use proto::kudu::master::ListTabletServersRequestPb;
use proto::methods::master_service::ListTabletServers;
use rpc_core::{Messenger, Proxy};

use crate::ClusterError;

/// How often the master is asked.
const POLL: Duration = Duration::from_millis(2);

/// Returns once the master at `master` lists all of `uuids`.
pub(crate) fn wait_for_tservers(
    master: &HostPort,
    uuids: &[String],
    deadline: Instant,
) -> Result<(), ClusterError> {
    let started = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ClusterError::os("cannot make a runtime"))?;
    runtime.block_on(async {
        let messenger = Messenger::builder().build();
        let address =
            master.as_ip().ok_or_else(|| not_ready(started, "the master's address is not numeric".into()))?;
        let proxy = Proxy::new(&messenger, address, &master.host);
        let mut last = String::from("the master has not answered yet");
        while Instant::now() < deadline {
            let answer = proxy
                .call::<ListTabletServers>(&ListTabletServersRequestPb::default())
                .deadline(deadline.min(Instant::now() + Duration::from_secs(2)))
                .send()
                .await;
            match answer {
                Ok(answer) => {
                    let listed: BTreeSet<&[u8]> = answer
                        .message
                        .servers
                        .iter()
                        .map(|s| s.instance_id.permanent_uuid.as_ref())
                        .collect();
                    let missing = uuids.iter().filter(|uuid| !listed.contains(uuid.as_bytes())).count();
                    if answer.message.error.is_none() && missing == 0 {
                        return Ok(());
                    }
                    last = format!("{missing} tablet servers have not registered");
                }
                Err(e) => last = e.to_string(),
            }
            tokio::time::sleep(POLL).await;
        }
        Err(not_ready(started, last))
    })
}

fn not_ready(started: Instant, state: String) -> ClusterError {
    ClusterError::NotReady { waited: started.elapsed(), state }
}
