//! Command-line flags in the manner of gflags: every flag of the real server is known, some have an effect.

mod allowed;
mod error;
mod help;
mod known;
mod parse;
mod suggest;
mod value;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

pub use error::{FlagError, Place, SetError};
pub use known::{Role, Spec};
pub use value::{Kind, Value};

/// A server's flags and their values. Clones share the values; reading takes a short lock.
///
/// ```
/// use server_base::flags::{FlagSet, Outcome, Role};
///
/// let flags = FlagSet::builder(Role::TabletServer, "nyala-tserver")
///     .acts_on("heartbeat_interval_ms", "how often the master hears of this server")
///     .default_value("rpc_bind_addresses", "127.0.0.1:7050")
///     .build();
/// assert!(matches!(flags.parse(["--heartbeat-interval-ms=100"])?, Outcome::Run { .. }));
/// assert_eq!(flags.int("heartbeat_interval_ms"), 100);
/// assert_eq!(flags.string("rpc_bind_addresses"), "127.0.0.1:7050");
/// # Ok::<(), server_base::flags::FlagError>(())
/// ```
#[derive(Clone)]
pub struct FlagSet(Arc<Inner>);

struct Inner {
    program: String,
    role: Role,
    /// Sorted by name.
    specs: Vec<Spec>,
    acting: BTreeMap<&'static str, &'static str>,
    start_only: HashSet<&'static str>,
    /// What was set, by whatever way.
    values: RwLock<HashMap<&'static str, Value>>,
    warned: Mutex<HashSet<&'static str>>,
}

/// Makes a [`FlagSet`].
#[must_use = "call build()"]
pub struct FlagSetBuilder {
    program: String,
    role: Role,
    specs: Vec<Spec>,
    acting: BTreeMap<&'static str, &'static str>,
    start_only: HashSet<&'static str>,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// To run, with the arguments that are no flags.
    Run {
        /// In their order; the real servers take none.
        positional: Vec<String>,
    },
    /// To print this text to standard output and exit with status 0.
    Print(String),
}

/// A flag as it stands, for listings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlagInfo {
    /// With underscores.
    pub name: &'static str,
    /// `<redacted>` for those with the tag `sensitive`, if they are set.
    pub value: String,
    /// Was it never set?
    pub is_default: bool,
    /// Sorted.
    pub tags: Vec<&'static str>,
}

impl FlagSetBuilder {
    /// The server heeds this flag; `about` tells in one line what it does, for `--help`.
    ///
    /// # Panics
    /// If there is no such flag.
    pub fn acts_on(mut self, name: &'static str, about: &'static str) -> Self {
        self.position(name);
        self.acting.insert(name, about);
        self
    }

    /// As [`acts_on`](Self::acts_on), for a list.
    ///
    /// # Panics
    /// If there is no such flag.
    pub fn acts_on_all(self, list: &[(&'static str, &'static str)]) -> Self {
        list.iter().fold(self, |builder, (name, about)| builder.acts_on(name, about))
    }

