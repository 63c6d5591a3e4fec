//! The likes graph, and plain loops over it.

use std::{
    fmt,
    fs::{self, File},
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::{Context, Result};

use crate::{
    guanciale::{ASKED, CHECKED},
    random::Random,
};

const SEED: u64 = 20_161_230;
/// Rows of a result.
const TOP: usize = 10;

/// The size of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of items.
    pub items: u32,
    /// Likes per person.
    pub likes: u32,
    /// Number of people.
    pub people: u32,
}

impl Shape {
    /// The eight shapes of the benchmark; `scale` scales the number of people.
    pub fn grid(scale: f64) -> Vec<Self> {
        let mut grid = Vec::new();
        for items in [200, 2_000] {
            for likes in [10, 100] {
                for people in [1_000, 10_000] {
                    let people = (f64::from(people) * scale).round().max(10.0) as u32;
                    grid.push(Self {
                        items,
                        likes,
                        people,
                    });
                }
            }
        }
        grid
    }

    /// Items, likes and people, as in the names of metrics.
    pub fn name(self) -> String {
        format!("{}_{}_{}", self.items, self.likes, self.people)
    }

    /// The shape with this name.
    pub fn named(name: &str) -> Result<Self> {
        let numbers: Vec<u32> = name
            .split('_')
            .map(|part| part.parse().ok())
            .collect::<Option<_>>()
            .with_context(|| format!("invalid shape `{name}`: expected items_likes_people"))?;
        match numbers[..] {
            [items, likes, people] if people > 0 && likes <= items => Ok(Self {
                items,
                likes,
                people,
            }),
            _ => anyhow::bail!("invalid shape `{name}`: expected items_likes_people"),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} items, {} likes each, {} people",
            self.items, self.likes, self.people
        )
    }
}

/// A person's key.
pub fn person_key(person: u32) -> String {
    format!("person{person}")
}

/// An item's key.
pub fn item_key(item: u32) -> String {
    format!("item{item}")
}

/// The likes of all people.
#[derive(Clone, Debug)]
pub struct Likes {
    shape: Shape,
    /// Distinct items, `shape.likes` per person, in order of person.
    liked: Vec<u32>,
}

impl Likes {
    /// Draws distinct random items for each person.
    pub fn draw(shape: Shape) -> Self {
        let mut random = Random::for_item(SEED, u64::from(shape.items), u64::from(shape.likes));
        let mut all: Vec<u32> = (0..shape.items).collect();
        let likes = shape.likes.min(shape.items) as usize;
        let mut liked = Vec::with_capacity(likes * shape.people as usize);
        for _ in 0..shape.people {
            for at in 0..likes {
                let other = at + random.below(all.len() - at);
                all.swap(at, other);
            }
            liked.extend_from_slice(&all[..likes]);
        }
        Self { shape, liked }
    }

    /// Its size.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// All likes as (person, item).
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        let likes = self.shape.likes;
        (0..)
            .zip(&self.liked)
            .map(move |(at, &item): (u32, _)| (at / likes, item))
    }

    /// The people to query, in this order.
    pub fn queried_people(&self) -> Vec<u32> {
        let mut random = Random::for_item(SEED, 7, u64::from(self.shape.people));
        (0..ASKED)
            .map(|_| random.below(self.shape.people as usize) as u32)
            .collect()
    }

    /// The plain loops over this graph.
    pub fn loops(&self) -> Loops<'_> {
        let mut fans = vec![Vec::new(); self.shape.items as usize];
        for (person, item) in self.pairs() {
            fans[item as usize].push(person);
        }
        let mut by_key: Vec<u32> = (0..self.shape.items).collect();
        by_key.sort_by_key(|&item| item_key(item));
        let mut ranks = vec![0; by_key.len()];
        for (rank, &item) in (0..).zip(&by_key) {
            ranks[item as usize] = rank;
        }
        Loops {
            likes: self,
            fans,
            ranks,
            by_key,
            weights: vec![0; self.shape.people as usize],
            others: Vec::new(),
            counts: vec![0; self.shape.items as usize],
            top: Vec::new(),
        }
    }

    /// Writes into `folder`: `likes_<shape>.tsv` (person, tab, item, as numbers), `asked_<shape>.txt`
    /// (numbers of people), and `answers/recommend_<shape>.txt` (one line for each of the first people
    /// queried).
    pub fn write(&self, folder: &Path) -> Result<()> {
        let name = self.shape.name();
        fs::create_dir_all(folder.join("answers"))?;
        let file =
            |name: String| -> Result<_> { Ok(BufWriter::new(File::create(folder.join(name))?)) };
        let mut out = file(format!("likes_{name}.tsv"))?;
        for (person, item) in self.pairs() {
            writeln!(out, "{person}\t{item}")?;
        }
        out.flush()?;
        let asked = self.queried_people();
        let mut out = file(format!("asked_{name}.txt"))?;
        for person in &asked {
            writeln!(out, "{person}")?;
        }
        out.flush()?;
        let mut loops = self.loops();
        let mut out = file(format!("answers/recommend_{name}.txt"))?;
        for &person in &asked[..CHECKED] {
            writeln!(out, "{}", loops.recommend(person))?;
        }
        Ok(out.flush()?)
    }
}

