//! Real data, loaded with the commands alone, gives the results of naive code: 47,538 users of a music service, their
//! friendships and the genres they like. Skipped if `../shared/data/deezer` is missing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    path::{Path, PathBuf},
    process::Command,
};

use isomer_db::{Database, params};
use isomer_testkit::harness::Verdict;

/// The data, held in plain collections.
struct Naive {
    /// Friends of each user, both ways.
    friends: HashMap<String, BTreeSet<String>>,
    /// Genres that each user likes.
    likes: BTreeMap<String, Vec<String>>,
    friendships: usize,
}

impl Naive {
    fn read(folder: &Path) -> Self {
        let mut friends: HashMap<String, BTreeSet<String>> = HashMap::new();
        let edges = std::fs::read_to_string(folder.join("deezer_HU_edges.csv")).expect("the edges");
        let mut friendships = 0;
        for line in edges.lines().skip(1) {
            let (one, other) = line.split_once(',').expect("two columns");
            friends.entry(one.into()).or_default().insert(other.into());
            friends.entry(other.into()).or_default().insert(one.into());
            friendships += 1;
        }
        let genres = std::fs::read(folder.join("deezer_HU_genres.json")).expect("the genres");
        let likes = serde_json::from_slice(&genres).expect("an object of lists");
        Self {
            friends,
            likes,
            friendships,
        }
    }

    fn of(&self, user: &str) -> BTreeSet<String> {
        self.friends.get(user).cloned().unwrap_or_default()
    }

    /// Users reached over exactly two different friendships; the user itself only by two parallel friendships.
    fn two_steps(&self, user: &str) -> BTreeSet<String> {
        let mut found: BTreeSet<String> = self
            .of(user)
            .iter()
            .flat_map(|friend| self.of(friend))
            .collect();
        found.remove(user);
        found
    }

