//! The queries of the business-intelligence workload, except those about weighted paths.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    facts::{Facts, civil},
    order::top,
};
use crate::ldbc::{
    cell::{Answer, Cell, Parameters},
    generate::DAY,
    network::{Message, MessageKind},
};

pub(super) fn posting_summary(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let all = facts.network.messages.iter();
    let before: Vec<&Message> = all
        .filter(|one| one.created < given.time("datetime"))
        .collect();
    let mut groups: BTreeMap<(Reverse<i64>, bool, i64), (i64, i64)> = BTreeMap::new();
    for message in before.iter().filter(|one| one.content.is_some()) {
        let category = match message.length {
            ..40 => 0,
            40..80 => 1,
            80..160 => 2,
            _ => 3,
        };
        let key = (
            Reverse(civil(message.created).0),
            !message.is_post(),
            category,
        );
        let (count, length) = groups.entry(key).or_default();
        *count += 1;
        *length += message.length;
    }
    let rows = groups.into_iter().map(|(key, (count, length))| {
        let row = vec![
            key.0.0.into(),
            key.1.into(),
            key.2.into(),
            count.into(),
            (length as f64 / count as f64).into(),
            length.into(),
            (count as f64 / before.len() as f64).into(),
        ];
        (key, row)
    });
    top(rows.collect(), usize::MAX)
}

pub(super) fn tag_evolution(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let network = facts.network;
    let start = given.time("date");
    let of_class = network
        .tags
        .iter()
        .enumerate()
        .filter(|(_, tag)| network.tag_classes[tag.class].name == given.text("tagClass"));
    let rows = of_class.map(|(at, tag)| {
        let count = |from: i64| {
            let range = start + from * DAY..start + (from + 100) * DAY;
            let within = |at: &&usize| range.contains(&facts.at(**at).created);
            facts.tagged[at].iter().filter(within).count() as i64
        };
        let (one, two) = (count(0), count(100));
        let difference = (one - two).abs();
        let row = vec![
            (&tag.name).into(),
            one.into(),
            two.into(),
            difference.into(),
        ];
        ((Reverse(difference), tag.name.clone()), row)
    });
    top(rows.collect(), 100)
}

pub(super) fn popular_topics(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let country = facts.place(given.text("country"));
    let mut rows = Vec::new();
    for (at, forum) in facts.network.forums.iter().enumerate() {
        if facts.country(forum.moderator) != country {
            continue;
        }
        let messages = facts.in_forum[at].iter();
        let count = messages
            .filter(|message| facts.has_class(**message, given.text("tagClass")))
            .count();
        if count > 0 {
            let row = vec![
                forum.id.into(),
                (&forum.title).into(),
                Cell::Time(forum.created),
                facts.network.persons[forum.moderator].id.into(),
                count.into(),
            ];
            rows.push(((Reverse(count), forum.id), row));
        }
    }
    top(rows, 20)
}

pub(super) fn top_creators(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let network = facts.network;
    let mut counts = Vec::new();
    for (at, forum) in network.forums.iter().enumerate() {
        if forum.created <= given.time("date") {
            continue;
        }
        let mut by_country: BTreeMap<usize, usize> = BTreeMap::new();
        for (person, _) in &forum.members {
            *by_country.entry(facts.country(*person)).or_default() += 1;
        }
        for (country, count) in by_country {
            counts.push((Reverse(count), forum.id, network.places[country].id, at));
        }
    }
    counts.sort_unstable();
    let mut forums: Vec<usize> = Vec::new();
    for (.., forum) in counts {
        if forums.len() < 100 && !forums.contains(&forum) {
            forums.push(forum);
        }
    }
    let members = forums
        .iter()
        .flat_map(|forum| &network.forums[*forum].members);
    let mut sums: BTreeMap<usize, usize> = members.map(|(person, _)| (*person, 0)).collect();
    for message in 0..network.messages.len() {
        if forums.contains(&network.forum_of(message))
            && let Some(sum) = sums.get_mut(&facts.at(message).creator)
        {
            *sum += 1;
        }
    }
    let rows = sums.into_iter().map(|(person, count)| {
        let mut row = super::complex::named(facts, person);
        let person = &network.persons[person];
        row.extend([Cell::Time(person.created), count.into()]);
        ((Reverse(count), person.id), row)
    });
    top(rows.collect(), 100)
}

