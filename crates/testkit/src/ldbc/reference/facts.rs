//! Lists that the answers are computed from.

use std::collections::{BTreeSet, HashMap};

use crate::ldbc::network::{Message, MessageKind, Network};

/// A network with what is found in the other direction of its references.
pub struct Facts<'n> {
    /// The network.
    pub network: &'n Network,
    /// The friends of each person, each with the time since.
    pub friends: Vec<Vec<(usize, i64)>>,
    /// The messages of each person.
    pub messages_of: Vec<Vec<usize>>,
    /// The direct replies of each message.
    pub replies: Vec<Vec<usize>>,
    /// The likes of each message: person and time.
    pub likes: Vec<Vec<(usize, i64)>>,
    /// The forums that each person is a member of, with the time of joining.
    pub forums_of: Vec<Vec<(usize, i64)>>,
    /// The messages of the threads of each forum.
    pub in_forum: Vec<Vec<usize>>,
    /// The messages with each tag.
    pub tagged: Vec<Vec<usize>>,
    persons: HashMap<i64, usize>,
    messages: HashMap<i64, usize>,
}

impl<'n> Facts<'n> {
    /// Of a network.
    pub fn new(network: &'n Network) -> Self {
        let (persons, messages) = (network.persons.len(), network.messages.len());
        let mut facts = Self {
            network,
            friends: vec![Vec::new(); persons],
            messages_of: vec![Vec::new(); persons],
            replies: vec![Vec::new(); messages],
            likes: vec![Vec::new(); messages],
            forums_of: vec![Vec::new(); persons],
            in_forum: vec![Vec::new(); network.forums.len()],
            tagged: vec![Vec::new(); network.tags.len()],
            persons: network
                .persons
                .iter()
                .enumerate()
                .map(|(at, one)| (one.id, at))
                .collect(),
            messages: network
                .messages
                .iter()
                .enumerate()
                .map(|(at, one)| (one.id, at))
                .collect(),
        };
        for knows in &network.knows {
            facts.friends[knows.a].push((knows.b, knows.created));
            facts.friends[knows.b].push((knows.a, knows.created));
        }
        for (at, message) in network.messages.iter().enumerate() {
            facts.messages_of[message.creator].push(at);
            facts.in_forum[network.forum_of(at)].push(at);
            message
                .tags
                .iter()
                .for_each(|tag| facts.tagged[*tag].push(at));
            if let MessageKind::Comment { reply_of } = message.kind {
                facts.replies[reply_of].push(at);
            }
        }
        for like in &network.likes {
            facts.likes[like.message].push((like.person, like.created));
        }
        for (at, forum) in network.forums.iter().enumerate() {
            for (person, joined) in &forum.members {
                facts.forums_of[*person].push((at, *joined));
            }
        }
        facts
    }

    /// The person with an id.
    pub fn person(&self, id: i64) -> usize {
        self.persons[&id]
    }

    /// The message with an id.
    pub fn message(&self, id: i64) -> usize {
        self.messages[&id]
    }

    /// A message.
    pub fn at(&self, message: usize) -> &'n Message {
        &self.network.messages[message]
    }

    /// The tag with a name.
    pub fn tag(&self, name: &str) -> usize {
        let tags = &self.network.tags;
        tags.iter()
            .position(|tag| tag.name == name)
            .expect("parameters name existing tags")
    }

    /// The place with a name.
    pub fn place(&self, name: &str) -> usize {
        let places = &self.network.places;
        places
            .iter()
            .position(|one| one.name == name)
            .expect("parameters name existing places")
    }

    /// The country in which a person lives.
    pub fn country(&self, person: usize) -> usize {
        self.network.country_of(self.network.persons[person].city)
    }

    /// Whether two people are friends.
    pub fn know(&self, a: usize, b: usize) -> bool {
        self.friends[a].iter().any(|(friend, _)| *friend == b)
    }

    /// The number of friendships on the shortest way from a person to each other.
    pub fn distances(&self, from: usize) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.friends.len()];
        distances[from] = Some(0);
        let mut level = vec![from];
        let mut distance = 0;
        while !level.is_empty() {
            distance += 1;
            let mut next = Vec::new();
            for (friend, _) in level.iter().flat_map(|person| &self.friends[*person]) {
                if distances[*friend].is_none() {
                    distances[*friend] = Some(distance);
                    next.push(*friend);
                }
            }
            level = next;
        }
        distances
    }

    /// People at a distance of 1 to `most`.
    pub fn around(&self, person: usize, most: usize) -> BTreeSet<usize> {
        let all = self.distances(person).into_iter().enumerate();
        all.filter(|(_, distance)| distance.is_some_and(|one| (1..=most).contains(&one)))
            .map(|(at, _)| at)
            .collect()
    }

    /// Whether a message has a tag of a class, which may not be above the tag's own.
    pub fn has_class(&self, message: usize, class: &str) -> bool {
        self.at(message).tags.iter().any(|tag| {
            let of = self.network.tags[*tag].class;
            self.network.tag_classes[of].name == class
        })
    }
}

/// Year, month and day of a time, in UTC: Howard Hinnant's `civil_from_days`.
pub fn civil(time: i64) -> (i64, i64, i64) {
    let days = time.div_euclid(86_400_000) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(1_330_473_600_000), (2012, 2, 29));
        assert_eq!(civil(1_356_998_399_999), (2012, 12, 31));
        assert_eq!(civil(-1), (1969, 12, 31));
    }
}
