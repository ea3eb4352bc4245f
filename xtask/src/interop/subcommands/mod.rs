//! Every subcommand of the real command line on our cluster and on the real one, side by side.

mod calls;
mod help;
mod page;
mod shape;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::calls::{CALLS, Call, LAST, SICK};
use self::page::Row;
use self::shape::{Look, Outcome, compare};
use super::Kit;
use super::suite::{Run, Suite};
use super::target::{Servers, Target};
use crate::step;

/// The page with the result.
const PAGE: &str = "docs/compatibility.md";
/// How long a server that was started may take until the cluster shows it.
const START: Duration = Duration::from_secs(180);

/// Runs all calls on both clusters; `write` puts the result into docs/compatibility.md, otherwise a subcommand that differs and
/// is not marked so there is an error.
pub(super) fn run(kit: &Kit, write: bool) -> Result<()> {
    let suite = Suite::new(kit);
    let commands = help::subcommands(&suite)?;
    let mut sides = [Side::start(kit, Servers::Ours)?, Side::start(kit, Servers::Real)?];
    let bar = xtask::report::progress((CALLS.len() + SICK.len() + LAST.len()) as u64, "calls");
    let mut outcomes: Vec<(&str, Outcome)> = Vec::new();
    for (health, calls) in [(Health::Green, CALLS), (Health::Sick, SICK), (Health::Green, LAST)] {
        sides.iter_mut().try_for_each(|side| side.turn(&suite, health))?;
        for call in calls {
            let [ours, real] = &mut sides;
            let (ours, real) = (ours.call(&suite, call)?, real.call(&suite, call)?);
            let outcome = compare(call.look, &ours, &real);
            bar.inc(1);
            match &outcome {
                Outcome::Differs(how) => {
                    bar.suspend(|| println!("kudu {} {}: {how}", call.command, call.arguments.join(" ")))
                }
                Outcome::Works | Outcome::Refused => {}
            }
            outcomes.push((call.command, outcome));
        }
    }
    bar.finish_and_clear();
    for side in sides {
        side.target.stop()?;
    }
    let rows = commands
        .into_iter()
        .map(|(command, about)| row(command, about, &outcomes))
        .collect::<Result<Vec<_>>>()?;
    println!("{}", page::summary(&rows));
    let path = step::root().join(PAGE);
    if write {
        let date = step::capture(std::process::Command::new("date").args(["-u", "+%F"]))?;
        std::fs::write(path, page::page(&rows, date.trim()))?;
        return Ok(());
    }
    let page = std::fs::read_to_string(path).context(PAGE)?;
    let known = page::recorded(&page);
    let new: Vec<&str> = rows
        .iter()
        .filter(|row| row.differs() && !known.contains(&row.command.as_str()))
        .map(|row| row.command.as_str())
        .collect();
    if !new.is_empty() {
        bail!(
            "{} subcommands differ from the real servers, which {PAGE} does not say: {}",
            new.len(),
            new.join(", ")
        );
    }
    Ok(())
}

/// A subcommand works when all its calls did what they do on the real cluster, and one of them was not refused.
fn row(command: String, about: String, outcomes: &[(&str, Outcome)]) -> Result<Row> {
    let own: Vec<&Outcome> =
        outcomes.iter().filter(|(name, _)| *name == command).map(|(_, outcome)| outcome).collect();
    let differs = own.iter().find(|outcome| matches!(outcome, Outcome::Differs(_)));
    let works = own.iter().find(|outcome| **outcome == &Outcome::Works);
    let outcome = differs.or(works).or(own.first()).with_context(|| format!("no call of {command}"))?;
    Ok(Row { command, about, calls: own.len(), outcome: (*outcome).clone() })
}

/// How a cluster is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    /// All servers are up, and `ksck` finds nothing to complain of.
    Green,
    /// The server of a tablet of `shop` is stopped.
    Sick,
}

/// One of the two clusters and what is known of it.
struct Side {
    target: Target,
    folder: tempfile::TempDir,
    /// The server that the last `tserver run` brought.
    new_uuid: String,
    /// Ids of tables by the name that they had when they were last seen.
    ids: Vec<(String, String)>,
    /// The number of the server that is stopped.
    away: Option<usize>,
}

