//! The real `kudu` command line on a cluster, each command with an expectation, over TCP and over unix sockets.

mod alter;
mod limits;
mod load;
mod tables;

use anyhow::Result;

use super::Kit;
use super::suite::{Run, Suite, Verdict};
use super::target::Target;
use super::unix::Watch;

/// How the command line is told to reach tablet servers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Tcp,
    Unix,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Tcp => "tcp",
            Way::Unix => "unix",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Way::Tcp => &[],
            Way::Unix => &["--client_use_unix_domain_sockets=true", "--unlock_experimental_flags"],
        }
    }
}

/// One way through all commands.
struct Session<'a, 'kit> {
    suite: &'a mut Suite<'kit>,
    target: &'a Target,
    way: Way,
    /// What the names of this session's tables begin with.
    prefix: String,
}

pub(super) fn run(kit: &Kit, target: &Target, rows: u64) -> Result<()> {
    println!("\ninterop: the kudu command line on {}", target.master);
    let mut suite = Suite::new(kit);
    for way in [Way::Tcp, Way::Unix] {
        let prefix = format!("interop_{}_{}", way.name(), std::process::id());
        let mut session = Session { suite: &mut suite, target, way, prefix };
        session.servers()?;
        session.definitions()?;
        session.alterations()?;
        session.every_type()?;
        session.rows(rows)?;
        if way == Way::Tcp {
            session.limits()?;
        }
        session.drop_tables()?;
    }
    suite.finish()
}

impl Session<'_, '_> {
    /// Runs `kudu` with the flags of this way and records the verdict.
    fn check(&mut self, name: &str, arguments: &[&str], verdict: impl FnOnce(&Run) -> Verdict) -> Result<()> {
        let run = self.kudu(arguments)?;
        let verdict = verdict(&run);
        self.record(name, &run, verdict);
        Ok(())
    }

    /// As [`Session::check`]; also fails when tablet servers were not reached in the way of the session.
    fn check_way(
        &mut self,
        name: &str,
        arguments: &[&str],
        verdict: impl FnOnce(&Run) -> Verdict,
    ) -> Result<()> {
        let sockets = self.target.tservers.iter().map(|t| format!("@kudu-{}", t.uuid)).collect();
        let watch = Watch::start(sockets);
        let run = self.kudu(arguments)?;
        let connections = watch.finish();
        let verdict = verdict(&run).and_then(|()| match (self.way, connections) {
            (Way::Unix, 0) => Err("no connection to a unix socket was seen".to_owned()),
            (Way::Tcp, 1..) => Err("a unix socket was used without being asked for".to_owned()),
            _ => Ok(()),
        });
        self.record(name, &run, verdict);
        Ok(())
    }

    fn kudu(&self, arguments: &[&str]) -> Result<Run> {
        self.suite.kudu(&[arguments, self.way.flags()].concat())
    }

    fn record(&mut self, name: &str, run: &Run, verdict: Verdict) {
        self.suite.record(&format!("cli::{}::{name}", self.way.name()), run, verdict);
    }

    fn table(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn servers(&mut self) -> Result<()> {
        let master = self.target.master.clone();
        let m = master.as_str();
        self.check("master_list", &["master", "list", m], |run| {
            run.shows(&[m])?;
            run.lines("LEADER", 1)
        })?;
        let twice = format!("{m},localhost:{}", m.rsplit(':').next().unwrap_or_default());
        self.check("master_list_with_the_same_master_twice", &["master", "list", &twice], |run| {
            run.lines("LEADER", 1)
        })?;
        let status = "version_string: \"1.18.1\"";
        self.check("master_status", &["master", "status", m], |run| run.shows(&[status]))?;
        let tservers = self.target.tservers.clone();
        self.check("tserver_list", &["tserver", "list", m], |run| {
            tservers.iter().try_for_each(|t| run.shows(&[&t.uuid, &t.address]))
        })?;
        for tserver in &tservers {
            self.check("tserver_status", &["tserver", "status", &tserver.address], |run| {
                run.shows(&[status, &tserver.uuid])
            })?;
        }
        self.check("an_unreachable_master_is_an_error", &["master", "status", "127.0.0.1:1"], |run| {
            run.refused("Network error")
        })
    }

    fn drop_tables(&mut self) -> Result<()> {
        let m = self.target.master.clone();
        for table in self.listed(&self.prefix)? {
            self.check("table_delete", &["table", "delete", &m, &table], Run::ok)?;
        }
        let prefix = self.prefix.clone();
        self.check("deleted_tables_are_gone", &["table", "list", &m], |run| run.lines(&prefix, 0))
    }

    /// Names of the tables that begin so.
    fn listed(&self, prefix: &str) -> Result<Vec<String>> {
        let list = self.kudu(&["table", "list", &self.target.master])?;
        let names = list.out.lines().filter(|name| name.starts_with(prefix));
        Ok(names.map(str::to_owned).collect())
    }
}
