//! Answers given on the reactor's own thread, while it hands out the calls of a connection: they need no mailbox.

use std::cell::RefCell;

use super::connection::Shared;
use crate::call::Answer;

/// While it lives, the answers of one connection that are given on this thread are collected.
pub(crate) struct Turn(());

#[derive(Default)]
struct Current {
    /// Which connection, by the address of what its responders share.
    connection: Option<usize>,
    answers: Vec<(i32, Answer)>,
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current { connection: None, answers: Vec::new() }) };
}

impl Turn {
    /// Collects from now on, behind what is in `answers`.
    pub(crate) fn begin(shared: &Shared, answers: Vec<(i32, Answer)>) -> Self {
        CURRENT.with_borrow_mut(|current| {
            *current = Current { connection: Some(std::ptr::from_ref(shared).addr()), answers };
        });
        Self(())
    }

    /// What was collected.
    pub(crate) fn end(self) -> Vec<(i32, Answer)> {
        CURRENT.with_borrow_mut(|current| std::mem::take(&mut current.answers))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Also when a handler panics: nobody would ask for answers that are given after that.
        let left = CURRENT.with_borrow_mut(std::mem::take);
        drop(left);
    }
}

/// Keeps an answer if it is of the connection whose turn it is on this thread; else gives it back.
pub(crate) fn keep(shared: &Shared, call_id: i32, answer: Answer) -> Option<Answer> {
    CURRENT.with_borrow_mut(|current| {
        if current.connection != Some(std::ptr::from_ref(shared).addr()) {
            return Some(answer);
        }
        current.answers.push((call_id, answer));
        None
    })
}