    /// Flags that Kudu reads while it runs and this server only when it starts: SetFlag refuses them, unless forced.
    ///
    /// # Panics
    /// If there is no such flag.
    pub fn read_at_start(mut self, names: &[&'static str]) -> Self {
        for name in names {
            self.position(name);
            self.start_only.insert(name);
        }
        self
    }

    /// Our default where it is not Kudu's.
    ///
    /// # Panics
    /// If there is no such flag, or `default` is no value of it.
    pub fn default_value(mut self, name: &'static str, default: &'static str) -> Self {
        let position = self.position(name);
        let spec = &mut self.specs[position];
        assert!(spec.kind.parse(default).is_some(), "--{name} cannot be {default}");
        spec.default = default;
        self
    }

    /// A flag of our own that no Kudu has; it acts.
    ///
    /// # Panics
    /// If a flag of this name exists, or `default` is no value of `kind`.
    pub fn own(mut self, name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Self {
        let Err(position) = self.specs.binary_search_by_key(&name, |spec| spec.name) else {
            panic!("--{name} exists already");
        };
        assert!(kind.parse(default).is_some(), "--{name} cannot be {default}");
        self.specs.insert(position, Spec { name, kind, default, tags: "" });
        self.acting.insert(name, about);
        self
    }

    /// The finished set, all values at their defaults.
    pub fn build(self) -> FlagSet {
        FlagSet(Arc::new(Inner {
            program: self.program,
            role: self.role,
            specs: self.specs,
            acting: self.acting,
            start_only: self.start_only,
            values: RwLock::default(),
            warned: Mutex::default(),
        }))
    }

    fn position(&self, name: &str) -> usize {
        match self.specs.binary_search_by_key(&name, |spec| spec.name) {
            Ok(position) => position,
            Err(_) => panic!("there is no flag --{name}"),
        }
    }
}

impl FlagSet {
    /// Starts with all flags of the real server of this role, at its defaults; those of [`COMMON`] act.
    /// `program` is for texts only.
    pub fn builder(role: Role, program: impl Into<String>) -> FlagSetBuilder {
        let specs = known::known(role).to_vec();
        let (program, acting, start_only) = (program.into(), BTreeMap::new(), HashSet::new());
        FlagSetBuilder { program, role, specs, acting, start_only }.acts_on_all(COMMON)
    }

    /// The name of the program in texts.
    pub fn program(&self) -> &str {
        &self.0.program
    }

    /// Which server's flags these are.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// What the flag of this name (with underscores) is.
    pub fn spec(&self, name: &str) -> Option<Spec> {
        let position = self.0.specs.binary_search_by_key(&name, |spec| spec.name).ok()?;
        Some(self.0.specs[position])
    }

    /// All flags, by name.
    pub fn specs(&self) -> &[Spec] {
        &self.0.specs
    }

    /// Does the server heed this flag?
    pub fn acts_on(&self, name: &str) -> bool {
        self.0.acting.contains_key(name)
    }

    /// Was this flag set, even if to its default?
    pub fn is_set(&self, name: &str) -> bool {
        self.0.values.read().contains_key(name)
    }

    /// A boolean flag.
    ///
    /// # Panics
    /// If there is no such flag, or it is of another type: a fault of the program.
    pub fn bool(&self, name: &str) -> bool {
        match self.value(name) {
            Value::Bool(value) => value,
            _ => panic!("--{name} is no boolean"),
        }
    }

    /// An integer flag of any width; a `uint64` beyond `i64` becomes `i64::MAX`.
    ///
    /// # Panics
    /// If there is no such flag, or it is of another type: a fault of the program.
    pub fn int(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Int(value) => value,
            Value::Uint(_) => i64::MAX,
            _ => panic!("--{name} is no integer"),
        }
    }

    /// A string flag.
    ///
    /// # Panics
    /// If there is no such flag, or it is of another type: a fault of the program.
    pub fn string(&self, name: &str) -> String {
        match self.value(name) {
            Value::String(value) => value,
            _ => panic!("--{name} is no string"),
        }
    }

    /// An integer flag as a count; below 0 is 0.
    ///
    /// # Panics
    /// As [`int`](Self::int).
    pub fn count(&self, name: &str) -> usize {
        usize::try_from(self.int(name).max(0)).unwrap_or(usize::MAX)
    }

    /// An integer flag in milliseconds; `None` if negative, which stands for never.
    ///
    /// # Panics
    /// As [`int`](Self::int).
    pub fn millis(&self, name: &str) -> Option<Duration> {
        u64::try_from(self.int(name)).ok().map(Duration::from_millis)
    }

    /// Changes a flag while the server runs and gives its old value as text. Only flags with the tag `runtime` may be changed,
    /// others if `force`d; what was read of those at the start does not change by that.
    pub fn set(&self, name: &str, value: &str, force: bool) -> Result<String, SetError> {
        let Some(spec) = self.spec(name) else {
            return Err(SetError::NoSuchFlag { name: name.to_owned() });
        };
        if !force && !self.is_runtime(&spec) {
            return Err(SetError::NotSafe { name: spec.name });
        }
        let old = self.text(&spec);
        match spec.kind.parse(value) {
            Some(parsed) if allowed::check(spec.name, &parsed).is_ok() => {
                self.store(spec.name, parsed);
                Ok(old)
            }
            _ => Err(SetError::BadValue { name: spec.name, value: value.to_owned(), old }),
        }
    }

    fn is_runtime(&self, spec: &Spec) -> bool {
        spec.is_runtime() && !self.0.start_only.contains(spec.name)
    }

    /// All flags with their values, by name.
    pub fn list(&self) -> Vec<FlagInfo> {
        self.0.specs.iter().map(|spec| self.info(spec)).collect()
    }

    /// Logs a warning for each flag that was given and has no effect here, once per flag: call it when logging is set up.
    pub fn warn_ignored(&self) {
        for name in self.take_ignored() {
            tracing::warn!("--{name} is a flag of Kudu that has no effect in Nyala");
        }
    }

    fn take_ignored(&self) -> Vec<&'static str> {
        let mut warned = self.0.warned.lock();
        let mut ignored: Vec<_> = self
            .0
            .values
            .read()
            .keys()
            .copied()
            .filter(|name| !self.acts_on(name) && warned.insert(name))
            .collect();
        ignored.sort_unstable();
        ignored
    }

