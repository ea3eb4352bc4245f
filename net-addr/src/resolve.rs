//! Names to IP addresses.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Finds the IP addresses of a host name.
///
/// Calls block the thread, for seconds when a name server is slow: async code calls them where blocking is allowed.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of `host`, best first; may be empty. Errors say why the name could not be looked up.
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

impl<R: Resolver + ?Sized> Resolver for Arc<R> {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        (**self).resolve(host)
    }
}

/// Why a name gave no address; found inside the `io::Error` that [`CachingResolver`] and [`crate::HostPort::resolve`] return.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// The look-up itself failed.
    #[error("cannot resolve `{host}`: {cause}")]
    Failed {
        /// The name asked for.
        host: String,
        /// What the resolver said.
        cause: Arc<io::Error>,
    },
    /// The look-up worked and found nothing.
    #[error("cannot resolve `{host}`: it has no address")]
    NoAddress {
        /// The name asked for.
        host: String,
    },
    /// The thread that looked the name up panicked.
    #[error("cannot resolve `{host}`: the resolver panicked")]
    Panicked {
        /// The name asked for.
        host: String,
    },
}

impl ResolveError {
    /// True for all but a panic: name servers recover and names appear.
    pub fn is_retriable(&self) -> bool {
        !matches!(self, Self::Panicked { .. })
    }
}

impl From<ResolveError> for io::Error {
    fn from(error: ResolveError) -> Self {
        let kind = match &error {
            ResolveError::Failed { cause, .. } => cause.kind(),
            ResolveError::NoAddress { .. } => io::ErrorKind::NotFound,
            ResolveError::Panicked { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// The operating system's resolver: hosts file, DNS, whatever it is set up to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut ips = Vec::new();
        for addr in (host, 0).to_socket_addrs()? {
            if !ips.contains(&addr.ip()) {
                ips.push(addr.ip());
            }
        }
        Ok(ips)
    }
}

/// Asks the resolver behind it at most once a name and time to live, however many ask at once.
///
/// Those who ask while a look-up of the same name runs wait for its answer; other names are not held up. A failure is
/// remembered for a second at most. A look-up of more than 200 ms is logged as a warning with its time.
pub struct CachingResolver<R> {
    inner: R,
    ttl: Duration,
    names: Mutex<HashMap<String, Entry>>,
}

type Answer = Result<Arc<[IpAddr]>, ResolveError>;

enum Entry {
    Known { answer: Answer, until: Instant },
    Asking(Arc<Lookup>),
}

#[derive(Default)]
struct Lookup {
    answer: Mutex<Option<Answer>>,
    done: Condvar,
}

impl<R: Resolver> CachingResolver<R> {
    /// Keeps answers of `inner` for `ttl`, counted from the end of the look-up; with zero only concurrent look-ups are joined.
    pub fn new(inner: R, ttl: Duration) -> Self {
        Self { inner, ttl, names: Mutex::default() }
    }

    /// Forgets what is known of `host`, so that the next call asks again: after a connection to its address failed.
    /// A look-up that is under way still answers those who wait for it, but is not remembered.
    pub fn invalidate(&self, host: &str) {
        self.names.lock().remove(host);
    }

    /// The remembered answer, if there is one, without blocking.
    pub fn peek(&self, host: &str) -> Option<io::Result<Vec<IpAddr>>> {
        match self.names.lock().get(host) {
            Some(Entry::Known { answer, until }) if Instant::now() < *until => Some(to_io(answer.clone())),
            _ => None,
        }
    }

    fn ask(&self, host: &str, lookup: &Arc<Lookup>) -> Answer {
        let guard = Finish { resolver: self, host, lookup };
        let begun = Instant::now();
        let answer = self.inner.resolve(host);
        let took = begun.elapsed();
        if took > SLOW {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(host, took_ms, "slow name look-up: `{host}` took {took_ms} ms");
        }
        let answer = answer
            .map(Arc::from)
            .map_err(|cause| ResolveError::Failed { host: host.to_owned(), cause: Arc::new(cause) });
        guard.finish(answer.clone());
        answer
    }

    fn store(&self, host: &str, lookup: &Arc<Lookup>, answer: &Answer) {
        let now = Instant::now();
        let keep = match answer {
            Ok(ips) if !ips.is_empty() => self.ttl,
            _ => self.ttl.min(MAX_NEGATIVE_TTL),
        };
        let mut names = self.names.lock();
        if !matches!(names.get(host), Some(Entry::Asking(asking)) if Arc::ptr_eq(asking, lookup)) {
            return;
        }
        if names.len() > MAX_NAMES {
            names.retain(|_, entry| match entry {
                Entry::Known { until, .. } => now < *until,
                Entry::Asking(_) => true,
            });
        }
        match now.checked_add(keep) {
            Some(until) if !keep.is_zero() => {
                names.insert(host.to_owned(), Entry::Known { answer: answer.clone(), until });
            }
            _ => {
                names.remove(host);
            }
        }
    }
}

impl<R: Resolver> Resolver for CachingResolver<R> {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let (lookup, mine) = {
            let mut names = self.names.lock();
            match names.get(host) {
                Some(Entry::Known { answer, until }) if Instant::now() < *until => {
                    return to_io(answer.clone());
                }
                Some(Entry::Asking(lookup)) => (lookup.clone(), false),
                _ => {
                    let lookup = Arc::new(Lookup::default());
                    names.insert(host.to_owned(), Entry::Asking(lookup.clone()));
                    (lookup, true)
                }
            }
        };
        to_io(if mine { self.ask(host, &lookup) } else { lookup.wait() })
    }
}

impl Lookup {
    fn wait(&self) -> Answer {
        let mut answer = self.answer.lock();
        loop {
            match &*answer {
                Some(answer) => return answer.clone(),
                None => self.done.wait(&mut answer),
            }
        }
    }
}

/// Wakes those who wait even when the inner resolver panics.
struct Finish<'a, R: Resolver> {
    resolver: &'a CachingResolver<R>,
    host: &'a str,
    lookup: &'a Arc<Lookup>,
}

impl<R: Resolver> Finish<'_, R> {
    fn finish(&self, answer: Answer) {
        self.resolver.store(self.host, self.lookup, &answer);
        *self.lookup.answer.lock() = Some(answer);
        self.lookup.done.notify_all();
    }
}

impl<R: Resolver> Drop for Finish<'_, R> {
    fn drop(&mut self) {
        if self.lookup.answer.lock().is_none() {
            self.finish(Err(ResolveError::Panicked { host: self.host.to_owned() }));
        }
    }
}

fn to_io(answer: Answer) -> io::Result<Vec<IpAddr>> {
    answer.map(|ips| ips.to_vec()).map_err(io::Error::from)
}

impl<R> std::fmt::Debug for CachingResolver<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachingResolver")
            .field("ttl", &self.ttl)
            .field("names", &self.names.lock().len())
            .finish()
    }
}

const SLOW: Duration = Duration::from_millis(200);
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(1);
/// Beyond this, names whose time has passed are swept out when another is stored.
const MAX_NAMES: usize = 1024;
