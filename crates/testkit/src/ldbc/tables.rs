//! A network as tables of nodes and relationships.

use super::{
    cell::{Cell, texts},
    network::{Message, MessageKind, Network, PlaceKind},
};

/// What the rows of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nodes.
    Nodes {
        /// Their labels, separated by colons.
        labels: &'static str,
    },
    /// Relationships: a row begins with the ids of its ends.
    Relationships {
        /// The label of the start, within which ids are unique.
        from: &'static str,
        /// The type.
        name: &'static str,
        /// The label of the end.
        to: &'static str,
    },
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// An integer.
    Int,
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// A time.
    Time,
}

/// Nodes with the same labels, or relationships of one type between nodes of the same labels.
#[derive(Clone, Debug)]
pub struct Table {
    /// What the rows are.
    pub kind: Kind,
    /// The properties: name, and what it is.
    pub columns: &'static [(&'static str, Column)],
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

const CREATED: (&str, Column) = ("creationDate", Column::Time);
const ID: (&str, Column) = ("id", Column::Int);
const NAMED: &[(&str, Column)] = &[ID, ("name", Column::Text)];

/// The tables of a network: nodes before the relationships between them.
pub fn tables(network: &Network) -> Vec<Table> {
    let mut all = place_tables(network);
    all.extend(topic_tables(network));
    all.extend(person_tables(network));
    all.extend(forum_tables(network));
    all.extend(message_tables(network));
    all
}

fn nodes(
    labels: &'static str,
    columns: &'static [(&'static str, Column)],
    rows: impl Iterator<Item = Vec<Cell>>,
) -> Table {
    Table {
        kind: Kind::Nodes { labels },
        columns,
        rows: rows.collect(),
    }
}

fn relationships(
    (from, name, to): (&'static str, &'static str, &'static str),
    columns: &'static [(&'static str, Column)],
    rows: impl Iterator<Item = Vec<Cell>>,
) -> Table {
    Table {
        kind: Kind::Relationships { from, name, to },
        columns,
        rows: rows.collect(),
    }
}

fn pair(from: i64, to: i64) -> Vec<Cell> {
    vec![from.into(), to.into()]
}

fn place_tables(network: &Network) -> Vec<Table> {
    let of_kind = |kind: PlaceKind| {
        let places = network.places.iter().filter(move |one| one.kind == kind);
        places.map(|one| vec![one.id.into(), (&one.name).into()])
    };
    let organisations = |is_university: bool| {
        let all = network
            .organisations
            .iter()
            .filter(move |one| one.is_university == is_university);
        all.map(|one| vec![one.id.into(), (&one.name).into()])
    };
    let parents = network
        .places
        .iter()
        .filter_map(|one| Some(pair(one.id, network.places[one.part_of?].id)));
    let located = network
        .organisations
        .iter()
        .map(|one| pair(one.id, network.places[one.place].id));
    vec![
        nodes("City:Place", NAMED, of_kind(PlaceKind::City)),
        nodes("Country:Place", NAMED, of_kind(PlaceKind::Country)),
        nodes("Continent:Place", NAMED, of_kind(PlaceKind::Continent)),
        nodes("University:Organisation", NAMED, organisations(true)),
        nodes("Company:Organisation", NAMED, organisations(false)),
        relationships(("Place", "IS_PART_OF", "Place"), &[], parents),
        relationships(("Organisation", "IS_LOCATED_IN", "Place"), &[], located),
    ]
}

fn topic_tables(network: &Network) -> Vec<Table> {
    let classes = &network.tag_classes;
    let class_rows = classes
        .iter()
        .map(|one| vec![one.id.into(), (&one.name).into()]);
    let tag_rows = network
        .tags
        .iter()
        .map(|one| vec![one.id.into(), (&one.name).into()]);
    let parents = classes
        .iter()
        .filter_map(|one| Some(pair(one.id, classes[one.parent?].id)));
    let types = network
        .tags
        .iter()
        .map(|one| pair(one.id, classes[one.class].id));
    vec![
        nodes("TagClass", NAMED, class_rows),
        nodes("Tag", NAMED, tag_rows),
        relationships(("TagClass", "IS_SUBCLASS_OF", "TagClass"), &[], parents),
        relationships(("Tag", "HAS_TYPE", "TagClass"), &[], types),
    ]
}