impl Side {
    fn start(kit: &Kit, servers: Servers) -> Result<Side> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("cluster");
        // On disk, as real servers always are.
        let target = Target::start_with(kit, servers, 3, |builder| builder.data_dir(data))?;
        Ok(Side { target, folder, new_uuid: String::new(), ids: Vec::new(), away: None })
    }

    /// Stops a server or starts it again; returns when that is to be seen.
    fn turn(&mut self, suite: &Suite<'_>, health: Health) -> Result<()> {
        if health == Health::Sick {
            let (_, uuid) = self.tablet(suite)?;
            self.away = Some(self.target.stop_tserver(&uuid)?);
            return Ok(());
        }
        let Some(number) = self.away.take() else { return Ok(()) };
        self.target.start_tserver(number)?;
        let end = Instant::now() + START;
        loop {
            let ksck = suite.kudu(&["cluster", "ksck", &self.target.master])?;
            match ksck.code {
                Some(0) => return Ok(()),
                _ if Instant::now() > end => {
                    bail!("a server that was started again is not green: {}", ksck.out)
                }
                _ => std::thread::sleep(Duration::from_millis(500)),
            }
        }
    }

    fn call(&mut self, suite: &Suite<'_>, call: &Call) -> Result<Run> {
        // Nobody knows the id of a table that is gone.
        if call.command == "table delete" {
            self.look(suite)?;
        }
        let mut words: Vec<String> = call.command.split(' ').map(str::to_owned).collect();
        for argument in call.arguments {
            words.push(self.fill(suite, argument)?);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match call.look {
            Look::Server => self.serve(suite, &words),
            _ => suite.kudu(&words),
        }
    }

    /// Notes the ids of all tables.
    fn look(&mut self, suite: &Suite<'_>) -> Result<()> {
        // With columns of choice it prints a table, whatever format is asked for.
        let list = suite.kudu(&["table", "list", &self.target.master, "--columns=id,name"])?;
        for (id, name) in list.out.lines().filter_map(|line| line.split_once('|')) {
            let (id, name) = (id.trim(), name.trim());
            if id.len() == 32 {
                self.ids.retain(|(_, known)| known != name);
                self.ids.push((id.to_owned(), name.to_owned()));
            }
        }
        if self.ids.is_empty() {
            bail!("no table has an id: {}", list.out);
        }
        Ok(())
    }

    fn fill(&self, suite: &Suite<'_>, argument: &str) -> Result<String> {
        let mut text = argument.replace("{m}", &self.target.master).replace("{new_uuid}", &self.new_uuid);
        text = text.replace("{dir}", &self.folder.path().to_string_lossy());
        if text.contains("{port}") {
            // Real servers take no port 0; this one is free again when the listener is dropped.
            let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            text = text.replace("{port}", &free.to_string());
        }
        for (index, tserver) in self.target.tservers.iter().enumerate() {
            text = text
                .replace(&format!("{{t{index}}}"), &tserver.address)
                .replace(&format!("{{u{index}}}"), &tserver.uuid);
        }
        for (id, name) in &self.ids {
            text = text.replace(&format!("{{id:{name}}}"), id);
        }
        if ["{tablet}", "{home}", "{home_uuid}", "{other}", "{other_uuid}"]
            .iter()
            .any(|name| text.contains(name))
        {
            let (tablet, uuid) = self.tablet(suite)?;
            let server = |is_home: bool| {
                let mut servers = self.target.tservers.iter();
                servers.find(|t| (t.uuid == uuid) == is_home).context("a tablet server")
            };
            text = text.replace("{tablet}", &tablet).replace("{home_uuid}", &uuid);
            text = text.replace("{home}", &server(true)?.address).replace("{other}", &server(false)?.address);
            text = text.replace("{other_uuid}", &server(false)?.uuid);
        }
        Ok(text)
    }

    /// A tablet of the table `shop`, and the uuid of its server.
    fn tablet(&self, suite: &Suite<'_>) -> Result<(String, String)> {
        let list = suite.kudu(&["table", "list", &self.target.master, "--list_tablets", "--tables=shop"])?;
        let word = |mark: &str| {
            let mut lines = list.out.lines().map(str::trim);
            lines.find_map(|line| line.strip_prefix(mark)?.split_whitespace().next().map(str::to_owned))
        };
        Ok((word("T ").context("a tablet of shop")?, word("L ").context("the server of a tablet of shop")?))
    }

    /// Runs a server until the cluster shows it (a tablet server) or its port answers (a master), then ends it.
    fn serve(&mut self, suite: &Suite<'_>, words: &[&str]) -> Result<Run> {
        let mut child = suite.start(words)?;
        let end = Instant::now() + START;
        let mut run = Run::default();
        while Instant::now() < end && run.code.is_none() {
            std::thread::sleep(Duration::from_millis(200));
            if let Some(status) = child.try_wait()? {
                run.code = Some(status.code().unwrap_or(-1));
            } else if words[0] == "tserver" {
                let list = suite.kudu(&[
                    "tserver",
                    "list",
                    &self.target.master,
                    "--columns=uuid",
                    "--format=space",
                ])?;
                let known = |uuid: &str| self.target.tservers.iter().any(|t| t.uuid == uuid);
                if let Some(uuid) = list.out.split_whitespace().find(|word| word.len() == 32 && !known(word))
                {
                    self.new_uuid = uuid.to_owned();
                    run.code = Some(0);
                }
            } else if self.folder.path().join("master/instance").exists() {
                run.code = Some(0);
            }
        }
        child.kill()?;
        child.wait()?;
        Ok(run)
    }
}