pub(super) fn active_posters(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let mut sums: BTreeMap<usize, [usize; 3]> = BTreeMap::new();
    for message in &facts.tagged[facts.tag(given.text("tag"))] {
        let sum = sums.entry(facts.at(*message).creator).or_default();
        sum[0] += facts.replies[*message].len();
        sum[1] += facts.likes[*message].len();
        sum[2] += 1;
    }
    let rows = sums
        .into_iter()
        .map(|(person, [replies, likes, messages])| {
            let id = facts.network.persons[person].id;
            let score = messages + 2 * replies + 10 * likes;
            let row = vec![
                id.into(),
                replies.into(),
                likes.into(),
                messages.into(),
                score.into(),
            ];
            ((Reverse(score), id), row)
        });
    top(rows.collect(), 100)
}

pub(super) fn authoritative_users(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let mut fans: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for message in &facts.tagged[facts.tag(given.text("tag"))] {
        let of = fans.entry(facts.at(*message).creator).or_default();
        of.extend(facts.likes[*message].iter().map(|(person, _)| *person));
    }
    let popularity = |person: &usize| -> usize {
        let own = facts.messages_of[*person].iter();
        own.map(|message| facts.likes[*message].len()).sum()
    };
    let rows = fans.into_iter().map(|(person, fans)| {
        let id = facts.network.persons[person].id;
        let score: usize = fans.iter().map(popularity).sum();
        ((Reverse(score), id), vec![id.into(), score.into()])
    });
    top(rows.collect(), 100)
}

pub(super) fn related_topics(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let tag = facts.tag(given.text("tag"));
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for comment in facts.tagged[tag]
        .iter()
        .flat_map(|message| &facts.replies[*message])
    {
        let tags = &facts.at(*comment).tags;
        if !tags.contains(&tag) {
            tags.iter()
                .for_each(|tag| *counts.entry(*tag).or_default() += 1);
        }
    }
    let rows = counts.into_iter().map(|(tag, count)| {
        let name = &facts.network.tags[tag].name;
        (
            (Reverse(count), name.clone()),
            vec![name.into(), count.into()],
        )
    });
    top(rows.collect(), 100)
}

pub(super) fn central_persons(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let tag = facts.tag(given.text("tag"));
    let (start, end) = (given.time("startDate"), given.time("endDate"));
    let mut scores: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, person) in facts.network.persons.iter().enumerate() {
        if person.interests.contains(&tag) {
            scores.insert(at, 100);
        }
    }
    for message in facts.tagged[tag].iter().map(|at| facts.at(*at)) {
        if start < message.created && message.created < end {
            *scores.entry(message.creator).or_default() += 1;
        }
    }
    let rows = scores.iter().map(|(person, score)| {
        let friends = facts.friends[*person].iter();
        let of_friends: usize = friends
            .map(|(friend, _)| scores.get(friend).copied().unwrap_or(0))
            .sum();
        let id = facts.network.persons[*person].id;
        let row = vec![id.into(), (*score).into(), of_friends.into()];
        ((Reverse(score + of_friends), id), row)
    });
    top(rows.collect(), 100)
}

pub(super) fn thread_initiators(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let range = given.time("startDate")..=given.time("endDate");
    let mut counts: BTreeMap<usize, (BTreeSet<usize>, usize)> = BTreeMap::new();
    for (at, message) in facts.network.messages.iter().enumerate() {
        let root = facts.network.root(at);
        let post = facts.at(root);
        if range.contains(&message.created) && range.contains(&post.created) {
            let (posts, messages) = counts.entry(post.creator).or_default();
            posts.insert(root);
            *messages += 1;
        }
    }
    let rows = counts.into_iter().map(|(person, (posts, messages))| {
        let mut row = super::complex::named(facts, person);
        row.extend([posts.len().into(), messages.into()]);
        ((Reverse(messages), facts.network.persons[person].id), row)
    });
    top(rows.collect(), 100)
}

pub(super) fn experts(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let country = facts.place(given.text("country"));
    let distances = facts.distances(facts.person(given.int("personId")));
    let range = given.int("minPathDistance") as usize..=given.int("maxPathDistance") as usize;
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (person, distance) in distances.into_iter().enumerate() {
        let is_candidate = distance.is_some_and(|distance| range.contains(&distance));
        if !is_candidate || facts.country(person) != country {
            continue;
        }
        for message in &facts.messages_of[person] {
            if facts.has_class(*message, given.text("tagClass")) {
                for tag in &facts.at(*message).tags {
                    *counts.entry((person, *tag)).or_default() += 1;
                }
            }
        }
    }
    let rows = counts.into_iter().map(|((person, tag), count)| {
        let id = facts.network.persons[person].id;
        let name = &facts.network.tags[tag].name;
        let row = vec![id.into(), name.into(), count.into()];
        ((Reverse(count), name.clone(), id), row)
    });
    top(rows.collect(), 100)
}

