//! Generates a network. What occurs together in the real one does here: friends live close to each other and share
//! interests, members of a forum are friends of its moderator, a reply has the topic of what it replies to.

use super::network::{
    Forum, Knows, Like, Location, Message, MessageKind, Network, Organisation, Person, PlaceKind,
    Tag, TagClass,
};
use crate::random::Random;

/// Milliseconds of a day.
pub const DAY: i64 = 86_400_000;
/// The first moment of the network: 2010-01-01.
pub const BEGIN: i64 = 1_262_304_000_000;
/// The end of the network: 2013-01-01.
pub const END: i64 = 1_356_998_400_000;

const COUNTRIES: usize = 10;
const CITIES_PER_COUNTRY: usize = 4;
const LANGUAGES: [&str; 6] = ["ar", "de", "en", "es", "hu", "zh"];
const BROWSERS: [&str; 4] = ["Chrome", "Firefox", "Internet Explorer", "Safari"];
const FIRST_NAMES: [&str; 16] = [
    "Abdul", "Ana", "Bing", "Carlos", "Eva", "Hans", "Ivan", "Jose", "Karim", "Lin", "Maria",
    "Otto", "Rahul", "Sofia", "Yang", "Zsofia",
];
const LAST_NAMES: [&str; 12] = [
    "Alonso", "Bauer", "Chen", "Diaz", "Farkas", "Garcia", "Khan", "Kumar", "Li", "Nagy", "Silva",
    "Zhang",
];
const WORDS: [&str; 8] = [
    "about", "great", "maybe", "photo", "right", "thanks", "very", "yes",
];

/// A network of `persons` people, at least 10: about 3 forums, 40 messages and 30 likes per person. The same seed gives
/// the same network on every machine.
pub fn generate(persons: usize, seed: u64) -> Network {
    let mut maker = Maker {
        random: Random::new(seed),
        network: Network::default(),
        friends: vec![Vec::new(); persons.max(10)],
    };
    maker.places();
    maker.topics();
    maker.persons(persons.max(10));
    maker.friendships();
    maker.forums();
    maker.messages();
    maker.likes();
    maker.network
}

/// Maps indexes to ids in another order, so that an answer in the order of creation is not in the order of ids.
fn scattered(index: usize, step: i64) -> i64 {
    const PRIME: i64 = 2_147_483_647;
    (index as i64 + 1) * 48_271 % PRIME * step + 11
}

struct Maker {
    random: Random,
    network: Network,
    /// The friends of each person.
    friends: Vec<Vec<usize>>,
}

