//! What the updates of the interactive workload do to a network.

use crate::ldbc::{
    cell::{Cell, Parameters},
    network::{Forum, Knows, Like, Message, MessageKind, Network, Person},
};

/// Applies the update with a number, 1 to 8.
pub fn apply(network: &mut Network, update: usize, given: &Parameters) {
    match update {
        1 => add_person(network, given),
        2 => add_like(network, given, "postId"),
        3 => add_like(network, given, "commentId"),
        4 => {
            let moderator = person(network, given.int("moderatorPersonId"));
            let tags = tags(network, given);
            network.forums.push(Forum {
                id: given.int("forumId"),
                title: given.text("forumTitle").into(),
                created: given.time("creationDate"),
                moderator,
                tags,
                members: Vec::new(),
            });
        }
        5 => {
            let forum = forum(network, given.int("forumId"));
            let member = person(network, given.int("personId"));
            network.forums[forum]
                .members
                .push((member, given.time("joinDate")));
        }
        6 => {
            let forum = forum(network, given.int("forumId"));
            let language = Some(given.text("language").into());
            add_message(
                network,
                given,
                "postId",
                MessageKind::Post { forum, language },
            );
        }
        7 => {
            // One of the two ids is -1.
            let id = given.int("replyToPostId") + given.int("replyToCommentId") + 1;
            let reply_of = message(network, id);
            add_message(
                network,
                given,
                "commentId",
                MessageKind::Comment { reply_of },
            );
        }
        8 => {
            let (a, b) = (
                person(network, given.int("person1Id")),
                person(network, given.int("person2Id")),
            );
            network.knows.push(Knows {
                a,
                b,
                created: given.time("creationDate"),
            });
        }
        other => unreachable!("there is no update {other}"),
    }
}

fn person(network: &Network, id: i64) -> usize {
    let found = network.persons.iter().position(|one| one.id == id);
    found.expect("parameters name existing persons")
}

fn forum(network: &Network, id: i64) -> usize {
    let found = network.forums.iter().position(|one| one.id == id);
    found.expect("parameters name existing forums")
}

fn message(network: &Network, id: i64) -> usize {
    let found = network.messages.iter().position(|one| one.id == id);
    found.expect("parameters name existing messages")
}

fn tags(network: &Network, given: &Parameters) -> Vec<usize> {
    let Cell::List(ids) = given.get("tagIds") else {
        unreachable!("tags are a list");
    };
    let index = |id: &Cell| network.tags.iter().position(|tag| Cell::Int(tag.id) == *id);
    ids.iter().filter_map(index).collect()
}

/// A person; `WORKS_AT` and `languages` of the published text are read by no query, so that it works nowhere and speaks
/// nothing.
fn add_person(network: &mut Network, given: &Parameters) {
    let city = network
        .places
        .iter()
        .position(|one| one.id == given.int("cityId"));
    let list = |name: &str| match given.get(name) {
        Cell::List(cells) => cells.clone(),
        other => unreachable!("{name} is a list, not {other:?}"),
    };
    let study = list("studyAt").first().map(|pair| match pair {
        Cell::List(pair) => match (&pair[0], &pair[1]) {
            (Cell::Int(id), Cell::Int(year)) => {
                let at = network.organisations.iter().position(|one| one.id == *id);
                (at.expect("parameters name existing universities"), *year)
            }
            other => unreachable!("a study is an id and a year, not {other:?}"),
        },
        other => unreachable!("a study is a list, not {other:?}"),
    });
    let emails = list("emails").into_iter().map(|cell| match cell {
        Cell::Text(text) => text,
        other => unreachable!("an address is a text, not {other:?}"),
    });
    let person = Person {
        id: given.int("personId"),
        first_name: given.text("personFirstName").into(),
        last_name: given.text("personLastName").into(),
        gender: match given.text("gender") {
            "male" => "male",
            _ => "female",
        },
        birthday: given.time("birthday"),
        created: given.time("creationDate"),
        ip: given.text("locationIP").into(),
        browser: "Firefox",
        speaks: Vec::new(),
        email: emails.collect(),
        city: city.expect("parameters name existing cities"),
        interests: tags(network, given),
        study,
        work: Vec::new(),
    };
    network.persons.push(person);
}

fn add_like(network: &mut Network, given: &Parameters, name: &str) {
    let like = Like {
        person: person(network, given.int("personId")),
        message: message(network, given.int(name)),
        created: given.time("creationDate"),
    };
    network.likes.push(like);
}

fn add_message(network: &mut Network, given: &Parameters, id: &str, kind: MessageKind) {
    let country = network
        .places
        .iter()
        .position(|one| one.id == given.int("countryId"));
    let text = |name: &str| Some(given.text(name).to_owned()).filter(|text| !text.is_empty());
    let image = match kind {
        MessageKind::Post { .. } => text("imageFile"),
        MessageKind::Comment { .. } => None,
    };
    let made = Message {
        id: given.int(id),
        created: given.time("creationDate"),
        creator: person(network, given.int("authorPersonId")),
        country: country.expect("parameters name existing countries"),
        content: text("content"),
        image,
        length: given.int("length"),
        ip: given.text("locationIP").into(),
        browser: "Firefox",
        tags: tags(network, given),
        kind,
    };
    network.messages.push(made);
}