pub(super) fn triangles(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let country = facts.place(given.text("country"));
    let range = given.time("startDate")..=given.time("endDate");
    let id = |person: usize| facts.network.persons[person].id;
    let later = |person: usize| {
        let friends = facts.friends[person].iter();
        friends
            .filter(|(friend, since)| {
                range.contains(since)
                    && facts.country(*friend) == country
                    && id(*friend) > id(person)
            })
            .map(|(friend, _)| *friend)
            .collect::<Vec<usize>>()
    };
    let mut count = 0;
    for a in (0..facts.friends.len()).filter(|person| facts.country(*person) == country) {
        let of_a = later(a);
        for b in &of_a {
            count += later(*b).iter().filter(|c| of_a.contains(c)).count();
        }
    }
    vec![vec![count.into()]].into()
}

pub(super) fn message_histogram(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let Cell::List(languages) = given.get("languages") else {
        unreachable!("languages are a list");
    };
    let mut persons: BTreeMap<usize, usize> = BTreeMap::new();
    for own in &facts.messages_of {
        let counted = own.iter().filter(|at| {
            let message = facts.at(**at);
            let MessageKind::Post { language, .. } = &facts.at(facts.network.root(**at)).kind
            else {
                unreachable!("the root of a thread is a post");
            };
            message.content.is_some()
                && message.length < given.int("lengthThreshold")
                && message.created > given.time("startDate")
                && language
                    .as_ref()
                    .is_some_and(|one| languages.contains(&one.into()))
        });
        *persons.entry(counted.count()).or_default() += 1;
    }
    let rows = persons.into_iter().map(|(messages, persons)| {
        let row = vec![messages.into(), persons.into()];
        ((Reverse(persons), Reverse(messages)), row)
    });
    top(rows.collect(), usize::MAX)
}

pub(super) fn zombies(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let country = facts.place(given.text("country"));
    let end = given.time("endDate");
    let zombies: BTreeSet<usize> = (0..facts.network.persons.len())
        .filter(|at| {
            let created = facts.network.persons[*at].created;
            if facts.country(*at) != country || created >= end {
                return false;
            }
            let own = facts.messages_of[*at].iter();
            let messages = own.filter(|one| facts.at(**one).created < end).count() as i64;
            let ((year, month, _), (of_year, of_month, _)) = (civil(end), civil(created));
            messages < 12 * (year - of_year) + (month - of_month) + 1
        })
        .collect();
    let mut rows = Vec::new();
    for zombie in &zombies {
        let own = facts.messages_of[*zombie].iter();
        let likers: Vec<usize> = own
            .flat_map(|one| &facts.likes[*one])
            .map(|(person, _)| *person)
            .collect();
        let by_zombies = likers
            .iter()
            .filter(|liker| zombies.contains(liker))
            .count();
        let all = likers
            .iter()
            .filter(|liker| facts.network.persons[**liker].created < end)
            .count();
        let score = if all == 0 {
            0.0
        } else {
            by_zombies as f64 / all as f64
        };
        let id = facts.network.persons[*zombie].id;
        let row = vec![id.into(), by_zombies.into(), all.into(), score.into()];
        // Scores are not negative, so that their bits are in their order.
        rows.push(((Reverse(score.to_bits()), id), row));
    }
    top(rows, 100)
}

