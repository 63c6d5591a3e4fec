//! The answers of the queries, computed by loops over the structures of a [`Network`].
//!
//! Each function has the name of its query and gives the rows in the order that the query asks for. Where the query
//! leaves an order open, the answer says so: see `Cell::Bag` and [`Answer::tied_by`].

mod business;
mod complex;
mod facts;
mod order;
mod paths;
mod short;
mod updates;

pub use facts::Facts;
pub use updates::apply;

use super::cell::{Answer, Parameters};

/// Computes the answer of a query.
pub type Compute = fn(&Facts<'_>, &Parameters) -> Answer;

/// The queries that read, by the name of their file.
pub const READS: &[(&str, Compute)] = &[
    ("interactive-complex-1", complex::friends_by_name),
    ("interactive-complex-2", complex::recent_messages),
    ("interactive-complex-3", complex::travellers),
    ("interactive-complex-4", complex::new_topics),
    ("interactive-complex-5", complex::new_groups),
    ("interactive-complex-6", complex::tag_co_occurrence),
    ("interactive-complex-7", complex::recent_likers),
    ("interactive-complex-8", complex::recent_replies),
    ("interactive-complex-9", complex::recent_messages_within_two),
    ("interactive-complex-10", complex::friend_recommendation),
    ("interactive-complex-11", complex::job_referral),
    ("interactive-complex-12", complex::expert_search),
    ("interactive-complex-13", paths::shortest_path),
    ("interactive-complex-14", paths::trusted_paths),
    ("interactive-short-1", short::profile),
    ("interactive-short-2", short::own_messages),
    ("interactive-short-3", short::friends),
    ("interactive-short-4", short::content_of),
    ("interactive-short-5", short::creator),
    ("interactive-short-6", short::forum),
    ("interactive-short-7", short::replies),
    ("bi-1", business::posting_summary),
    ("bi-2", business::tag_evolution),
    ("bi-3", business::popular_topics),
    ("bi-4", business::top_creators),
    ("bi-5", business::active_posters),
    ("bi-6", business::authoritative_users),
    ("bi-7", business::related_topics),
    ("bi-8", business::central_persons),
    ("bi-9", business::thread_initiators),
    ("bi-10", business::experts),
    ("bi-11", business::triangles),
    ("bi-12", business::message_histogram),
    ("bi-13", business::zombies),
    ("bi-14", business::dialogs),
    ("bi-15", paths::weighted_interaction),
    ("bi-16", business::fake_news),
    ("bi-17", business::propagation),
    ("bi-18", business::recommendation_by_tag),
    ("bi-19", paths::interaction_between_cities),
    ("bi-20", paths::recruitment),
];
