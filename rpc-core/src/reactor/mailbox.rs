//! How other tasks and threads hand things to a connection's task: a list, and one mark a turn.

use std::task::{Context, Waker};

use parking_lot::Mutex;

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    waker: Option<Waker>,
    /// The task is in its turn, or marked to have one: no need to wake it again.
    awake: bool,
    /// Another turn is wanted though there may be no item.
    kicked: bool,
    closed: bool,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: Vec::new(),
                waker: None,
                awake: true,
                kicked: false,
                closed: false,
            }),
        }
    }

    /// Leaves `item` for the task; gives it back if the task is gone.
    pub(crate) fn post(&self, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(item);
        }
        state.items.push(item);
        if !std::mem::replace(&mut state.awake, true) {
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        Ok(())
    }

    /// Takes back the newest item that is `wanted`, if the task has not yet seen it.
    pub(crate) fn retract(&self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut state = self.state.lock();
        let position = state.items.iter().rposition(wanted)?;
        Some(state.items.remove(position))
    }

    /// Moves all items to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        let mut state = self.state.lock();
        state.awake = true;
        into.append(&mut state.items);
    }

    /// Ends a turn. True = nothing was there, and the next item wakes the task; false = have another turn.
    pub(crate) fn rest(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.kicked) || !state.items.is_empty() {
            return false;
        }
        state.awake = false;
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        true
    }

    /// Gives the task a turn though there is no item.
    pub(crate) fn wake(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.kicked = true;
            state.awake = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// From now on nothing is taken; what nobody has seen comes back.
    pub(crate) fn close(&self) -> Vec<T> {
        let mut state = self.state.lock();
        state.closed = true;
        state.waker = None;
        std::mem::take(&mut state.items)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_marked_once_a_turn() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let cx = Context::from_waker(&waker);
        let mailbox = Mailbox::new();
        mailbox.post(1).unwrap();
        assert!(!mailbox.rest(&cx), "an item came before the first rest");
        let mut items = Vec::new();
        mailbox.take(&mut items);
        assert!(mailbox.rest(&cx));
        for item in 2..5 {
            mailbox.post(item).unwrap();
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(mailbox.retract(|item| *item == 3), Some(3));
        assert_eq!(mailbox.retract(|item| *item == 3), None);
        mailbox.take(&mut items);
        assert_eq!(items, [1, 2, 4]);
        mailbox.post(5).unwrap();
        assert_eq!(mailbox.close(), [5]);
        assert_eq!(mailbox.post(6), Err(6));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