pub(super) fn dialogs(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let network = facts.network;
    let countries = [
        facts.place(given.text("country1")),
        facts.place(given.text("country2")),
    ];
    let replies = |author: usize, other: usize| {
        let own = facts.messages_of[author].iter();
        own.filter_map(|at| facts.at(*at).reply_of())
            .any(|at| facts.at(at).creator == other)
    };
    let likes = |person: usize, other: usize| {
        let messages = facts.messages_of[other].iter();
        messages
            .flat_map(|at| &facts.likes[*at])
            .any(|(liker, _)| *liker == person)
    };
    let mut best: BTreeMap<usize, (Reverse<i64>, i64, i64)> = BTreeMap::new();
    for knows in &network.knows {
        for (one, other) in [(knows.a, knows.b), (knows.b, knows.a)] {
            if [facts.country(one), facts.country(other)] != countries {
                continue;
            }
            let score = 4 * i64::from(replies(one, other))
                + i64::from(replies(other, one))
                + 10 * i64::from(likes(one, other))
                + i64::from(likes(other, one));
            let (one, other) = (&network.persons[one], &network.persons[other]);
            let entry = (Reverse(score), one.id, other.id);
            let known = best.entry(one.city).or_insert(entry);
            *known = (*known).min(entry);
        }
    }
    let rows = best.into_iter().map(|(city, key)| {
        let (Reverse(score), one, other) = key;
        let row = vec![
            one.into(),
            other.into(),
            (&network.places[city].name).into(),
            score.into(),
        ];
        (key, row)
    });
    top(rows.collect(), 100)
}

pub(super) fn fake_news(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let counts = |tag: &str, date: &str| {
        let (tag, date) = (facts.tag(given.text(tag)), given.time(date).div_euclid(DAY));
        let mut counts: BTreeMap<usize, i64> = BTreeMap::new();
        for message in facts.tagged[tag].iter().map(|at| facts.at(*at)) {
            if message.created.div_euclid(DAY) == date {
                *counts.entry(message.creator).or_default() += 1;
            }
        }
        let mut kept = counts.clone();
        kept.retain(|person, _| {
            let friends = facts.friends[*person].iter();
            let same = friends
                .filter(|(friend, _)| counts.contains_key(friend))
                .count() as i64;
            same <= given.int("maxKnowsLimit")
        });
        kept
    };
    let (a, b) = (counts("tagA", "dateA"), counts("tagB", "dateB"));
    let rows = a.iter().filter_map(|(person, of_a)| {
        let of_b = b.get(person)?;
        let id = facts.network.persons[*person].id;
        let row = vec![id.into(), (*of_a).into(), (*of_b).into()];
        Some(((Reverse(of_a + of_b), id), row))
    });
    top(rows.collect(), 20)
}

pub(super) fn propagation(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let network = facts.network;
    let tag = facts.tag(given.text("tag"));
    let delta = given.int("delta") * 3_600_000;
    let is_member = |forum: usize, person: usize| {
        network.forums[forum]
            .members
            .iter()
            .any(|(member, _)| *member == person)
    };
    let mut found: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for first in &facts.tagged[tag] {
        let (of_first, forum1) = (facts.at(*first), network.forum_of(*first));
        for comment in &facts.tagged[tag] {
            let of_comment = facts.at(*comment);
            let Some(second) = of_comment.reply_of() else {
                continue;
            };
            let (of_second, forum2) = (facts.at(second), network.forum_of(second));
            let (person2, person3) = (of_comment.creator, of_second.creator);
            if of_second.tags.contains(&tag)
                && forum1 != forum2
                && of_second.created > of_first.created + delta
                && person2 != person3
                && is_member(forum1, person2)
                && is_member(forum1, person3)
                && !is_member(forum2, of_first.creator)
            {
                found.entry(of_first.creator).or_default().insert(second);
            }
        }
    }
    let rows = found.into_iter().map(|(person, messages)| {
        let id = network.persons[person].id;
        let row = vec![id.into(), messages.len().into()];
        ((Reverse(messages.len()), id), row)
    });
    top(rows.collect(), 10)
}

pub(super) fn recommendation_by_tag(facts: &Facts<'_>, given: &Parameters) -> Answer {
    let tag = facts.tag(given.text("tag"));
    let persons = &facts.network.persons;
    let interested = |person: usize| persons[person].interests.contains(&tag);
    let mut counts: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    for (mutual, friends) in facts.friends.iter().enumerate() {
        let friends: Vec<usize> = friends
            .iter()
            .map(|(friend, _)| *friend)
            .filter(|one| interested(*one))
            .collect();
        for one in &friends {
            for other in &friends {
                if one != other && !facts.know(*one, *other) && mutual != *one {
                    *counts
                        .entry((persons[*one].id, persons[*other].id))
                        .or_default() += 1;
                }
            }
        }
    }
    let rows = counts.into_iter().map(|((one, other), count)| {
        let row = vec![one.into(), other.into(), count.into()];
        ((Reverse(count), one, other), row)
    });
    top(rows.collect(), 20)
}
