//! A server with a tiny handler, on TCP and on an abstract unix socket.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part")]

pub mod raw;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use net_addr::SockAddr;
use proto::required::MessageTable;
use rpc_core::{
    Answer, InboundCall, Messenger, Method, Proxy, ReactorPool, RemoteError, Responder, RpcErrorCode,
    ServerOptions,
};
use socket2::{Domain, Socket, Type};

macro_rules! method {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        pub struct $name;

        impl Method for $name {
            type Request = Bytes;
            type Response = Bytes;
            const SERVICE: &'static str = "nyala.test.Service";
            const NAME: &'static str = stringify!($name);
            const TRACKED: bool = false;
            const AUTHZ: &'static str = "";
            const REQUEST: &'static MessageTable = &MessageTable::EMPTY;
            const RESPONSE: &'static MessageTable = &MessageTable::EMPTY;
        }
    )*};
}

method! {
    /// Body and sidecars come back.
    Echo
    /// As Echo, from another thread.
    Later
    /// Fails.
    Fail
    /// The responder goes to [`Rig::held`].
    Hold
    /// Dropped unanswered.
    Drop
    /// As Echo, with as many descriptors as the first byte says, and whether the server may attach any as a sidecar in front.
    Attach
    /// The user's name comes back as a sidecar.
    WhoAmI
    /// The number of the user who the system says is there comes back as a sidecar, if it says so.
    WhatUid
    /// The handler panics.
    Panic
    /// The reactor stands still until [`Rig::release`] is dropped.
    Block
}

pub struct Rig {
    pub pool: Arc<ReactorPool>,
    pub tcp: SockAddr,
    pub unix: SockAddr,
    pub held: mpsc::Receiver<Responder>,
    pub release: Option<mpsc::Sender<()>>,
}

impl Rig {
    pub fn start(reactors: usize, options: ServerOptions) -> Self {
        Self::on(Arc::new(ReactorPool::start("test", reactors).unwrap()), options)
    }

    pub fn on(pool: Arc<ReactorPool>, options: ServerOptions) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("@nyala-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (hold, held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (later, jobs) = mpsc::channel::<InboundCall>();
        std::thread::spawn(move || jobs.into_iter().for_each(echo));
        let released = std::sync::Mutex::new(released);
        let handler: Arc<dyn rpc_core::InboundHandler> =
            Arc::new(move |call: InboundCall| match call.method() {
                "Echo" => echo(call),
                "Later" => later.send(call).unwrap(),
                "Fail" => call
                    .split()
                    .1
                    .fail(RemoteError::new(RpcErrorCode::ERROR_SERVER_TOO_BUSY, "Service unavailable: no")),
                "Hold" => drop(hold.send(call.split().1)),
                "WhoAmI" => {
                    let user = Bytes::from(call.connection().user.clone());
                    call.split().1.respond(Bytes::new(), vec![user]);
                }
                "WhatUid" => {
                    let uid = call.connection().peer_uid.map(|uid| Bytes::from(uid.to_string()));
                    call.split().1.respond(Bytes::new(), uid.into_iter().collect());
                }
                "Attach" => attach(call),
                "Panic" => panic!("as the test wants"),
                "Block" => {
                    let _ = released.lock().unwrap().recv();
                    echo(call);
                }
                _ => drop(call),
            });
        let options = Arc::new(options);
        let tcp = listen(&pool, &SockAddr::parse("127.0.0.1:0", 0).unwrap(), &handler, &options);
        let unix = listen(&pool, &name.parse().unwrap(), &handler, &options);
        Self { pool, tcp, unix, held, release: Some(release) }
    }

    pub fn proxies(&self, messenger: &Messenger) -> [Proxy; 2] {
        [Proxy::new(messenger, self.tcp.clone(), "h"), Proxy::new(messenger, self.unix.clone(), "h")]
    }

    pub fn accepted(&self) -> u64 {
        self.pool.stats().reactors.iter().map(|reactor| reactor.accepted).sum()
    }

    pub fn calls(&self) -> u64 {
        self.pool.stats().reactors.iter().map(|reactor| reactor.calls).sum()
    }

    pub fn connections(&self) -> usize {
        self.pool.stats().connections.len()
    }
}

/// Waits until `done`, for at most two minutes.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn attach(call: InboundCall) {
    let taken = Bytes::from(vec![u8::from(call.connection().takes_descriptors)]);
    let (mut request, responder) = call.split();
    // Behind the tag and the length.
    let count = request.body.get(2).copied().unwrap_or(0);
    let null = || Arc::new(std::fs::File::open("/dev/null").unwrap().into());
    let descriptors = (0..count).map(|_| null()).collect();
    let sidecars = [taken].into_iter().chain(request.take_sidecars()).collect();
    responder.answer(Answer::WithDescriptors { body: request.body, sidecars, descriptors });
}

fn echo(call: InboundCall) {
    let (mut request, responder) = call.split();
    let sidecars = request.take_sidecars();
    responder.respond(request.body, sidecars);
}

/// The acceptor ends with the process.
fn listen(
    pool: &Arc<ReactorPool>,
    address: &SockAddr,
    handler: &Arc<dyn rpc_core::InboundHandler>,
    options: &Arc<ServerOptions>,
) -> SockAddr {
    let domain = if address.is_unix() { Domain::UNIX } else { Domain::IPV4 };
    let listener = Socket::new(domain, Type::STREAM, None).unwrap();
    listener.bind(&address.to_socket2().unwrap()).unwrap();
    listener.listen(1024).unwrap();
    let bound = SockAddr::try_from(&listener.local_addr().unwrap()).unwrap();
    let (pool, handler, options) = (Arc::downgrade(pool), handler.clone(), options.clone());
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let Some(pool) = pool.upgrade() else { return };
            let _ = pool.adopt(socket, handler.clone(), options.clone());
        }
    });
    bound
}
