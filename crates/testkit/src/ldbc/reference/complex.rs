//! The complex reads 1 to 12 of the interactive workload.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    facts::{Facts, civil},
    order::top,
};
use crate::ldbc::{
    cell::{Answer, Cell, Parameters, texts},
    network::Message,
};

/// The text of a message, or the file of its image.
pub(super) fn content(message: &Message) -> Cell {
    let text = message.content.as_ref().or(message.image.as_ref());
    text.map_or(Cell::Null, Cell::from)
}

/// Id, first name and last name of a person.
pub(super) fn named(facts: &Facts<'_>, person: usize) -> Vec<Cell> {
    let person = &facts.network.persons[person];
    vec![
        person.id.into(),
        (&person.first_name).into(),
        (&person.last_name).into(),
    ]
}

pub(super) fn friends_by_name(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let start = facts.person(given.int("personId"));
    let network = facts.network;
    let mut rows = Vec::new();
    for (at, distance) in facts.distances(start).into_iter().enumerate() {
        let friend = &network.persons[at];
        let Some(distance @ 1..=3) = distance else {
            continue;
        };
        if friend.first_name != given.text("firstName") {
            continue;
        }
        // `CASE null WHEN null` compares null with null, which is not true.
        let missing = || Cell::List(vec![Cell::Null; 3]);
        let place = |organisation: usize| {
            let organisation = &network.organisations[organisation];
            (&organisation.name, &network.places[organisation.place].name)
        };
        let entry = |(organisation, year): &(usize, i64)| {
            let (name, place) = place(*organisation);
            Cell::List(vec![name.into(), (*year).into(), place.into()])
        };
        let studied: Vec<Cell> = friend.study.iter().map(entry).collect();
        let worked: Vec<Cell> = friend.work.iter().map(entry).collect();
        let or_missing = |list: Vec<Cell>| match list.is_empty() {
            true => Cell::Bag(vec![missing()]),
            false => Cell::Bag(list),
        };
        let row = vec![
            friend.id.into(),
            (&friend.last_name).into(),
            distance.into(),
            Cell::Time(friend.birthday),
            Cell::Time(friend.created),
            friend.gender.into(),
            friend.browser.into(),
            (&friend.ip).into(),
            texts(&friend.email),
            texts(&friend.speaks),
            (&network.places[friend.city].name).into(),
            or_missing(studied),
            or_missing(worked),
        ];
        rows.push(((distance, friend.last_name.clone(), friend.id), row));
    }
    top(rows, 20)
}

/// A row of a recent message: its author, id, text and time.
fn recent(facts: &Facts<'_>, message: usize) -> ((Reverse<i64>, i64), Vec<Cell>) {
    let of = facts.at(message);
    let mut row = named(facts, of.creator);
    row.extend([of.id.into(), content(of), Cell::Time(of.created)]);
    ((Reverse(of.created), of.id), row)
}

pub(super) fn recent_messages(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let friends = &facts.friends[facts.person(given.int("personId"))];
    let messages = friends
        .iter()
        .flat_map(|(friend, _)| &facts.messages_of[*friend]);
    let within = messages.filter(|at| facts.at(**at).created <= given.time("maxDate"));
    top(within.map(|at| recent(facts, *at)).collect(), 20)
}

pub(super) fn recent_messages_within_two(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let around = facts.around(facts.person(given.int("personId")), 2);
    let messages = around.iter().flat_map(|friend| &facts.messages_of[*friend]);
    let within = messages.filter(|at| facts.at(**at).created < given.time("maxDate"));
    top(within.map(|at| recent(facts, *at)).collect(), 20)
}

pub(super) fn travellers(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let start = facts.person(given.int("personId"));
    let countries = [
        facts.place(given.text("countryXName")),
        facts.place(given.text("countryYName")),
    ];
    let mut rows = Vec::new();
    for friend in facts.around(start, 2) {
        if countries.contains(&facts.country(friend)) {
            continue;
        }
        let counts = countries.map(|country| {
            let own = facts.messages_of[friend].iter().map(|at| facts.at(*at));
            own.filter(|one| one.country == country)
                .filter(|one| {
                    (given.time("startDate")..given.time("endDate")).contains(&one.created)
                })
                .count()
        });
        if counts.contains(&0) {
            continue;
        }
        let both = counts[0] + counts[1];
        let mut row = named(facts, friend);
        row.extend([counts[0].into(), counts[1].into(), both.into()]);
        rows.push(((Reverse(both), facts.network.persons[friend].id), row));
    }
    top(rows, 20)
}

pub(super) fn new_topics(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let (start, end) = (given.time("startDate"), given.time("endDate"));
    let mut counts: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for (friend, _) in &facts.friends[facts.person(given.int("personId"))] {
        for post in facts.messages_of[*friend].iter().map(|at| facts.at(*at)) {
            for tag in post.tags.iter().filter(|_| post.is_post()) {
                let (valid, earlier) = counts.entry(*tag).or_default();
                *valid += usize::from((start..end).contains(&post.created));
                *earlier += usize::from(post.created < start);
            }
        }
    }
    let new = counts
        .into_iter()
        .filter(|(_, (valid, earlier))| *valid > 0 && *earlier == 0);
    let rows = new.map(|(tag, (count, _))| {
        let name = &facts.network.tags[tag].name;
        (
            (Reverse(count), name.clone()),
            vec![name.into(), count.into()],
        )
    });
    top(rows.collect(), 10)
}

