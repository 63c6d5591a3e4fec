//! The entities of the Social Network Benchmark. References between them are indexes into the vectors of [`Network`].

/// A social network. Times are milliseconds since 1970; ids are unique per kind, and messages share one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Cities, countries and continents.
    pub places: Vec<Location>,
    /// Universities and companies.
    pub organisations: Vec<Organisation>,
    /// Classes of tags, a tree.
    pub tag_classes: Vec<TagClass>,
    /// Topics.
    pub tags: Vec<Tag>,
    /// People.
    pub persons: Vec<Person>,
    /// Friendships, one per pair.
    pub knows: Vec<Knows>,
    /// Walls, groups and albums.
    pub forums: Vec<Forum>,
    /// Posts and comments; a comment comes after what it replies to.
    pub messages: Vec<Message>,
    /// Likes, at most one per person and message.
    pub likes: Vec<Like>,
}

/// The kind of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// Part of a country.
    City,
    /// Part of a continent.
    Country,
    /// Part of nothing.
    Continent,
}

/// A place.
#[derive(Clone, Debug, PartialEq)]
pub struct Location {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: PlaceKind,
    /// The place that it is part of.
    pub part_of: Option<usize>,
}

/// A university or company.
#[derive(Clone, Debug, PartialEq)]
pub struct Organisation {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Whether it is a university: in a city; companies are in countries.
    pub is_university: bool,
    /// Where it is.
    pub place: usize,
}

/// A class of tags.
#[derive(Clone, Debug, PartialEq)]
pub struct TagClass {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The class above it.
    pub parent: Option<usize>,
}

/// A topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// Its id.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: usize,
}

/// A person.
#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    /// Its id.
    pub id: i64,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// `male` or `female`.
    pub gender: &'static str,
    /// Midnight of the day of birth.
    pub birthday: i64,
    /// When the person joined.
    pub created: i64,
    /// Address.
    pub ip: String,
    /// Browser.
    pub browser: &'static str,
    /// Languages.
    pub speaks: Vec<String>,
    /// Mail addresses.
    pub email: Vec<String>,
    /// Where the person lives.
    pub city: usize,
    /// Tags of interest.
    pub interests: Vec<usize>,
    /// University and year of the class, at most one.
    pub study: Option<(usize, i64)>,
    /// Companies, each with the first year.
    pub work: Vec<(usize, i64)>,
}

/// A friendship: stored from the first person to the second, and read in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knows {
    /// A person.
    pub a: usize,
    /// Another person.
    pub b: usize,
    /// Since when.
    pub created: i64,
}

/// A forum.
#[derive(Clone, Debug, PartialEq)]
pub struct Forum {
    /// Its id.
    pub id: i64,
    /// Its title.
    pub title: String,
    /// When it began.
    pub created: i64,
    /// Its moderator.
    pub moderator: usize,
    /// Its topics.
    pub tags: Vec<usize>,
    /// Its members, each with the time of joining.
    pub members: Vec<(usize, i64)>,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageKind {
    /// A post in a forum.
    Post {
        /// The forum.
        forum: usize,
        /// Its language; none for an image.
        language: Option<String>,
    },
    /// A reply.
    Comment {
        /// The message that it replies to.
        reply_of: usize,
    },
}

/// A post or comment.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its id.
    pub id: i64,
    /// When it was written.
    pub created: i64,
    /// Its author.
    pub creator: usize,
    /// The country in which it was written.
    pub country: usize,
    /// Its text; none for an image.
    pub content: Option<String>,
    /// The file of the image.
    pub image: Option<String>,
    /// Length of the text.
    pub length: i64,
    /// Address.
    pub ip: String,
    /// Browser.
    pub browser: &'static str,
    /// Its topics.
    pub tags: Vec<usize>,
    /// What it is.
    pub kind: MessageKind,
}

impl Message {
    /// Whether it is a post.
    pub fn is_post(&self) -> bool {
        matches!(self.kind, MessageKind::Post { .. })
    }

    /// The message that it replies to.
    pub fn reply_of(&self) -> Option<usize> {
        match self.kind {
            MessageKind::Post { .. } => None,
            MessageKind::Comment { reply_of } => Some(reply_of),
        }
    }
}

/// A like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Like {
    /// Who likes.
    pub person: usize,
    /// What is liked.
    pub message: usize,
    /// When.
    pub created: i64,
}

impl Network {
    /// The country of a city.
    pub fn country_of(&self, city: usize) -> usize {
        self.places[city].part_of.expect("a city is in a country")
    }

    /// The post at the root of a message's thread.
    pub fn root(&self, mut message: usize) -> usize {
        while let Some(parent) = self.messages[message].reply_of() {
            message = parent;
        }
        message
    }

    /// The forum of a message's thread.
    pub fn forum_of(&self, message: usize) -> usize {
        match self.messages[self.root(message)].kind {
            MessageKind::Post { forum, .. } => forum,
            MessageKind::Comment { .. } => unreachable!("the root of a thread is a post"),
        }
    }
}
