//! Answers given on the reactor's own thread, while it hands out the calls of a connection: they need no mailbox, and
//! small ones are encoded in place.

use std::cell::RefCell;

use super::connection::Shared;
use crate::call::Answer;
use crate::machine::outbox::{self, UNCOPIED};

/// What is collected. A thread keeps its memory from turn to turn.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) answers: Vec<(i32, Answer)>,
    /// Calls that `frames` answers.
    pub(crate) call_ids: Vec<i32>,
    pub(crate) frames: Vec<u8>,
    /// How much of `frames` is whole: an encoder that panics leaves half a frame.
    whole: usize,
}

impl Answers {
    const NONE: Self = Self { answers: Vec::new(), call_ids: Vec::new(), frames: Vec::new(), whole: 0 };
}

/// While it lives, the answers of one connection that are given on this thread are collected.
pub(crate) struct Turn(());

struct Current {
    /// Which connection, by the address of what its responders share; 0 = none.
    connection: usize,
    answers: Answers,
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current { connection: 0, answers: Answers::NONE }) };
}

impl Turn {
    /// Collects from now on.
    pub(crate) fn begin(shared: &Shared) -> Self {
        CURRENT.with_borrow_mut(|current| current.connection = address(shared));
        Self(())
    }

    /// Is the frame that was collected last the answer of this call?
    pub(crate) fn has_frame(&self, call_id: i32) -> bool {
        CURRENT.with_borrow(|current| current.answers.call_ids.last() == Some(&call_id))
    }

    /// Hands over what was collected; `take` must leave nothing.
    pub(crate) fn end(self, take: impl FnOnce(&mut Answers)) {
        CURRENT.with_borrow_mut(|current| {
            current.connection = 0;
            let Answers { frames, whole, .. } = &mut current.answers;
            frames.truncate(std::mem::take(whole));
            take(&mut current.answers);
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // When a handler panics: nobody would ask for answers that are given after that.
        let left = CURRENT.with_borrow_mut(|current| {
            let panicked = std::mem::take(&mut current.connection) != 0;
            panicked.then(|| std::mem::replace(&mut current.answers, Answers::NONE))
        });
        drop(left);
    }
}

/// Keeps an answer if it is of the connection whose turn it is on this thread; else gives it back.
pub(crate) fn keep(shared: &Shared, call_id: i32, answer: Answer) -> Option<Answer> {
    CURRENT.with_borrow_mut(|current| {
        if current.connection != address(shared) {
            return Some(answer);
        }
        current.answers.answers.push((call_id, answer));
        None
    })
}

/// As [`keep`], for a success without sidecars whose body of `len` bytes `encode` appends; false = not kept.
pub(crate) fn encode(
    shared: &Shared,
    call_id: i32,
    len: usize,
    encode: &mut dyn FnMut(&mut Vec<u8>),
) -> bool {
    len < UNCOPIED
        && CURRENT.with_borrow_mut(|current| {
            if current.connection != address(shared) {
                return false;
            }
            let Answers { call_ids, frames, whole, .. } = &mut current.answers;
            frames.truncate(*whole);
            if !outbox::put_answer_frame(frames, call_id, len, encode) {
                return false;
            }
            *whole = frames.len();
            call_ids.push(call_id);
            true
        })
}

fn address(shared: &Shared) -> usize {
    std::ptr::from_ref(shared).addr()
}
