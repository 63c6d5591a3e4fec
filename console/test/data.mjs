// Data for tests and screenshots: a small town of people, companies, films and posts, deterministic.

const FIRST = ["Ada", "Bruno", "Clara", "Dario", "Elena", "Fabio", "Giulia", "Hugo", "Irene", "Jonas", "Katrin", "Luca", "Marta", "Nils", "Olga", "Paolo", "Rosa", "Sven", "Tilda", "Ugo", "Vera", "Wim"];
const LAST = ["Lovelace", "Rossi", "Keller", "Moreau", "Novak", "Ferri", "Haas", "Lind", "Sala", "Weber"];
const CITIES = ["Pisa", "Lucca", "Turin", "Lyon", "Bergen", "Graz", "Delft"];
const COMPANIES = ["Analytical Engines", "Blue Harbour", "Cedar & Sons", "Dynamo", "Eurydice Labs"];
const FILMS = ["The Long Harbour", "A Winter in Pisa", "Nine Letters", "Paper Boats", "The Clockmaker", "North of Bergen", "Two Sisters", "Saltwater"];

/** Pseudo-random numbers. */
function sequence(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % below;
  };
}

export async function fill(api) {
  const next = sequence(7);
  const people = Array.from({ length: 66 }, (_, at) => ({
    _key: `p${at + 1}`,
    name: `${FIRST[at % FIRST.length]} ${LAST[(at * 7 + Math.floor(at / 22)) % LAST.length]}`,
    born: 1950 + next(52),
    email: `${FIRST[at % FIRST.length].toLowerCase()}${at}@example.org`,
    address: { city: CITIES[next(CITIES.length)], zip: String(10000 + next(80000)) },
    languages: ["it", "de", "fr", "en", "no"].filter(() => next(3) === 0),
  }));
  await api.query("UNWIND $rows AS row CREATE (p:Person) SET p = row", { rows: people });
  await api.query("UNWIND $rows AS row CREATE (c:City {_key: row})", { rows: CITIES });
  await api.query("UNWIND range(0, size($rows) - 1) AS i CREATE (:Company {_key: $rows[i], founded: 1900 + i * 21})", { rows: COMPANIES });
  await api.query("UNWIND range(0, size($rows) - 1) AS i CREATE (:Film {_key: 'f' + toString(i + 1), title: $rows[i], year: 1978 + i * 5})", { rows: FILMS });
  await api.query("MATCH (p:Person) MATCH (c:City {_key: p.address.city}) CREATE (p)-[:LIVES_IN]->(c)");
  const pairs = (count, other) => Array.from({ length: count }, () => ({ a: `p${1 + next(people.length)}`, b: other(), year: 1990 + next(36) }));
  await api.query("UNWIND $rows AS row MATCH (a:Person {_key: row.a}), (b:Person {_key: row.b}) WHERE a <> b MERGE (a)-[k:KNOWS]->(b) SET k.since = row.year", { rows: pairs(150, () => `p${1 + next(people.length)}`) });
  await api.query("UNWIND $rows AS row MATCH (a:Person {_key: row.a}), (b:Company {_key: row.b}) MERGE (a)-[w:WORKS_AT]->(b) SET w.since = row.year", { rows: pairs(52, () => COMPANIES[next(COMPANIES.length)]) });
  await api.query("UNWIND $rows AS row MATCH (a:Person {_key: row.a}), (b:Film {_key: row.b}) MERGE (a)-[w:LIKES]->(b)", { rows: pairs(90, () => `f${1 + next(FILMS.length)}`) });
  await api.query("CREATE CONSTRAINT person_email FOR (p:Person) REQUIRE p.email IS UNIQUE");
  await api.query("CREATE INDEX person_born FOR (p:Person) ON (p.born)");
  await api.query("CREATE INDEX person_city FOR (p:Person) ON (p.address.city, p.name)");
  await api.query("CREATE CONSTRAINT post_votes FOR (p:Post) REQUIRE p.votes IS CONVERGENT COUNTER");
  for (let at = 1; at <= 6; at++) {
    await api.query("MATCH (a:Person {_key: $by}) CREATE (p:Post {_key: $key, title: $title})<-[:WROTE]-(a) SET p.votes = counter.add(p.votes, $votes), p.tags = set.addAll(p.tags, $tags), p.open = flag.enable(p.open), p.editor = register.set(p.editor, a.name)", {
      by: `p${at * 3}`, key: `post-${at}`, title: `Letter number ${at}`, votes: at * 7, tags: ["graph", "letters", "pisa"].slice(0, 1 + (at % 3)),
    });
  }
  for (let at = 1; at <= 12; at++) await api.call("PUT", `/v1/databases/people/buckets/sessions/keys/s-${String(at).padStart(3, "0")}`, { user: `p${at}`, seen: `2026-11-${String(at).padStart(2, "0")}`, visits: at * 3 });
  await api.call("PUT", "/v1/databases/people/buckets/settings/keys/theme", '"dark"');
}

/** Texts that would have an effect if they were interpreted as markup or script. */
export const HOSTILE = [
  "<script>window.__xss=1</script>",
  "<img src=x onerror=\"window.__xss=1\">",
  "\"><svg onload=window.__xss=1>",
  "'-alert(1)-'",
  "javascript:window.__xss=1",
  "</script><script>window.__xss=1</script>",
  "{{constructor.constructor('window.__xss=1')()}}",
  "<iframe srcdoc='<script>parent.__xss=1</script>'>",
  "<style>*{background:url(//evil.example/x)}</style>",
  "<a href='javascript:window.__xss=1' autofocus onfocus='window.__xss=1'>x</a>",
  "`;window.__xss=1;`",
  "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=window.__xss=1&gt;\">",
];
