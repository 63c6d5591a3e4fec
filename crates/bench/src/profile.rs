//! Sparse profiles for the people of a network: documents of about 355 bytes with nested parts.

use std::fmt::Write as _;

use isomer_value::{Map, Value};

use crate::{network::Network, random::Random};

/// A value in a profile. Strings hold no characters that JSON must escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// A list of strings.
    List(Vec<&'static str>),
    /// A nested document.
    Part(Vec<(&'static str, Field)>),
}

/// Fields in the order of writing.
pub type Profile = Vec<(&'static str, Field)>;

const PROFILE_STREAM: u64 = 1;
const SYLLABLES: [&str; 24] = [
    "bel", "dor", "fen", "gra", "hol", "ist", "jas", "kem", "lin", "mor", "nov", "ost", "pra",
    "ren", "sel", "tur", "ust", "vel", "wen", "zab", "cor", "dub", "mil", "tar",
];
const PROVINCES: [&str; 9] = [
    "north", "south", "east", "west", "coast", "hills", "plains", "lakes", "abroad",
];
const HOBBIES: [&str; 28] = [
    "music",
    "films",
    "friends",
    "surfing the web",
    "sports",
    "dancing",
    "swimming",
    "computer games",
    "reading",
    "sleeping",
    "travel",
    "cooking",
    "football",
    "ice hockey",
    "skiing",
    "cycling",
    "nature",
    "animals",
    "photography",
    "drawing",
    "camping",
    "fishing",
    "shopping",
    "cars",
    "motorbikes",
    "yoga",
    "theatre",
    "hiking",
];
const EYES: [&str; 5] = ["brown", "blue", "green", "grey", "hazel"];
const HAIR: [&str; 6] = ["brown", "blond", "black", "dark brown", "red", "other"];
const BUILD: [&str; 4] = ["average", "slim", "athletic", "stout"];
const FIELDS_OF_WORK: [&str; 8] = [
    "computing",
    "trade and services",
    "engineering",
    "education",
    "health",
    "student",
    "building",
    "public service",
];
const LEVELS: [&str; 4] = [
    "primary school",
    "secondary school",
    "university",
    "still at school",
];
const LANGUAGES: [&str; 7] = [
    "English", "German", "French", "Spanish", "Russian", "Italian", "Czech",
];
const SMOKING: [&str; 4] = ["never", "now and then", "every day", "giving it up"];
const ALCOHOL: [&str; 3] = ["never", "now and then", "at weekends"];
const SIGNS: [&str; 12] = [
    "aries",
    "taurus",
    "gemini",
    "cancer",
    "leo",
    "virgo",
    "libra",
    "scorpio",
    "sagittarius",
    "capricorn",
    "aquarius",
    "pisces",
];
const COLOURS: [&str; 7] = ["blue", "black", "red", "white", "purple", "green", "yellow"];
const PETS: [&str; 6] = ["dog", "cat", "fish", "parrot", "hamster", "none"];
const MARITAL: [&str; 5] = [
    "single",
    "married",
    "engaged",
    "divorced",
    "it is complicated",
];
const LOOKING_FOR: [&str; 4] = [
    "a good friend",
    "someone to chat with",
    "a serious relationship",
    "nothing in particular",
];
const MOVIES: [&str; 8] = [
    "comedies",
    "thrillers",
    "horror",
    "love stories",
    "science fiction",
    "action",
    "fairy tales",
    "documentaries",
];
const MUSIC: [&str; 9] = [
    "rock",
    "pop",
    "hip hop",
    "metal",
    "techno",
    "jazz",
    "folk",
    "classical",
    "disco",
];
const BOOKS: [&str; 6] = [
    "crime",
    "fantasy",
    "history",
    "novels",
    "poetry",
    "biographies",
];

impl Network {
    /// The profile of `person`; depends on the seed and the person alone, so that profiles can be generated
    /// in any order.
    pub fn profile(&self, person: u32) -> Profile {
        let mut random = Random::for_item(self.seed(), PROFILE_STREAM, u64::from(person));
        let random = &mut random;
        // Four in ten never filled in their profile; the others did to varying degrees.
        let zeal = if random.chance(0.38) {
            0.0
        } else {
            0.35 + 1.25 * random.unit()
        };
        let mut profile: Profile = vec![
            ("_key", Field::Text(Self::key(person))),
            ("public", Field::Bool(random.chance(0.66))),
            ("completion", Field::Int((zeal * 62.0) as i64)),
            (
                "gender",
                Field::Text(if random.chance(0.5) { "female" } else { "male" }.into()),
            ),
            ("home", home(self.region(person))),
            (
                "last_login",
                Field::Text(format!(
                    "2012-{:02}-{:02}T{:02}:{:02}",
                    1 + random.below(5),
                    1 + random.below(28),
                    random.below(24),
                    random.below(60)
                )),
            ),
            (
                "registered",
                Field::Text(format!(
                    "{}-{:02}-{:02}",
                    2001 + random.below(12),
                    1 + random.below(12),
                    1 + random.below(28)
                )),
            ),
        ];
        if random.chance(0.7) {
            profile.push(("AGE", Field::Int(age(random))));
        }
        let mut may =
            |name, share: f64, random: &mut Random, make: &mut dyn FnMut(&mut Random) -> Field| {
                if random.chance(share * zeal) {
                    profile.push((name, make(random)));
                }
            };
        may("looks", 0.50, random, &mut looks);
        may("work", 0.27, random, &mut |random| {
            one_of(random, &FIELDS_OF_WORK)
        });
        may("education", 0.30, random, &mut |random| {
            one_of(random, &LEVELS)
        });
        may("languages", 0.45, random, &mut |random| {
            some_of(random, &LANGUAGES, 3)
        });
        may("hobbies", 0.66, random, &mut |random| {
            some_of(random, &HOBBIES, 9)
        });
        may("habits", 0.33, random, &mut |random| {
            Field::Part(vec![
                ("smoking", one_of(random, &SMOKING)),
                ("alcohol", one_of(random, &ALCOHOL)),
            ])
        });
        may("sign", 0.33, random, &mut |random| one_of(random, &SIGNS));
        may("colour", 0.28, random, &mut |random| {
            one_of(random, &COLOURS)
        });
        may("pets", 0.30, random, &mut |random| one_of(random, &PETS));
        may("marital_status", 0.28, random, &mut |random| {
            one_of(random, &MARITAL)
        });
        may("looking_for", 0.30, random, &mut |random| {
            one_of(random, &LOOKING_FOR)
        });
        may("children", 0.20, random, &mut |random| {
            Field::Int(random.below(4) as i64)
        });
        may("likes", 0.52, random, &mut |random| {
            Field::Part(vec![
                ("movies", some_of(random, &MOVIES, 4)),
                ("music", some_of(random, &MUSIC, 4)),
                ("books", some_of(random, &BOOKS, 3)),
            ])
        });
        may("about", 0.62, random, &mut about);
        profile
    }
}

/// The profile as a line of JSON, without the line break.
pub fn write_json(profile: &Profile, out: &mut String) {
    out.push('{');
    for (at, (name, field)) in profile.iter().enumerate() {
        let _ = write!(out, "{}\"{name}\":", if at == 0 { "" } else { "," });
        write_field(field, out);
    }
    out.push('}');
}

/// The profile as a record's properties.
pub fn to_map(profile: &Profile) -> Map {
    profile
        .iter()
        .map(|(name, field)| (*name, to_value(field)))
        .collect()
}

fn to_value(field: &Field) -> Value {
    match field {
        Field::Int(number) => Value::Int(*number),
        Field::Bool(truth) => Value::Bool(*truth),
        Field::Text(text) => Value::String(text.as_str().into()),
        Field::List(items) => Value::List(std::sync::Arc::new(
            items
                .iter()
                .map(|&item| Value::String(item.into()))
                .collect(),
        )),
        Field::Part(fields) => Value::Map(std::sync::Arc::new(to_map(fields))),
    }
}

fn write_field(field: &Field, out: &mut String) {
    match field {
        Field::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Field::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Field::Text(text) => {
            let _ = write!(out, "\"{text}\"");
        }
        Field::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                let _ = write!(out, "{}\"{item}\"", if at == 0 { "" } else { "," });
            }
            out.push(']');
        }
        Field::Part(fields) => write_json(fields, out),
    }
}

fn one_of(random: &mut Random, choices: &[&'static str]) -> Field {
    Field::Text((*random.pick(choices)).into())
}

/// At least one and up to `most` distinct choices.
fn some_of(random: &mut Random, choices: &[&'static str], most: usize) -> Field {
    let count = 1 + random.below(most);
    let mut chosen: Vec<&'static str> = Vec::with_capacity(count);
    for _ in 0..count {
        let choice = *random.pick(choices);
        if !chosen.contains(&choice) {
            chosen.push(choice);
        }
    }
    Field::List(chosen)
}

fn looks(random: &mut Random) -> Field {
    let mut looks = vec![
        ("eyes", one_of(random, &EYES)),
        ("hair", one_of(random, &HAIR)),
    ];
    if random.chance(0.7) {
        looks.push(("height_cm", Field::Int(150 + random.below(50) as i64)));
        looks.push(("build", one_of(random, &BUILD)));
    }
    Field::Part(looks)
}

/// A short self-description.
fn about(random: &mut Random) -> Field {
    let hobbies: Vec<&str> = (0..2 + random.below(8))
        .map(|_| *random.pick(&HOBBIES))
        .collect();
    Field::Text(format!(
        "I like {}, most of all in {} company",
        hobbies.join(", "),
        random.pick(&["good", "small", "large", "my own", "your"])
    ))
}

/// Mostly between 15 and 30, with a long tail.
fn age(random: &mut Random) -> i64 {
    let years = 13.0 + 4.0 * (0.75 * random.normal()).exp() + 2.5 * random.normal().abs();
    years.min(112.0) as i64
}

fn home(region: u8) -> Field {
    let mut random = Random::for_item(0, 2, u64::from(region));
    let town: String = (0..2 + random.below(2))
        .map(|_| *random.pick(&SYLLABLES))
        .collect();
    let province = PROVINCES[usize::from(region) % PROVINCES.len()];
    Field::Part(vec![
        ("province", Field::Text(province.into())),
        ("town", Field::Text(town)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::DEFAULT_SEED;

    #[test]
    fn profiles_are_valid_json_of_the_stated_size_and_sparseness() {
        let network = Network::of_people(3_000, DEFAULT_SEED);
        let (mut bytes, mut aged) = (0, 0);
        for person in 0..network.people() {
            let profile = network.profile(person);
            let mut line = String::new();
            write_json(&profile, &mut line);
            bytes += line.len() + 1;
            let parsed: serde_json::Value = serde_json::from_str(&line).expect("a profile is JSON");
            assert_eq!(parsed["_key"], format!("P{}", person + 1));
            assert_eq!(
                parsed.as_object().map(|fields| fields.len()),
                Some(profile.len())
            );
            aged += u32::from(parsed["AGE"].is_i64());
            assert_eq!(to_map(&profile).len(), profile.len());
        }
        let mean_bytes = bytes as f64 / f64::from(network.people());
        assert!(
            (330.0..380.0).contains(&mean_bytes),
            "{mean_bytes} bytes a profile"
        );
        let aged = f64::from(aged) / f64::from(network.people());
        assert!(
            (0.67..0.73).contains(&aged),
            "{aged} of the profiles have an AGE"
        );
    }
}
