//! Parameters of the queries, drawn from a network so that answers are likely to have rows.

use super::{
    cell::{Cell, Parameters},
    generate::{BEGIN, DAY, END},
    network::{MessageKind, Network, PlaceKind},
    reference::Facts,
};
use crate::random::Random;

/// Draws parameters from a network.
pub struct Draw<'d, 'n> {
    facts: &'d Facts<'n>,
    random: Random,
}

impl<'d, 'n> Draw<'d, 'n> {
    /// The sequence of `seed`.
    pub fn new(facts: &'d Facts<'n>, seed: u64) -> Self {
        let random = Random::new(seed);
        Self { facts, random }
    }

    fn network(&self) -> &'n Network {
        self.facts.network
    }

    fn pick<T>(&mut self, all: &'n [T]) -> &'n T {
        &all[self.random.below(all.len() as u64) as usize]
    }

    /// The id of a person.
    fn person(&mut self) -> Cell {
        Cell::Int(self.pick(&self.network().persons).id)
    }

    /// The ids of two different persons.
    fn two_persons(&mut self) -> (Cell, Cell) {
        loop {
            let (a, b) = (self.person(), self.person());
            if a != b {
                return (a, b);
            }
        }
    }

    fn place(&mut self, kind: PlaceKind) -> usize {
        loop {
            let at = self.random.below(self.network().places.len() as u64) as usize;
            if self.network().places[at].kind == kind {
                return at;
            }
        }
    }

    fn country(&mut self) -> Cell {
        let at = self.place(PlaceKind::Country);
        Cell::from(&self.network().places[at].name)
    }

    fn two_countries(&mut self) -> (Cell, Cell) {
        loop {
            let (a, b) = (self.country(), self.country());
            if a != b {
                return (a, b);
            }
        }
    }

    fn tag(&mut self) -> Cell {
        Cell::from(&self.pick(&self.network().tags).name)
    }

    fn tag_class(&mut self) -> Cell {
        Cell::from(&self.pick(&self.network().tag_classes).name)
    }

    fn message(&mut self) -> Cell {
        Cell::Int(self.pick(&self.network().messages).id)
    }

    /// Midnight of a day.
    fn day(&mut self) -> i64 {
        let days = (END - BEGIN) / DAY;
        BEGIN + self.random.below(days as u64) as i64 * DAY
    }

    fn count(&mut self, from: i64, count: u64) -> i64 {
        from + self.random.below(count) as i64
    }

    /// Parameters of the query in the file of this name.
    pub fn of(&mut self, query: &str) -> Parameters {
        match query.split_once("complex-") {
            Some((_, number)) => self.of_complex(number),
            None if query.starts_with("interactive-short") => match query {
                "interactive-short-1" | "interactive-short-2" | "interactive-short-3" => {
                    Parameters::new([("personId", self.person())])
                }
                _ => Parameters::new([("messageId", self.message())]),
            },
            None => match query.trim_start_matches("bi-").parse::<u8>() {
                Ok(number @ 1..=10) => self.of_first_ten(number),
                Ok(number @ 11..=20) => self.of_second_ten(number),
                _ => panic!("there is no query {query}"),
            },
        }
    }

    fn of_complex(&mut self, number: &str) -> Parameters {
        let person = ("personId", self.person());
        let start = self.day();
        let (one, other) = self.two_persons();
        match number {
            "1" => {
                let name = &self.pick(&self.network().persons).first_name;
                Parameters::new([person, ("firstName", Cell::from(name))])
            }
            "2" | "9" => Parameters::new([person, ("maxDate", Cell::Time(start))]),
            "3" => {
                let (x, y) = self.two_countries();
                let end = start + self.count(30, 300) * DAY;
                Parameters::new([
                    person,
                    ("countryXName", x),
                    ("countryYName", y),
                    ("startDate", Cell::Time(start)),
                    ("endDate", Cell::Time(end)),
                ])
            }
            "4" => {
                let end = start + self.count(30, 100) * DAY;
                let dates = (Cell::Time(start), Cell::Time(end));
                Parameters::new([person, ("startDate", dates.0), ("endDate", dates.1)])
            }
            "5" => Parameters::new([person, ("minDate", Cell::Time(start))]),
            "6" => Parameters::new([person, ("tagName", self.tag())]),
            "7" | "8" => Parameters::new([person]),
            "10" => Parameters::new([person, ("month", Cell::Int(self.count(1, 12)))]),
            "11" => Parameters::new([
                person,
                ("countryName", self.country()),
                ("workFromYear", Cell::Int(self.count(2003, 10))),
            ]),
            "12" => {
                let by_class = self.random.once_in(2);
                let name = if by_class {
                    self.tag_class()
                } else {
                    self.tag()
                };
                Parameters::new([person, ("tagClassName", name)])
            }
            _ => Parameters::new([("person1Id", one), ("person2Id", other)]),
        }
    }

    fn of_first_ten(&mut self, number: u8) -> Parameters {
        let start = self.day();
        let end = start + self.count(20, 200) * DAY;
        let dates = [
            ("startDate", Cell::Time(start)),
            ("endDate", Cell::Time(end)),
        ];
        match number {
            1 => Parameters::new([("datetime", Cell::Time(start))]),
            2 => Parameters::new([("date", Cell::Time(start)), ("tagClass", self.tag_class())]),
            3 => Parameters::new([("tagClass", self.tag_class()), ("country", self.country())]),
            4 => Parameters::new([("date", Cell::Time(start))]),
            5..=7 => Parameters::new([("tag", self.tag())]),
            8 => {
                let [start, end] = dates;
                Parameters::new([("tag", self.tag()), start, end])
            }
            9 => Parameters::new(dates),
            _ => {
                let least = self.count(1, 3);
                Parameters::new([
                    ("personId", self.person()),
                    ("country", self.country()),
                    ("tagClass", self.tag_class()),
                    ("minPathDistance", Cell::Int(least.max(2))),
                    (
                        "maxPathDistance",
                        Cell::Int(least.max(2) + self.count(0, 2)),
                    ),
                ])
            }
        }
    }

    fn of_second_ten(&mut self, number: u8) -> Parameters {
        let start = self.day();
        let end = start + self.count(100, 700) * DAY;
        let dates = [
            ("startDate", Cell::Time(start)),
            ("endDate", Cell::Time(end)),
        ];
        let (one, other) = self.two_persons();
        match number {
            11 => {
                let [start, end] = dates;
                Parameters::new([("country", self.country()), start, end])
            }
            12 => {
                let languages = ["ar", "de", "en", "es", "hu", "zh"];
                let at = self.random.below(4) as usize;
                let languages = languages[at..at + 2].iter().map(|one| Cell::from(*one));
                Parameters::new([
                    ("startDate", Cell::Time(start)),
                    ("lengthThreshold", Cell::Int(self.count(10, 120))),
                    ("languages", Cell::List(languages.collect())),
                ])
            }
            13 => Parameters::new([("country", self.country()), ("endDate", Cell::Time(start))]),
            14 => {
                let (one, other) = self.two_countries();
                Parameters::new([("country1", one), ("country2", other)])
            }
            15 => {
                let [start, end] = dates;
                Parameters::new([("person1Id", one), ("person2Id", other), start, end])
            }
            16 => self.of_fake_news(),
            17 => Parameters::new([
                ("tag", self.tag()),
                ("delta", Cell::Int(self.count(1, 200))),
            ]),
            18 => Parameters::new([("tag", self.tag())]),
            19 => loop {
                let (a, b) = (self.place(PlaceKind::City), self.place(PlaceKind::City));
                if a != b {
                    let id = |at: usize| Cell::Int(self.network().places[at].id);
                    return Parameters::new([("city1Id", id(a)), ("city2Id", id(b))]);
                }
            },
            _ => {
                let companies = &self.network().organisations;
                let company = loop {
                    let one = self.pick(companies);
                    if !one.is_university {
                        break Cell::from(&one.name);
                    }
                };
                Parameters::new([("company", company), ("person2Id", one)])
            }
        }
    }

    /// Two topics, each with a day, of messages of one person.
    fn of_fake_news(&mut self) -> Parameters {
        loop {
            let person = self.random.below(self.network().persons.len() as u64) as usize;
            let own = self.facts.messages_of[person]
                .iter()
                .map(|at| self.facts.at(*at));
            let tagged: Vec<(usize, i64)> = own
                .filter_map(|one| Some((*one.tags.first()?, one.created.div_euclid(DAY) * DAY)))
                .collect();
            if tagged.is_empty() {
                continue;
            }
            let (a, b) = (*self.random.pick(&tagged), *self.random.pick(&tagged));
            let name = |tag: usize| Cell::from(&self.network().tags[tag].name);
            return Parameters::new([
                ("tagA", name(a.0)),
                ("dateA", Cell::Time(a.1)),
                ("tagB", name(b.0)),
                ("dateB", Cell::Time(b.1)),
                ("maxKnowsLimit", Cell::Int(self.count(0, 5))),
            ]);
        }
    }

    /// Parameters of an update, 1 to 8. Ids of what is created are `new_id`.
    pub fn of_update(&mut self, update: usize, new_id: i64) -> Parameters {
        let one = self.person();
        let created = ("creationDate", Cell::Time(END - self.count(1, 1_000_000)));
        match update {
            1 => self.of_new_person(new_id),
            2 | 3 => {
                let name = if update == 2 { "postId" } else { "commentId" };
                let message = self.message_of(update == 2);
                Parameters::new([("personId", one), (name, message), created])
            }
            4 => Parameters::new([
                ("moderatorPersonId", one),
                ("forumId", Cell::Int(new_id)),
                ("forumTitle", Cell::from("Group of \"everyone\"")),
                created,
                ("tagIds", self.tag_ids()),
            ]),
            5 => loop {
                let forum = self.pick(&self.network().forums);
                let person = self.facts.person(match one {
                    Cell::Int(id) => id,
                    _ => unreachable!("ids are integers"),
                });
                if forum.members.iter().any(|(member, _)| *member == person) {
                    continue;
                }
                return Parameters::new([
                    ("personId", one),
                    ("forumId", Cell::Int(forum.id)),
                    ("joinDate", created.1),
                ]);
            },
            6 | 7 => self.of_new_message(update == 6, new_id),
            _ => loop {
                let (one, other) = self.two_persons();
                let (Cell::Int(a), Cell::Int(b)) = (&one, &other) else {
                    unreachable!("ids are integers");
                };
                if !self
                    .facts
                    .know(self.facts.person(*a), self.facts.person(*b))
                {
                    return Parameters::new([("person1Id", one), ("person2Id", other), created]);
                }
            },
        }
    }

    fn message_of(&mut self, is_post: bool) -> Cell {
        loop {
            let message = self.pick(&self.network().messages);
            if message.is_post() == is_post {
                return Cell::Int(message.id);
            }
        }
    }

    fn tag_ids(&mut self) -> Cell {
        let at = self.random.below(self.network().tags.len() as u64 - 2) as usize;
        let tags = self.network().tags[at..at + 2].iter();
        Cell::List(tags.map(|tag| Cell::Int(tag.id)).collect())
    }

    fn of_new_person(&mut self, id: i64) -> Parameters {
        let city = self.place(PlaceKind::City);
        let organisation = |network: &Network, is_university: bool| {
            let mut all = network.organisations.iter();
            let found = all.find(|one| one.is_university == is_university);
            Cell::Int(found.expect("there are both kinds").id)
        };
        let year = |id: Cell, year: i64| Cell::List(vec![Cell::List(vec![id, Cell::Int(year)])]);
        let network = self.network();
        Parameters::new([
            ("cityId", Cell::Int(network.places[city].id)),
            ("personId", Cell::Int(id)),
            ("personFirstName", Cell::from("Jose")),
            ("personLastName", Cell::from("O'Neil")),
            ("gender", Cell::from("male")),
            (
                "birthday",
                Cell::Time(400_000_000_000 + self.count(0, 5_000) * DAY),
            ),
            ("creationDate", Cell::Time(END - self.count(1, 1_000_000))),
            ("locationIP", Cell::from("10.0.0.1")),
            ("browserUsed", Cell::from("Firefox")),
            ("languages", Cell::List(vec![Cell::from("es")])),
            ("emails", Cell::List(vec![Cell::from("jose@mail.example")])),
            ("tagIds", self.tag_ids()),
            ("studyAt", year(organisation(network, true), 2007)),
            ("workAt", year(organisation(network, false), 2009)),
        ])
    }

    fn of_new_message(&mut self, is_post: bool, id: i64) -> Parameters {
        let author = self.person();
        let country = self.place(PlaceKind::Country);
        let created = self.count(1, 1_000_000);
        let common = [
            ("authorPersonId", author),
            ("countryId", Cell::Int(self.network().places[country].id)),
            ("creationDate", Cell::Time(END - created)),
            ("locationIP", Cell::from("10.0.0.2")),
            ("browserUsed", Cell::from("Firefox")),
            ("tagIds", self.tag_ids()),
        ];
        let is_image = self.random.once_in(2);
        let (content, image) = match is_image {
            true => ("", "photo.jpg"),
            false => ("about it", ""),
        };
        let own: Vec<(&'static str, Cell)> = match is_post {
            true => {
                let forum = self.pick(&self.network().forums).id;
                vec![
                    ("postId", Cell::Int(id)),
                    ("forumId", Cell::Int(forum)),
                    ("language", Cell::from("en")),
                    ("content", Cell::from(content)),
                    ("imageFile", Cell::from(image)),
                    ("length", content.len().into()),
                ]
            }
            false => {
                let parent = self.pick(&self.network().messages);
                let to_post = matches!(parent.kind, MessageKind::Post { .. });
                let ids = if to_post {
                    (parent.id, -1)
                } else {
                    (-1, parent.id)
                };
                vec![
                    ("commentId", Cell::Int(id)),
                    ("replyToPostId", Cell::Int(ids.0)),
                    ("replyToCommentId", Cell::Int(ids.1)),
                    ("content", Cell::from("I agree")),
                    ("length", Cell::Int(7)),
                ]
            }
        };
        common.into_iter().chain(own).collect()
    }
}