impl Maker {
    fn index(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    /// An index below `count`; low ones are drawn more often.
    fn skewed(&mut self, count: usize) -> usize {
        let (a, b) = (self.index(count), self.index(count));
        a.min(b)
    }

    /// A time of the network after `time`, sooner ones more often.
    fn after(&mut self, time: i64) -> i64 {
        let left = (END - time - 2).max(1) as u64;
        let (a, b) = (self.random.below(left), self.random.below(left));
        time + 1 + a.min(b) as i64
    }

    /// A time within some days after `time`, within the network.
    fn soon_after(&mut self, time: i64, days: u64) -> i64 {
        let within = self.random.below(days * DAY as u64) as i64;
        (time + 1 + within).min(END - 1)
    }

    fn ip(&mut self) -> String {
        let part = |random: &mut Random| random.below(250) + 1;
        let random = &mut self.random;
        format!(
            "{}.{}.{}.{}",
            part(random),
            part(random),
            part(random),
            part(random)
        )
    }

    fn places(&mut self) {
        let place = |index, name: String, kind, part_of| Location {
            id: scattered(index, 1) % 100_003,
            name,
            kind,
            part_of,
        };
        for continent in ["Asia", "Europe"] {
            let index = self.network.places.len();
            let made = place(index, continent.into(), PlaceKind::Continent, None);
            self.network.places.push(made);
        }
        for country in 0..COUNTRIES {
            let index = self.network.places.len();
            let name = format!("Country_{country}");
            let made = place(index, name, PlaceKind::Country, Some(country % 2));
            self.network.places.push(made);
            for city in 0..CITIES_PER_COUNTRY {
                let at = self.network.places.len();
                let name = format!("City_{country}_{city}");
                let made = place(at, name, PlaceKind::City, Some(index));
                self.network.places.push(made);
                let is_university_city = city < 2;
                self.organisation(
                    if is_university_city { at } else { index },
                    is_university_city,
                );
            }
        }
    }

    fn organisation(&mut self, place: usize, is_university: bool) {
        let index = self.network.organisations.len();
        let kind = if is_university {
            "University"
        } else {
            "Company"
        };
        self.network.organisations.push(Organisation {
            id: scattered(index, 1) % 100_003,
            name: format!("{kind}_{}", scattered(index, 1) % 97),
            is_university,
            place,
        });
    }

    fn topics(&mut self) {
        for index in 0..13 {
            self.network.tag_classes.push(TagClass {
                id: scattered(index, 1) % 1_009,
                name: format!("Class_{index}"),
                parent: (index > 0).then(|| (index - 1) / 3),
            });
        }
        for index in 0..60 {
            let class = 1 + self.index(12);
            self.network.tags.push(Tag {
                id: scattered(index, 1) % 10_007,
                name: format!("Tag_{}", (index * 37) % 60),
                class,
            });
        }
    }

    fn persons(&mut self, count: usize) {
        let cities: Vec<usize> = (0..self.network.places.len())
            .filter(|at| self.network.places[*at].kind == PlaceKind::City)
            .collect();
        for index in 0..count {
            let city = cities[self.skewed(cities.len())];
            let country = self.network.country_of(city);
            let of_country = |network: &Network, is_university| -> Vec<usize> {
                let all = network.organisations.iter().enumerate();
                all.filter(|(_, one)| {
                    let place = &network.places[one.place];
                    let there = if is_university {
                        place.part_of
                    } else {
                        Some(one.place)
                    };
                    one.is_university == is_university && there == Some(country)
                })
                .map(|(at, _)| at)
                .collect()
            };
            let universities = of_country(&self.network, true);
            let companies = of_country(&self.network, false);
            let created = BEGIN + self.random.below(500 * DAY as u64) as i64;
            let id = scattered(index, 4_099);
            let first_name = *self.random.pick(&FIRST_NAMES);
            let interests = self.tags(6);
            let study = (!self.random.once_in(4)).then(|| {
                (
                    *self.random.pick(&universities),
                    2000 + self.index(9) as i64,
                )
            });
            let mut work = Vec::new();
            for _ in 0..self.index(3) {
                let abroad = self.random.once_in(3);
                let company = match abroad {
                    true => self.any_company(),
                    false => *self.random.pick(&companies),
                };
                if work.iter().all(|(other, _)| *other != company) {
                    work.push((company, 2001 + self.index(11) as i64));
                }
            }
            let language = LANGUAGES[country % LANGUAGES.len()];
            let birth_day = self.random.below(20 * 365) as i64;
            let browser = *self.random.pick(&BROWSERS);
            let person = Person {
                id,
                first_name: first_name.into(),
                last_name: (*self.random.pick(&LAST_NAMES)).into(),
                gender: if self.random.once_in(2) {
                    "male"
                } else {
                    "female"
                },
                birthday: 315_532_800_000 + birth_day * DAY,
                created,
                ip: self.ip(),
                browser,
                speaks: match language {
                    "en" => vec!["en".into()],
                    other => vec![other.into(), "en".into()],
                },
                email: (0..1 + self.index(3))
                    .map(|at| format!("{first_name}{id}@mail{at}.example"))
                    .collect(),
                city,
                interests,
                study,
                work,
            };
            self.network.persons.push(person);
        }
    }

    fn any_company(&mut self) -> usize {
        loop {
            let at = self.index(self.network.organisations.len());
            if !self.network.organisations[at].is_university {
                return at;
            }
        }
    }

    /// Up to `most` different tags.
    fn tags(&mut self, most: usize) -> Vec<usize> {
        let mut tags: Vec<usize> = (0..1 + self.index(most))
            .map(|_| self.skewed(self.network.tags.len()))
            .collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// Whether two people have something in common.
    fn are_close(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.network.persons[a], &self.network.persons[b]);
        self.network.country_of(a.city) == self.network.country_of(b.city)
            || a.study
                .map(|study| study.0)
                .is_some_and(|at| Some(at) == b.study.map(|study| study.0))
            || a.interests.iter().any(|tag| b.interests.contains(tag))
    }

    fn friendships(&mut self) {
        let count = self.network.persons.len();
        for a in 0..count {
            for _ in 0..2 + self.index(5) {
                let mut b = self.index(count);
                for _ in 0..4 {
                    if self.are_close(a, b) {
                        break;
                    }
                    b = self.index(count);
                }
                if a == b || self.friends[a].contains(&b) {
                    continue;
                }
                // Some people know no one.
                if a % 29 == 3 || b % 29 == 3 {
                    continue;
                }
                let both_there = self.network.persons[a]
                    .created
                    .max(self.network.persons[b].created);
                let created = self.after(both_there);
                self.network.knows.push(Knows { a, b, created });
                self.friends[a].push(b);
                self.friends[b].push(a);
            }
        }
    }

    fn forums(&mut self) {
        for moderator in 0..self.network.persons.len() {
            for number in 0..1 + self.index(4) {
                let created = self.after(self.network.persons[moderator].created);
                let mut members: Vec<(usize, i64)> = Vec::new();
                let friends = self.friends[moderator].clone();
                let further: Vec<usize> = friends
                    .iter()
                    .flat_map(|friend| self.friends[*friend].iter().copied())
                    .collect();
                for person in friends.into_iter().chain(further) {
                    let invited = self.random.once_in(3);
                    if invited && members.iter().all(|(other, _)| *other != person) {
                        let there = created.max(self.network.persons[person].created);
                        let joined = self.after(there);
                        members.push((person, joined));
                    }
                }
                let index = self.network.forums.len();
                let of = &self.network.persons[moderator];
                let title = match number {
                    0 => format!("Wall of {} {}", of.first_name, of.last_name),
                    _ => format!("Group {number} of {} {}", of.first_name, of.last_name),
                };
                let tags = self.tags(4);
                self.network.forums.push(Forum {
                    id: scattered(index, 513),
                    title,
                    created,
                    moderator,
                    tags,
                    members,
                });
            }
        }
    }

    /// A message of a person at a time; its id and kind are those of the caller.
    fn message(
        &mut self,
        creator: usize,
        created: i64,
        tags: Vec<usize>,
        kind: MessageKind,
    ) -> usize {
        let index = self.network.messages.len();
        let home = self.network.country_of(self.network.persons[creator].city);
        let travels = self.random.once_in(6);
        let country = match travels {
            true => self.country(),
            false => home,
        };
        let id = scattered(index, 257);
        let is_image = matches!(kind, MessageKind::Post { language: None, .. });
        let content = (!is_image).then(|| self.text());
        let ip = self.ip();
        let browser = *self.random.pick(&BROWSERS);
        self.network.messages.push(Message {
            id,
            created,
            creator,
            country,
            length: content
                .as_ref()
                .map_or(0, |text| text.chars().count() as i64),
            content,
            image: is_image.then(|| format!("photo{id}.jpg")),
            ip,
            browser,
            tags,
            kind,
        });
        index
    }

    fn country(&mut self) -> usize {
        loop {
            let at = self.index(self.network.places.len());
            if self.network.places[at].kind == PlaceKind::Country {
                return at;
            }
        }
    }

    fn text(&mut self) -> String {
        let words = match self.index(4) {
            0 => 1,
            1 => 2 + self.index(6),
            2 => 8 + self.index(12),
            _ => 20 + self.index(30),
        };
        let words: Vec<&str> = (0..words).map(|_| *self.random.pick(&WORDS)).collect();
        words.join(" ")
    }

    fn messages(&mut self) {
        for forum in 0..self.network.forums.len() {
            let Forum {
                moderator, created, ..
            } = self.network.forums[forum];
            let members = self.network.forums[forum].members.clone();
            for _ in 0..1 + self.skewed(6) {
                let by_moderator = members.is_empty() || self.random.once_in(3);
                let (creator, there) = match by_moderator {
                    true => (moderator, created),
                    false => *self.random.pick(&members),
                };
                let time = self.after(there);
                let is_image = self.random.once_in(5);
                let mut tags = self.network.forums[forum].tags.clone();
                tags.retain(|_| !self.random.once_in(3));
                let speaks = self.network.persons[creator].speaks[0].clone();
                let language = (!is_image).then_some(speaks);
                let post = self.message(creator, time, tags, MessageKind::Post { forum, language });
                self.replies(post, &members);
            }
        }
    }

    /// The comments of a thread: by members, and by friends of the author that they reply to.
    fn replies(&mut self, post: usize, members: &[(usize, i64)]) {
        let mut thread = vec![post];
        for _ in 0..self.skewed(9) {
            let reply_of = thread[self.index(thread.len())];
            let Message {
                created, creator, ..
            } = self.network.messages[reply_of];
            let friends = self.friends[creator].clone();
            let by_friend = members.is_empty() || self.random.once_in(2);
            let author = match (by_friend, friends.is_empty(), members.is_empty()) {
                (true, false, _) => *self.random.pick(&friends),
                (_, _, false) => self.random.pick(members).0,
                _ => continue,
            };
            let there = created.max(self.network.persons[author].created);
            if there >= END - 2 {
                continue;
            }
            let time = self.soon_after(there, 6);
            let mut tags = self.network.messages[reply_of].tags.clone();
            tags.retain(|_| !self.random.once_in(2));
            if self.random.once_in(3) {
                tags.extend(self.tags(2));
                tags.sort_unstable();
                tags.dedup();
            }
            let kind = MessageKind::Comment { reply_of };
            thread.push(self.message(author, time, tags, kind));
        }
    }

    fn likes(&mut self) {
        for message in 0..self.network.messages.len() {
            let Message {
                created, creator, ..
            } = self.network.messages[message];
            let mut likers: Vec<usize> = Vec::new();
            for _ in 0..self.skewed(4) {
                let friends = &self.friends[creator];
                let stranger = friends.is_empty() || self.random.once_in(4);
                let person = match stranger {
                    true => self.random.below(self.network.persons.len() as u64) as usize,
                    false => *self.random.pick(&self.friends[creator]),
                };
                if likers.contains(&person) {
                    continue;
                }
                likers.push(person);
                let there = created.max(self.network.persons[person].created);
                let created = self.soon_after(there, 20);
                self.network.likes.push(Like {
                    person,
                    message,
                    created,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_network_repeats_and_is_consistent() {
        let network = generate(60, 5);
        assert_eq!(network, generate(60, 5));
        assert_ne!(network, generate(60, 6));
        let unique = |ids: Vec<i64>| {
            let set: HashSet<i64> = ids.iter().copied().collect();
            assert_eq!(set.len(), ids.len());
        };
        unique(network.places.iter().map(|one| one.id).collect());
        unique(network.organisations.iter().map(|one| one.id).collect());
        unique(network.tags.iter().map(|one| one.id).collect());
        unique(network.tag_classes.iter().map(|one| one.id).collect());
        unique(network.persons.iter().map(|one| one.id).collect());
        unique(network.forums.iter().map(|one| one.id).collect());
        unique(network.messages.iter().map(|one| one.id).collect());
        for message in &network.messages {
            assert!((BEGIN..END).contains(&message.created));
            assert_eq!(message.content.is_some(), message.image.is_none());
        }
        for knows in &network.knows {
            assert_ne!(knows.a, knows.b);
        }
        assert!(network.messages.len() > 600, "{}", network.messages.len());
    }
}
