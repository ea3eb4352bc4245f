//! The flags of Kudu 1.18.1, every one: `known_flags.tsv` beside this file.

use std::sync::OnceLock;

use crate::flags::value::Kind;

/// Which of the two servers a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It keeps the catalog.
    Master,
    /// It keeps rows.
    TabletServer,
}

/// What a flag is, apart from its value.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// With underscores.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The value before anyone sets it, as text.
    pub default: &'static str,
    /// Separated by commas, sorted: `advanced`, `experimental`, `hidden`, `runtime`, `sensitive`, `stable`, `unsafe`, ...
    pub tags: &'static str,
}

impl Spec {
    /// May it be changed while the server runs?
    pub fn is_runtime(&self) -> bool {
        self.has_tag("runtime")
    }

    /// Does it carry this tag?
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.split(',').any(|own| own == tag)
    }
}

/// The flags of the real server of this role, sorted by name.
pub(crate) fn known(role: Role) -> &'static [Spec] {
    static MASTER: OnceLock<Vec<Spec>> = OnceLock::new();
    static TABLET_SERVER: OnceLock<Vec<Spec>> = OnceLock::new();
    match role {
        Role::Master => MASTER.get_or_init(|| read('m')),
        Role::TabletServer => TABLET_SERVER.get_or_init(|| read('t')),
    }
}

/// One flag a line: name, type, servers (m, t), default, tags, separated by tabs.
fn read(server: char) -> Vec<Spec> {
    let mut specs: Vec<Spec> = TABLE
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let (name, kind, servers) = (fields.next()?, fields.next()?, fields.next()?);
            let (default, tags) = (fields.next()?, fields.next()?);
            servers.contains(server).then_some(Spec { name, kind: Kind::from_name(kind)?, default, tags })
        })
        .collect();
    specs.sort_unstable_by_key(|spec| spec.name);
    specs
}

const TABLE: &str = include_str!("known_flags.tsv");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_the_table_is_lost_and_every_default_is_a_value() {
        let lines =
            |server: char| TABLE.lines().filter(|l| l.split('\t').nth(2).unwrap().contains(server)).count();
        for (role, server, real) in [(Role::Master, 'm', 633 - 14), (Role::TabletServer, 't', 511 - 14)] {
            let specs = known(role);
            assert_eq!(specs.len(), lines(server));
            // What `--helpxml` of the real server lists, less the 14 flags of the parser itself.
            assert_eq!(specs.len(), real);
            assert!(specs.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, none twice");
            for spec in specs {
                assert!(spec.kind.parse(spec.default).is_some(), "{spec:?}");
            }
        }
    }

    #[test]
    fn defaults_that_differ_between_the_servers_are_kept_apart() {
        let default = |role, name| known(role).iter().find(|spec| spec.name == name).map(|spec| spec.default);
        assert_eq!(default(Role::Master, "rpc_num_service_threads"), Some("10"));
        assert_eq!(default(Role::TabletServer, "rpc_num_service_threads"), Some("20"));
        assert_eq!(default(Role::TabletServer, "tserver_master_addrs"), Some("127.0.0.1:7051"));
    }
}
