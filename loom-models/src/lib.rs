//! The code in which threads meet, run by loom in every order that matters.
//!
//! The files of `rpc-core` and `rpc-server` are compiled here as they are. All they have from their own crates is found
//! under the same path here, and `sync` gives them loom's locks in place of those of `parking_lot`.
//!
//! A model runs its threads in all orders with at most so many switches away from a thread that could go on; switches at a
//! lock that is taken, or while a thread waits, do not count. It fails when a thread panics, and when all
//! threads wait: that is what a lost wake-up looks like.
//!
//! What it is not: a test of weak memory orders in atomics. There are none here: everything that is shared is behind a lock.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub mod models;
mod sync;

// What the files below name as `crate::`.
use rpc_core::{call, machine, negotiate, wire};

#[path = "../../rpc-core/src/messenger/link.rs"]
#[allow(dead_code, unreachable_pub)]
mod link;

#[path = "../../rpc-core/src/reactor/mailbox.rs"]
#[allow(dead_code, unreachable_pub)]
mod mailbox;

mod reactor {
    pub(crate) use super::mailbox;
}

#[path = "../../rpc-server/src/queue.rs"]
#[allow(dead_code, unreachable_pub)]
mod queue;

#[path = "../../rpc-server/src/handover.rs"]
#[allow(dead_code, unreachable_pub)]
mod handover;

/// Runs `threads` in every order with at most `preemptions` switches away from a thread that could go on; how many orders
/// there were. A bug in code without weak memory orders mostly shows with two.
pub fn in_every_order(preemptions: usize, threads: impl Fn() + Sync + Send + 'static) -> usize {
    let orders = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&orders);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        threads();
    });
    orders.load(Ordering::Relaxed)
}