pub(super) fn new_groups(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let mut joined: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for friend in facts.around(facts.person(given.int("personId")), 2) {
        for (forum, since) in &facts.forums_of[friend] {
            if *since > given.time("minDate") {
                joined.entry(*forum).or_default().insert(friend);
            }
        }
    }
    let rows = joined.into_iter().map(|(forum, friends)| {
        let posts = facts.in_forum[forum].iter().map(|at| facts.at(*at));
        let own = posts.filter(|post| post.is_post() && friends.contains(&post.creator));
        let count = own.count();
        let forum = &facts.network.forums[forum];
        (
            (Reverse(count), forum.id),
            vec![(&forum.title).into(), count.into()],
        )
    });
    top(rows.collect(), 20)
}

pub(super) fn tag_co_occurrence(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let known = facts.tag(given.text("tagName"));
    let around = facts.around(facts.person(given.int("personId")), 2);
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for post in facts.tagged[known].iter().map(|at| facts.at(*at)) {
        if post.is_post() && around.contains(&post.creator) {
            let others = post.tags.iter().filter(|tag| **tag != known);
            others.for_each(|tag| *counts.entry(*tag).or_default() += 1);
        }
    }
    let rows = counts.into_iter().map(|(tag, count)| {
        let name = &facts.network.tags[tag].name;
        (
            (Reverse(count), name.clone()),
            vec![name.into(), count.into()],
        )
    });
    top(rows.collect(), 10)
}

pub(super) fn recent_likers(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let start = facts.person(given.int("personId"));
    // The latest like of each person; of simultaneous ones that of the message with the lower id.
    let mut latest: BTreeMap<usize, (Reverse<i64>, i64, usize)> = BTreeMap::new();
    for message in &facts.messages_of[start] {
        for (liker, time) in &facts.likes[*message] {
            let like = (Reverse(*time), facts.at(*message).id, *message);
            let known = latest.entry(*liker).or_insert(like);
            *known = (*known).min(like);
        }
    }
    let rows = latest
        .into_iter()
        .map(|(liker, (Reverse(time), _, message))| {
            let message = facts.at(message);
            let mut row = named(facts, liker);
            let seconds = (time - message.created).div_euclid(1_000);
            row.extend([
                Cell::Time(time),
                message.id.into(),
                content(message),
                (seconds / 60).into(),
                (!facts.know(liker, start)).into(),
            ]);
            ((Reverse(time), facts.network.persons[liker].id), row)
        });
    top(rows.collect(), 20)
}

pub(super) fn recent_replies(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let own = &facts.messages_of[facts.person(given.int("personId"))];
    let comments = own.iter().flat_map(|at| &facts.replies[*at]);
    let rows = comments.map(|at| {
        let comment = facts.at(*at);
        let mut row = named(facts, comment.creator);
        row.extend([
            Cell::Time(comment.created),
            comment.id.into(),
            content(comment),
        ]);
        ((Reverse(comment.created), comment.id), row)
    });
    top(rows.collect(), 20)
}

pub(super) fn friend_recommendation(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let start = facts.person(given.int("personId"));
    let month = given.int("month");
    let interests = &facts.network.persons[start].interests;
    let mut rows = Vec::new();
    for (at, distance) in facts.distances(start).into_iter().enumerate() {
        let friend = &facts.network.persons[at];
        let (_, born, day) = civil(friend.birthday);
        let fits = (born == month && day >= 21) || (born == month % 12 + 1 && day < 22);
        if distance != Some(2) || !fits {
            continue;
        }
        let own = facts.messages_of[at].iter().map(|at| facts.at(*at));
        let posts: Vec<&Message> = own.filter(|one| one.is_post()).collect();
        let common = posts
            .iter()
            .filter(|post| post.tags.iter().any(|tag| interests.contains(tag)))
            .count() as i64;
        let score = common - (posts.len() as i64 - common);
        let mut row = named(facts, at);
        let city = &facts.network.places[friend.city].name;
        row.extend([score.into(), friend.gender.into(), city.into()]);
        rows.push(((Reverse(score), friend.id), row));
    }
    top(rows, 10)
}

pub(super) fn job_referral(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let country = facts.place(given.text("countryName"));
    let mut rows = Vec::new();
    for friend in facts.around(facts.person(given.int("personId")), 2) {
        for (company, from) in &facts.network.persons[friend].work {
            let company = &facts.network.organisations[*company];
            if company.place == country && *from < given.int("workFromYear") {
                let mut row = named(facts, friend);
                row.extend([(&company.name).into(), (*from).into()]);
                let id = facts.network.persons[friend].id;
                rows.push(((*from, id, Reverse(company.name.clone())), row));
            }
        }
    }
    top(rows, 10)
}

pub(super) fn expert_search(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let name = given.text("tagClassName");
    let network = facts.network;
    let chosen = |tag: usize| {
        let tag = &network.tags[tag];
        let mut class = Some(tag.class);
        let mut fits = tag.name == name;
        while let Some(at) = class {
            fits |= network.tag_classes[at].name == name;
            class = network.tag_classes[at].parent;
        }
        fits
    };
    let mut rows = Vec::new();
    for (friend, _) in &facts.friends[facts.person(given.int("personId"))] {
        let (mut tags, mut count) = (BTreeSet::new(), 0);
        for comment in &facts.messages_of[*friend] {
            let Some(post) = facts.at(*comment).reply_of().map(|at| facts.at(at)) else {
                continue;
            };
            let of_post: Vec<usize> = post
                .tags
                .iter()
                .copied()
                .filter(|tag| chosen(*tag))
                .collect();
            if post.is_post() && !of_post.is_empty() {
                count += 1;
                tags.extend(of_post);
            }
        }
        if count > 0 {
            let mut row = named(facts, *friend);
            let names = tags.iter().map(|tag| Cell::from(&network.tags[*tag].name));
            row.extend([Cell::Bag(names.collect()), Cell::Int(count)]);
            rows.push(((Reverse(count), network.persons[*friend].id), row));
        }
    }
    top(rows, 20)
}