fn person_tables(network: &Network) -> Vec<Table> {
    const COLUMNS: &[(&str, Column)] = &[
        ID,
        ("firstName", Column::Text),
        ("lastName", Column::Text),
        ("gender", Column::Text),
        ("birthday", Column::Int),
        CREATED,
        ("locationIP", Column::Text),
        ("browserUsed", Column::Text),
        ("speaks", Column::Texts),
        ("email", Column::Texts),
    ];
    let persons = &network.persons;
    let rows = persons.iter().map(|one| {
        vec![
            one.id.into(),
            (&one.first_name).into(),
            (&one.last_name).into(),
            one.gender.into(),
            one.birthday.into(),
            Cell::Time(one.created),
            (&one.ip).into(),
            one.browser.into(),
            texts(&one.speaks),
            texts(&one.email),
        ]
    });
    let knows = network.knows.iter().map(|one| {
        let (a, b) = (persons[one.a].id, persons[one.b].id);
        vec![a.into(), b.into(), Cell::Time(one.created)]
    });
    let living = persons
        .iter()
        .map(|one| pair(one.id, network.places[one.city].id));
    let interests = persons.iter().flat_map(|one| {
        one.interests
            .iter()
            .map(|tag| pair(one.id, network.tags[*tag].id))
    });
    let with_year = |id: i64, (organisation, year): (usize, i64)| {
        let organisation = network.organisations[organisation].id;
        vec![id.into(), organisation.into(), year.into()]
    };
    let studies = persons
        .iter()
        .filter_map(|one| Some(with_year(one.id, one.study?)));
    let works = persons
        .iter()
        .flat_map(|one| one.work.iter().map(|at| with_year(one.id, *at)));
    vec![
        nodes("Person", COLUMNS, rows),
        relationships(("Person", "KNOWS", "Person"), &[CREATED], knows),
        relationships(("Person", "IS_LOCATED_IN", "Place"), &[], living),
        relationships(("Person", "HAS_INTEREST", "Tag"), &[], interests),
        relationships(
            ("Person", "STUDY_AT", "Organisation"),
            &[("classYear", Column::Int)],
            studies,
        ),
        relationships(
            ("Person", "WORK_AT", "Organisation"),
            &[("workFrom", Column::Int)],
            works,
        ),
    ]
}

fn forum_tables(network: &Network) -> Vec<Table> {
    let forums = &network.forums;
    let rows = forums
        .iter()
        .map(|one| vec![one.id.into(), (&one.title).into(), Cell::Time(one.created)]);
    let person = |at: usize| network.persons[at].id;
    let moderators = forums.iter().map(|one| pair(one.id, person(one.moderator)));
    let tags = forums.iter().flat_map(|one| {
        one.tags
            .iter()
            .map(|tag| pair(one.id, network.tags[*tag].id))
    });
    let members = forums.iter().flat_map(|one| {
        one.members.iter().map(|(member, joined)| {
            vec![one.id.into(), person(*member).into(), Cell::Time(*joined)]
        })
    });
    vec![
        nodes("Forum", &[ID, ("title", Column::Text), CREATED], rows),
        relationships(("Forum", "HAS_MODERATOR", "Person"), &[], moderators),
        relationships(("Forum", "HAS_TAG", "Tag"), &[], tags),
        relationships(
            ("Forum", "HAS_MEMBER", "Person"),
            &[("joinDate", Column::Time)],
            members,
        ),
    ]
}

fn message_tables(network: &Network) -> Vec<Table> {
    const POST: &[(&str, Column)] = &[
        ID,
        CREATED,
        ("locationIP", Column::Text),
        ("browserUsed", Column::Text),
        ("content", Column::Text),
        ("length", Column::Int),
        ("language", Column::Text),
        ("imageFile", Column::Text),
    ];
    let messages = &network.messages;
    let optional = |text: &Option<String>| text.as_ref().map_or(Cell::Null, Cell::from);
    let common = |one: &Message| {
        vec![
            one.id.into(),
            Cell::Time(one.created),
            (&one.ip).into(),
            one.browser.into(),
            optional(&one.content),
            one.length.into(),
        ]
    };
    let posts = messages.iter().filter_map(|one| match &one.kind {
        MessageKind::Post { language, .. } => {
            let mut row = common(one);
            row.extend([optional(language), optional(&one.image)]);
            Some(row)
        }
        MessageKind::Comment { .. } => None,
    });
    let comments = messages.iter().filter(|one| !one.is_post()).map(common);
    let contained = messages.iter().filter_map(|one| match one.kind {
        MessageKind::Post { forum, .. } => Some(pair(network.forums[forum].id, one.id)),
        MessageKind::Comment { .. } => None,
    });
    let replies = messages
        .iter()
        .filter_map(|one| Some(pair(one.id, messages[one.reply_of()?].id)));
    let creators = messages
        .iter()
        .map(|one| pair(one.id, network.persons[one.creator].id));
    let located = messages
        .iter()
        .map(|one| pair(one.id, network.places[one.country].id));
    let tags = messages.iter().flat_map(|one| {
        one.tags
            .iter()
            .map(|tag| pair(one.id, network.tags[*tag].id))
    });
    let likes = network.likes.iter().map(|one| {
        let (person, message) = (network.persons[one.person].id, messages[one.message].id);
        vec![person.into(), message.into(), Cell::Time(one.created)]
    });
    vec![
        nodes("Post:Message", POST, posts),
        nodes("Comment:Message", &POST[..6], comments),
        relationships(("Forum", "CONTAINER_OF", "Message"), &[], contained),
        relationships(("Message", "REPLY_OF", "Message"), &[], replies),
        relationships(("Message", "HAS_CREATOR", "Person"), &[], creators),
        relationships(("Message", "IS_LOCATED_IN", "Place"), &[], located),
        relationships(("Message", "HAS_TAG", "Tag"), &[], tags),
        relationships(("Person", "LIKES", "Message"), &[CREATED], likes),
    ]
}
