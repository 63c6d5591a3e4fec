//! The conformance tests that every engine must pass.
//!
//! An engine implements [`Subject`] and calls [`crate::conformance_tests!`]; each script becomes a test. The
//! scripts assert; a panic is a failure.

mod concurrency;
mod history;
mod life;
mod reads;
mod subject;
mod turns;
mod writes;

pub use concurrency::{
    concurrent_counters, guards_matrix, guards_see_the_group_before_them,
    snapshots_stay_while_others_write, started_commits_end,
};
pub use history::random_history;
pub use life::{
    buffered_commits_become_durable, checkpoint_is_a_database_of_its_own,
    commits_survive_reopening, ingest_is_one_commit, stream_keeps_order_and_is_trimmed,
    verify_finds_nothing,
};
pub use reads::{
    get_many_keeps_order, pages_in_both_directions, pages_under_own_writes, reads_see_commits,
    values_of_all_sizes,
};
pub use subject::{ALL, Make, Random, Subject, SubjectOptions, between, get, pairs, put, scan};
pub use turns::EngineTurns;
pub use writes::{
    delete_ranges_and_own_writes, dropped_transactions_leave_no_trace, limits_are_errors,
    own_writes_are_read, savepoints_nest, what_can_be_undone_is_limited,
};

/// Generates a test of every script, for the engine that `$make` creates.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests!($make;
            reads_see_commits, get_many_keeps_order, values_of_all_sizes, pages_in_both_directions,
            pages_under_own_writes,
            own_writes_are_read, delete_ranges_and_own_writes, savepoints_nest, dropped_transactions_leave_no_trace,
            limits_are_errors, what_can_be_undone_is_limited, guards_matrix, guards_see_the_group_before_them,
            snapshots_stay_while_others_write,
            concurrent_counters, started_commits_end, stream_keeps_order_and_is_trimmed, commits_survive_reopening,
            buffered_commits_become_durable, checkpoint_is_a_database_of_its_own, ingest_is_one_commit,
            verify_finds_nothing);
    };
    ($make:expr; $($script:ident),+) => {
        $(
            #[test]
            fn $script() {
                $crate::conformance::$script($make);
            }
        )+
    };
}
