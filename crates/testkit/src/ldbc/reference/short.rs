//! The short reads of the interactive workload.

use std::cmp::Reverse;

use super::{
    complex::{content, named},
    facts::Facts,
    order::top,
};
use crate::ldbc::cell::{Answer, Cell, Parameters};

pub(super) fn profile(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let person = &facts.network.persons[facts.person(given.int("personId"))];
    vec![vec![
        (&person.first_name).into(),
        (&person.last_name).into(),
        Cell::Time(person.birthday),
        (&person.ip).into(),
        person.browser.into(),
        facts.network.places[person.city].id.into(),
        person.gender.into(),
        Cell::Time(person.created),
    ]]
    .into()
}

pub(super) fn own_messages(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let own = &facts.messages_of[facts.person(given.int("personId"))];
    let rows = own.iter().map(|at| {
        let message = facts.at(*at);
        let root = facts.at(facts.network.root(*at));
        let text = message.image.as_ref().or(message.content.as_ref());
        let mut row = vec![
            message.id.into(),
            text.map_or(Cell::Null, Cell::from),
            Cell::Time(message.created),
            root.id.into(),
        ];
        row.extend(named(facts, root.creator));
        ((Reverse(message.created), message.id), row)
    });
    top(rows.collect(), 10)
}

pub(super) fn friends(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let friends = &facts.friends[facts.person(given.int("personId"))];
    let rows = friends.iter().map(|(friend, since)| {
        let mut row = named(facts, *friend);
        row.push(Cell::Time(*since));
        ((Reverse(*since), facts.network.persons[*friend].id), row)
    });
    top(rows.collect(), usize::MAX)
}

pub(super) fn content_of(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let message = facts.at(facts.message(given.int("messageId")));
    vec![vec![Cell::Time(message.created), content(message)]].into()
}

pub(super) fn creator(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let message = facts.at(facts.message(given.int("messageId")));
    vec![named(facts, message.creator)].into()
}

pub(super) fn forum(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let message = facts.message(given.int("messageId"));
    let forum = &facts.network.forums[facts.network.forum_of(message)];
    let mut row = vec![forum.id.into(), (&forum.title).into()];
    row.extend(named(facts, forum.moderator));
    vec![row].into()
}

pub(super) fn replies(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let replies = &facts.replies[facts.message(given.int("messageId"))];
    let rows = replies.iter().map(|at| {
        let comment = facts.at(*at);
        let mut row = vec![
            comment.id.into(),
            content(comment),
            Cell::Time(comment.created),
        ];
        row.extend(named(facts, comment.creator));
        // `CASE r WHEN null` is never true, so that the last column says nothing.
        row.push(true.into());
        let author = facts.network.persons[comment.creator].id;
        ((Reverse(comment.created), author), row)
    });
    top(rows.collect(), usize::MAX)
}