    fn distance(&self, from: &str, to: &str) -> Option<i64> {
        let mut distances: HashMap<String, i64> = HashMap::from([(from.to_owned(), 0)]);
        let mut queue = VecDeque::from([from.to_owned()]);
        while let Some(user) = queue.pop_front() {
            let distance = distances[&user];
            if user == to {
                return Some(distance);
            }
            for next in self.of(&user) {
                if !distances.contains_key(&next) {
                    distances.insert(next.clone(), distance + 1);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// The ten genres that most friends like and the user does not; ties by name.
    fn recommended(&self, user: &str) -> Vec<(String, i64)> {
        let own: BTreeSet<&String> = self.likes[user].iter().collect();
        let mut counts: BTreeMap<&String, i64> = BTreeMap::new();
        for friend in self.of(user) {
            for genre in self.likes[&friend]
                .iter()
                .filter(|genre| !own.contains(genre))
            {
                *counts.entry(genre).or_default() += 1;
            }
        }
        let mut ranked: Vec<(String, i64)> = counts
            .into_iter()
            .map(|(genre, count)| (genre.clone(), count))
            .collect();
        ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        ranked.truncate(10);
        ranked
    }
}

/// Runs the binary and returns what it printed.
fn isomer(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_isomer"))
        .args(arguments)
        .output()
        .expect("the binary runs");
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "isomer {arguments:?}: {printed}");
    String::from_utf8(output.stdout).expect("text")
}

fn rows(db: &str, query: &str) -> Vec<serde_json::Value> {
    isomer(&["query", db, query, "--format", "jsonl"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row is JSON"))
        .collect()
}

fn data_folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let folder = root.parent()?.join("shared/data/deezer");
    folder
        .join("deezer_HU_edges.csv")
        .is_file()
        .then_some(folder)
}

#[test]
fn the_commands_load_deezer_and_answer_as_naive_code_does() {
    let Some(data) = data_folder() else {
        return Verdict::NeedsData("../shared/data/deezer does not exist".into()).report();
    };
    let folder = tempfile::tempdir().expect("a folder");
    let db = folder.path().join("deezer").display().to_string();
    let (edges, genres) = (
        data.join("deezer_HU_edges.csv").display().to_string(),
        data.join("deezer_HU_genres.json").display().to_string(),
    );
    isomer(&[
        "import",
        &db,
        "nodes",
        &genres,
        "--label",
        "User",
        "--value-field",
        "genres",
    ]);
    // The keys of the JSON object are strings, and so `0` in the CSV finds "0".
    isomer(&[
        "import",
        &db,
        "relationships",
        &edges,
        "--type",
        "FRIEND",
        "--from",
        "User",
        "--to",
        "User",
    ]);
    isomer(&[
        "query",
        &db,
        "MATCH (u:User) UNWIND u.genres AS genre WITH DISTINCT genre CREATE (:Genre {_key: genre})",
    ]);
    isomer(&[
        "import",
        &db,
        "relationships",
        &genres,
        "--type",
        "LIKES",
        "--from",
        "User",
        "--to",
        "Genre",
    ]);
    let naive = Naive::read(&data);

    let counted = rows(&db, "MATCH (u:User) RETURN count(*) AS users");
    assert_eq!(counted[0]["users"], naive.likes.len());
    let counted = rows(
        &db,
        "MATCH (:User)-[f:FRIEND]->(:User) RETURN count(f) AS friendships",
    );
    assert_eq!(counted[0]["friendships"], naive.friendships);
    let likes: usize = naive.likes.values().map(Vec::len).sum();
    let counted = rows(&db, "MATCH ()-[l:LIKES]->() RETURN count(l) AS likes");
    assert_eq!(counted[0]["likes"], likes);

    let mut per_genre: BTreeMap<&str, i64> = BTreeMap::new();
    naive
        .likes
        .values()
        .flatten()
        .for_each(|genre| *per_genre.entry(genre).or_default() += 1);
    let found = rows(
        &db,
        "MATCH (u:User)-[:LIKES]->(g:Genre) RETURN g._key AS genre, count(u) AS users",
    );
    let found: BTreeMap<&str, i64> = found
        .iter()
        .map(|row| {
            (
                row["genre"].as_str().expect("a name"),
                row["users"].as_i64().expect("a number"),
            )
        })
        .collect();
    assert_eq!(found, per_genre);
    let found = rows(
        &db,
        "MATCH (u:User) UNWIND u.genres AS genre RETURN genre, count(*) AS users",
    );
    let found: BTreeMap<&str, i64> = found
        .iter()
        .map(|row| {
            (
                row["genre"].as_str().expect("a name"),
                row["users"].as_i64().expect("a number"),
            )
        })
        .collect();
    assert_eq!(found, per_genre, "genres in the documents");

    // Many small queries use the library, on the database that the commands created.
    let db = Database::open(&db).expect("the database opens");
    let users: Vec<String> = (0..20)
        .map(|at| (at * 2_371 % naive.likes.len()).to_string())
        .collect();
    for user in &users {
        let found = db.query(("MATCH (:User {_key: $user})-[:FRIEND]-()-[:FRIEND]-(other) RETURN DISTINCT other._key", [("user", user.as_str())])).expect("two steps");
        let found: BTreeSet<String> = found.deserialize().expect("keys").into_iter().collect();
        assert_eq!(found, naive.two_steps(user), "two steps from {user}");

        let found = db
            .query(("MATCH (me:User {_key: $user})-[:FRIEND]-(friend)-[:LIKES]->(genre)
                 WHERE NOT (me)-[:LIKES]->(genre)
                 RETURN genre._key AS genre, count(DISTINCT friend) AS friends ORDER BY friends DESC, genre LIMIT 10", [("user", user.as_str())]))
            .expect("a recommendation");
        let found: Vec<(String, i64)> = found.deserialize().expect("genres and counts");
        assert_eq!(found, naive.recommended(user), "recommended to {user}");
    }
    for (at, from) in users.iter().enumerate() {
        let to = &users[(at * 7 + 3) % users.len()];
        let to = if from == to { "1" } else { to };
        let found = db
            .query(("MATCH (a:User {_key: $from}), (b:User {_key: $to}) MATCH p = shortestPath((a)-[:FRIEND*]-(b)) RETURN length(p)", params! { "from" => from.as_str(), "to" => to }))
            .expect("a shortest path");
        let found: Vec<i64> = found.deserialize().expect("lengths");
        assert_eq!(
            found.first().copied(),
            naive.distance(from, to),
            "from {from} to {to}"
        );
    }
}
