//! Answers given on the reactor's own thread, while it hands out the calls of a connection: they need no mailbox, and
//! small ones are encoded in place.

use std::cell::RefCell;

use super::connection::Shared;
use crate::call::Answer;
use crate::machine::outbox::{self, UNCOPIED};

/// What is collected. Its memory is kept from turn to turn.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) answers: Vec<(i32, Answer)>,
    /// Calls that `frames` answers.
    pub(crate) call_ids: Vec<i32>,
    pub(crate) frames: Vec<u8>,
    /// How much of `frames` is whole: an encoder that panics leaves half a frame.
    whole: usize,
}

/// While it lives, the answers of one connection that are given on this thread are collected.
pub(crate) struct Turn(());

struct Current {
    /// Which connection, by the address of what its responders share; 0 = none.
    connection: usize,
    answers: Answers,
}

thread_local! {
    static CURRENT: RefCell<Current> = const {
        let answers = Answers { answers: Vec::new(), call_ids: Vec::new(), frames: Vec::new(), whole: 0 };
        RefCell::new(Current { connection: 0, answers })
    };
}

impl Turn {
    /// Collects from now on, behind what is in `answers`.
    pub(crate) fn begin(shared: &Shared, answers: Answers) -> Self {
        CURRENT.with_borrow_mut(|current| *current = Current { connection: address(shared), answers });
        Self(())
    }

    /// Is the frame that was collected last the answer of this call?
    pub(crate) fn has_frame(&self, call_id: i32) -> bool {
        CURRENT.with_borrow(|current| current.answers.call_ids.last() == Some(&call_id))
    }

    /// What was collected.
    pub(crate) fn end(self) -> Answers {
        let mut answers = CURRENT.with_borrow_mut(|current| std::mem::take(&mut current.answers));
        answers.frames.truncate(answers.whole);
        answers.whole = 0;
        answers
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Also when a handler panics: nobody would ask for answers that are given after that.
        let left = CURRENT.with_borrow_mut(|current| {
            current.connection = 0;
            std::mem::take(&mut current.answers)
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
