//! Mailboxes, calls and jobs in every order of their threads.

use loom_models::{in_every_order, models};

macro_rules! in_every_order {
    ($($preemptions:literal $name:ident)*) => {$(
        #[test]
        fn $name() {
            let orders = in_every_order($preemptions, models::$name);
            println!("{}: {orders} orders", stringify!($name));
            assert!(orders > 1, "there is something to choose");
        }
    )*};
}

in_every_order! {
    3 no_item_is_lost
    3 no_item_is_lost_when_the_task_ends
    3 a_wake_without_an_item_is_not_lost
    2 each_caller_gets_its_own_answer
    3 a_call_that_moves_wakes_its_new_task
    3 an_answer_to_a_cancelled_call_is_not_that_of_the_next
    3 each_job_is_run_once_or_refused
    3 an_idle_worker_gets_the_job
}