    fn acting(&self) -> impl Iterator<Item = (Spec, &'static str)> {
        self.0.acting.iter().filter_map(|(name, about)| Some((self.spec(name)?, *about)))
    }

    fn value(&self, name: &str) -> Value {
        if let Some(value) = self.0.values.read().get(name) {
            return value.clone();
        }
        let default = self.spec(name).and_then(|spec| spec.kind.parse(spec.default));
        default.unwrap_or_else(|| panic!("there is no flag --{name}"))
    }

    fn info(&self, spec: &Spec) -> FlagInfo {
        let is_default = !self.is_set(spec.name);
        let hidden = spec.has_tag("sensitive") && !is_default;
        FlagInfo {
            name: spec.name,
            value: if hidden { "<redacted>".to_owned() } else { self.text(spec) },
            is_default,
            tags: spec
                .tags
                .split(',')
                .filter(|tag| !tag.is_empty() && (*tag != RUNTIME || self.is_runtime(spec)))
                .collect(),
        }
    }

    fn text(&self, spec: &Spec) -> String {
        self.0.values.read().get(spec.name).map_or_else(|| spec.default.to_owned(), Value::to_string)
    }

    fn store(&self, name: &'static str, value: Value) {
        self.0.values.write().insert(name, value);
    }

    fn unknown(&self, name: &str, place: Place) -> FlagError {
        let other = match self.0.role {
            Role::Master => Role::TabletServer,
            Role::TabletServer => Role::Master,
        };
        let elsewhere = known::known(other).binary_search_by_key(&name, |spec| spec.name).is_ok();
        let suggestion =
            suggest::nearest(name, self.0.specs.iter().map(|spec| spec.name).chain(PARSER_FLAGS));
        FlagError::Unknown { name: name.to_owned(), suggestion, elsewhere, place }
    }
}

impl std::fmt::Debug for FlagSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = self.0.values.read();
        let mut names: Vec<_> = set.keys().collect();
        names.sort_unstable();
        f.debug_struct("FlagSet").field("program", &self.0.program).field("set", &names).finish()
    }
}

/// The tag of flags that may be changed while the server runs.
const RUNTIME: &str = "runtime";

/// Flags of the parser itself.
const PARSER_FLAGS: [&str; 6] = ["flagfile", "help", "helpfull", "helpshort", "undefok", "version"];

/// The flags that act in every server that uses this crate.
pub const COMMON: &[(&str, &str)] = &[
    ("v", "log more: 1 is debug, 2 and above is trace (RUST_LOG goes before)"),
    ("logtostderr", "accepted: logs always go to standard error"),
    ("unlock_experimental_flags", "accepted: no flag needs unlocking here"),
    ("unlock_unsafe_flags", "accepted: no flag needs unlocking here"),
    ("user_acl", "users who may use the server, separated by commas; * is everybody"),
    (
        "superuser_acl",
        "users who may administer the server, separated by commas; empty is the user who runs it",
    ),
];