/// Loops that group before they multiply: the number of liked items shared with each other person, then that
/// count for each of the person's items.
#[derive(Debug)]
pub struct Loops<'l> {
    likes: &'l Likes,
    /// The people who like each item.
    fans: Vec<Vec<u32>>,
    /// Rank of each item's key among all keys, and the inverse.
    ranks: Vec<u32>,
    by_key: Vec<u32>,
    weights: Vec<u32>,
    others: Vec<u32>,
    counts: Vec<u64>,
    top: Vec<(u64, u32)>,
}

impl Loops<'_> {
    /// The ten most frequent items with their counts, in result order.
    pub fn recommend_only(&mut self, person: u32) -> &[(u64, u32)] {
        self.others.clear();
        let likes = self.likes.shape.likes as usize;
        let liked = |person: u32| {
            let start = person as usize * likes;
            &self.likes.liked[start..start + likes]
        };
        for &item in liked(person) {
            for &other in &self.fans[item as usize] {
                if self.weights[other as usize] == 0 {
                    self.others.push(other);
                }
                self.weights[other as usize] += 1;
            }
        }
        self.counts.fill(0);
        for &other in &self.others {
            let weight = u64::from(std::mem::take(&mut self.weights[other as usize]));
            for &item in liked(other) {
                self.counts[item as usize] += weight;
            }
        }
        self.top.clear();
        for (item, &count) in self.counts.iter().enumerate() {
            if count == 0 {
                continue;
            }
            // Descending by count, then ascending by key.
            let rank = self.ranks[item];
            let at = self.top.partition_point(|&(other, ranked)| {
                (other, u32::MAX - ranked) > (count, u32::MAX - rank)
            });
            if at < TOP {
                self.top.truncate(TOP - 1);
                self.top.insert(at, (count, rank));
            }
        }
        &self.top
    }

    /// A result as a line: `person7: item3 12, item11 12, item5 9`.
    pub fn recommend(&mut self, person: u32) -> String {
        let top = self.recommend_only(person).to_vec();
        let rows = top
            .into_iter()
            .map(|(count, rank)| (item_key(self.by_key[rank as usize]), count));
        line(person, rows)
    }
}

/// A result as a line.
pub fn line(person: u32, rows: impl IntoIterator<Item = (String, u64)>) -> String {
    let rows: Vec<String> = rows
        .into_iter()
        .map(|(item, count)| format!("{item} {count}"))
        .collect();
    format!("{}: {}", person_key(person), rows.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const SMALL: Shape = Shape {
        items: 30,
        likes: 7,
        people: 60,
    };

    /// As the author wrote it: every path counts.
    fn enumerated(likes: &Likes, me: u32) -> String {
        let pairs: Vec<(u32, u32)> = likes.pairs().collect();
        let mut counts: HashMap<String, u64> = HashMap::new();
        for &(_, liked) in pairs.iter().filter(|&&(person, _)| person == me) {
            for &(other, _) in pairs.iter().filter(|&&(_, item)| item == liked) {
                for &(_, item) in pairs.iter().filter(|&&(person, _)| person == other) {
                    *counts.entry(item_key(item)).or_default() += 1;
                }
            }
        }
        let mut rows: Vec<(String, u64)> = counts.into_iter().collect();
        rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        rows.truncate(TOP);
        line(me, rows)
    }

    #[test]
    fn loops_that_group_count_every_path() {
        let likes = Likes::draw(SMALL);
        let mut loops = likes.loops();
        for person in 0..SMALL.people {
            assert_eq!(loops.recommend(person), enumerated(&likes, person));
        }
    }

    #[test]
    fn everybody_likes_as_many_different_items() {
        let likes = Likes::draw(SMALL);
        let mut pairs: Vec<_> = likes.pairs().collect();
        assert_eq!(pairs.len(), 7 * 60);
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 7 * 60);
        assert!(pairs.iter().all(|&(person, item)| person < 60 && item < 30));
        assert_eq!(Shape::named(&SMALL.name()).expect("a shape"), SMALL);
        assert!(Shape::named("1_2").is_err() && Shape::named("5_9_1").is_err());
    }
}
