//! A call that needs no memory of its own takes none: what each allocation costs is a tenth of a small call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proto::kudu::master::{PingRequestPb, PingResponsePb};
use proto::methods::master_service::{Ping, SERVICE};
use rpc_core::{Messenger, Proxy};
use rpc_server::{Call, Server, Service};

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every method hands its arguments to the system's allocator unchanged and returns what that returns.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; `alloc` above got the block from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CALLERS: usize = 50;
const CALLS: usize = 200;

fn allocations_per_call(service: Service) -> f64 {
    let server = Server::builder().reactors(1).bind("127.0.0.1:0".parse().unwrap()).service(service).start();
    let server = server.unwrap();
    server.ready();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let proxy = Proxy::new(&Messenger::builder().build(), server.bound_addresses()[0].clone(), "localhost");
    let round = || {
        runtime.block_on(async {
            let caller = || {
                let proxy = proxy.clone();
                async move {
                    for _ in 0..CALLS {
                        let call = proxy.call::<Ping>(&PingRequestPb {}).timeout(Duration::from_secs(20));
                        call.send().await.unwrap();
                    }
                }
            };
            let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller())).collect();
            for caller in callers {
                caller.await.unwrap();
            }
        });
    };
    // Connects, and lets all buffers grow to their size.
    round();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    round();
    let count = ALLOCATIONS.load(Ordering::Relaxed) - before;
    server.shutdown();
    count as f64 / (CALLERS * CALLS) as f64
}

/// One test, so that no other counts along.
#[test]
fn calls_allocate_less_than_once_a_side() {
    let answer = |call: Call<Ping>| call.respond(&PingResponsePb {});
    let cheap = allocations_per_call(Service::builder(SERVICE).cheap::<Ping>(answer).build());
    // Both sides together; what is left is a share of what a turn takes for all of its calls.
    assert!(cheap < 0.5, "{cheap} allocations a cheap call");
    let queued = Service::builder(SERVICE).queue_length(1000).threads(1).method::<Ping>(answer).build();
    let queued = allocations_per_call(queued);
    assert!(queued < 2.0, "{queued} allocations a queued call");
    println!("{cheap} and {queued} allocations a cheap and a queued call");
}
