//! How other tasks and threads hand things to a connection's task: a list, and one mark a turn.

use std::task::{Context, Waker};

use crate::sync::Mutex;

/// `S` is what else its lock guards.
#[derive(Debug)]
pub(crate) struct Mailbox<T, S = ()> {
    state: Mutex<State<T, S>>,
}

#[derive(Debug)]
struct State<T, S> {
    items: Vec<T>,
    beside: S,
    waker: Option<Waker>,
    /// The task is in its turn, or marked to have one: no need to wake it again.
    awake: bool,
    /// Another turn is wanted though there may be no item.
    kicked: bool,
    closed: bool,
}

impl<T, S: Default> Mailbox<T, S> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                items: Vec::new(),
                beside: S::default(),
                waker: None,
                awake: true,
                kicked: false,
                closed: false,
            }),
        }
    }

    /// Leaves `item` for the task; gives it back if the task is gone.
    pub(crate) fn post(&self, item: T) -> Result<(), T> {
        let mut item = Some(item);
        self.post_with(|_| (item.take(), ()));
        item.map_or(Ok(()), Err)
    }

    /// Leaves what `make` makes for the task, if it makes something; `None` = the task is gone, and `make` was not asked.
    pub(crate) fn post_with<R>(&self, make: impl FnOnce(&mut S) -> (Option<T>, R)) -> Option<R> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        let (item, result) = make(&mut state.beside);
        if let Some(item) = item {
            state.items.push(item);
            if !std::mem::replace(&mut state.awake, true) {
                let waker = state.waker.take();
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
        Some(result)
    }

    /// What the task has not yet seen, and what else the lock guards.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut Vec<T>, &mut S) -> R) -> R {
        let state = &mut *self.state.lock();
        look(&mut state.items, &mut state.beside)
    }

    /// Moves all items to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        let mut state = self.state.lock();
        state.awake = true;
        if into.is_empty() {
            std::mem::swap(into, &mut state.items);
        } else {
            into.append(&mut state.items);
        }
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
        let mailbox = Mailbox::<_, ()>::new();
        mailbox.post(1).unwrap();
        assert!(!mailbox.rest(&cx), "an item came before the first rest");
        let mut items = Vec::new();
        mailbox.take(&mut items);
        assert!(mailbox.rest(&cx));
        for item in 2..5 {
            mailbox.post(item).unwrap();
        }
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        mailbox.with(|items, ()| items.retain(|item| *item != 3));
        mailbox.take(&mut items);
        assert_eq!(items, [1, 2, 4]);
        mailbox.post(5).unwrap();
        assert_eq!(mailbox.close(), [5]);
        assert_eq!(mailbox.post(6), Err(6));
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
