//! What must hold in every order.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use loom::future::block_on;
use loom::thread;

use crate::handover::{Handover, Put};
use crate::link::{Command, Link, Outcome};
use crate::machine::OutboundCall;
use crate::reactor::mailbox::Mailbox;

/// Two threads leave items for a task that rests in between: it sees them all, each thread's in order.
pub fn no_item_is_lost() {
    let mailbox = Arc::new(Mailbox::<(usize, usize)>::new());
    let posters: Vec<_> = (0..2)
        .map(|poster| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                for item in 0..2 {
                    assert!(mailbox.post((poster, item)).is_ok());
                }
            })
        })
        .collect();
    let mut seen = Vec::new();
    block_on(std::future::poll_fn(|cx| {
        loop {
            mailbox.take(&mut seen);
            if seen.len() == 4 {
                return Poll::Ready(());
            }
            if mailbox.rest(cx) {
                return Poll::Pending;
            }
        }
    }));
    for poster in 0..2 {
        assert!(seen.iter().filter(|item| item.0 == poster).map(|item| item.1).eq(0..2));
    }
    posters.into_iter().for_each(|poster| poster.join().expect("no panic"));
}

/// A task ends while another thread leaves an item: the item is seen, or comes back to one of them.
pub fn no_item_is_lost_when_the_task_ends() {
    let mailbox = Arc::new(Mailbox::<usize>::new());
    let poster = {
        let mailbox = Arc::clone(&mailbox);
        thread::spawn(move || {
            [0, 1].into_iter().filter_map(|item| mailbox.post(item).err()).collect::<Vec<_>>()
        })
    };
    let mut seen = Vec::new();
    mailbox.take(&mut seen);
    let mut left = mailbox.close();
    let refused = poster.join().expect("no panic");
    seen.append(&mut left);
    seen.extend(refused);
    assert_eq!(seen, [0, 1]);
}

/// A task that rests is woken by a flag that another thread sets, though there is no item.
pub fn a_wake_without_an_item_is_not_lost() {
    use loom::sync::atomic::{AtomicBool, Ordering};
    let (mailbox, stopping) = (Arc::new(Mailbox::<()>::new()), Arc::new(AtomicBool::new(false)));
    let stopper = {
        let (mailbox, stopping) = (Arc::clone(&mailbox), Arc::clone(&stopping));
        thread::spawn(move || {
            stopping.store(true, Ordering::SeqCst);
            mailbox.wake();
        })
    };
    let mut none = Vec::new();
    block_on(std::future::poll_fn(|cx| {
        loop {
            mailbox.take(&mut none);
            if stopping.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            if mailbox.rest(cx) {
                return Poll::Pending;
            }
        }
    }));
    stopper.join().expect("no panic");
}

fn call(body: &'static [u8]) -> Option<OutboundCall> {
    let body = Bytes::from_static(body).into();
    Some(OutboundCall { service: "S", method: "M", body, extras: None, deadline: None })
}

/// Answers each call with its own body until the link is closed or `most` calls are answered; how many there were, and how
/// many to be forgotten.
fn serve(link: &Link, most: usize) -> (usize, usize) {
    let (mut commands, mut outcomes, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
    let (mut calls, mut cancelled) = (0, 0);
    block_on(std::future::poll_fn(|cx| {
        loop {
            link.commands.take(&mut commands);
            for command in commands.drain(..) {
                match command {
                    Command::Call { ticket, call, .. } => {
                        calls += 1;
                        outcomes.push((ticket, Ok((call.body, Vec::new()))));
                    }
                    Command::Cancel { .. } => cancelled += 1,
                    Command::Close => return Poll::Ready(()),
                }
            }
            link.complete(outcomes.drain(..), &mut wakers);
            if calls == most {
                return Poll::Ready(());
            }
            if link.commands.rest(cx) {
                return Poll::Pending;
            }
        }
    }));
    (calls, cancelled)
}

fn exchange(link: &Link, body: &'static [u8]) -> Outcome {
    let (mut call, mut ticket) = (call(body), None);
    block_on(std::future::poll_fn(|cx| match ticket {
        None => {
            ticket = link.begin(&mut call, None, cx.waker());
            assert!(ticket.is_some(), "the link is open");
            Poll::Pending
        }
        Some(ticket) => link.poll(ticket, cx),
    }))
}

fn is(outcome: &Outcome, body: &[u8]) -> bool {
    outcome.as_ref().is_ok_and(|(answer, _)| answer.as_slice() == body)
}

fn link() -> Arc<Link> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    Arc::new(Link::new(runtime.handle().id()))
}

