//! Mailboxes, calls and jobs in every order of their threads.

use loom_models::{in_every_order, models};

macro_rules! in_every_order {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let orders = in_every_order(models::$name);
            println!("{}: {orders} orders", stringify!($name));
            assert!(orders > 1, "there is something to choose");
        }
    )*};
}

in_every_order! {
    no_item_is_lost
    no_item_is_lost_when_the_task_ends
    a_wake_without_an_item_is_not_lost
    each_caller_gets_its_own_answer
    an_answer_to_a_cancelled_call_is_not_that_of_the_next
    each_job_is_run_once_or_refused
    an_idle_worker_gets_the_job
}