/// Two callers on threads of their own: each is woken, and gets its own answer.
pub fn each_caller_gets_its_own_answer() {
    let link = link();
    let callers: Vec<_> = [&b"one"[..], b"two"]
        .into_iter()
        .map(|body| {
            let link = Arc::clone(&link);
            thread::spawn(move || assert!(is(&exchange(&link, body), body)))
        })
        .collect();
    assert_eq!(serve(&link, 2), (2, 0));
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
}

/// A call that was begun in one task and is awaited in another wakes the other.
pub fn a_call_that_moves_wakes_its_new_task() {
    let link = link();
    let caller = {
        let link = Arc::clone(&link);
        thread::spawn(move || {
            let ticket = link.begin(&mut call(b"moved"), None, std::task::Waker::noop());
            let ticket = ticket.expect("the link is open");
            assert!(is(&block_on(std::future::poll_fn(|cx| link.poll(ticket, cx))), b"moved"));
        })
    };
    assert_eq!(serve(&link, 1), (1, 0));
    caller.join().expect("no panic");
}

/// A caller gives up while its answer comes; its next call has the same place, and gets its own answer.
pub fn an_answer_to_a_cancelled_call_is_not_that_of_the_next() {
    let link = link();
    let caller = {
        let link = Arc::clone(&link);
        thread::spawn(move || {
            let waker = std::task::Waker::noop();
            let ticket = link.begin(&mut call(b"given up"), None, waker).expect("the link is open");
            link.cancel(ticket);
            assert!(is(&exchange(&link, b"next"), b"next"));
            link.close();
        })
    };
    let (calls, cancelled) = serve(&link, usize::MAX);
    // Taken back before the task saw it; seen and told to be forgotten; or answered before.
    assert!(matches!((calls, cancelled), (1, 0) | (2, 0 | 1)), "{calls} {cancelled}");
    caller.join().expect("no panic");
}

/// Items, workers and the end: each item is run once or comes back, and each worker ends.
pub fn each_job_is_run_once_or_refused() {
    let handover = Arc::new(Handover::new(2, 1));
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let handover = Arc::clone(&handover);
            thread::spawn(move || {
                std::iter::from_fn(|| handover.next(worker).map(|(job, _)| job)).collect::<Vec<usize>>()
            })
        })
        .collect();
    let mut done = Vec::new();
    for job in 0..3 {
        match handover.put(None, job) {
            Put::Taken => {}
            Put::Refused(job) | Put::Closed(job) => done.push(job),
        }
    }
    done.extend(handover.close());
    assert!(matches!(handover.put(None, 9), Put::Closed(9)));
    workers.into_iter().for_each(|worker| done.extend(worker.join().expect("no panic")));
    done.sort_unstable();
    assert_eq!(done, [0, 1, 2]);
}

/// A worker that waits is woken for a job, whoever else waits.
pub fn an_idle_worker_gets_the_job() {
    let handover = Arc::new(Handover::new(2, 8));
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let handover = Arc::clone(&handover);
            thread::spawn(move || handover.next(worker).map(|(job, _)| job))
        })
        .collect();
    for job in 0..2 {
        assert!(matches!(handover.put(None, job), Put::Taken));
    }
    // Without a close: a lost wake-up leaves a worker waiting for ever.
    let mut done: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
    done.sort_unstable();
    assert_eq!(done, [Some(0), Some(1)]);
}
