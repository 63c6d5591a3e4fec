// @neo4j/graphql: a schema of types, mutations, queries, filters, aggregations, connections and its own checks.

const { BOLT, USER, PASSWORD, assert, library, expectedToFail, run } = require("../harness/harness.js");

const { Neo4jGraphQL } = library("@neo4j/graphql");
const { graphql } = library("graphql");
const neo4j = library("neo4j-driver");

const typeDefs = `
  type Movie @node {
    id: ID! @id
    title: String!
    released: Int
    rating: Float
    premiere: DateTime
    tags: [String!]
    place: Point
    actors: [Actor!]! @relationship(type: "ACTED_IN", direction: IN, properties: "ActedIn")
    genres: [Genre!]! @relationship(type: "IN_GENRE", direction: OUT)
    similar(first: Int = 3): [Movie!]!
      @cypher(
        statement: """
        MATCH (this)-[:IN_GENRE]->(:Genre)<-[:IN_GENRE]-(other:Movie) WHERE other <> this
        RETURN DISTINCT other ORDER BY other.title LIMIT $first
        """
        columnName: "other"
      )
  }
  type ActedIn @relationshipProperties {
    roles: [String!]
    salary: Int
  }
  type Actor implements Person @node {
    name: String!
    born: Date
    movies: [Movie!]! @relationship(type: "ACTED_IN", direction: OUT, properties: "ActedIn")
  }
  type Director implements Person @node {
    name: String!
  }
  interface Person {
    name: String!
  }
  type Genre @node {
    name: String!
    movies: [Movie!]! @relationship(type: "IN_GENRE", direction: IN)
  }
  union Result = Movie | Genre
  type Query {
    oldest: Int @cypher(statement: "MATCH (m:Movie) RETURN min(m.released) AS year", columnName: "year")
  }
`;

const driver = neo4j.driver(`bolt://${BOLT}`, neo4j.auth.basic(USER, PASSWORD));
const neoSchema = new Neo4jGraphQL({ typeDefs, driver });
let schema;

async function ask(source, variableValues = {}) {
  const contextValue = { sessionConfig: { database: "people" } };
  const { data, errors } = await graphql({ schema, source, variableValues, contextValue });
  if (errors) throw new AggregateError(errors, errors.map((error) => error.message).join("; "));
  return JSON.parse(JSON.stringify(data));
}

async function schema_is_built_and_checked() {
  schema = await neoSchema.getSchema();
  await neoSchema.checkNeo4jCompat({ driver, sessionConfig: { database: "people" } });
  await neoSchema.assertIndexesAndConstraints({ driver, sessionConfig: { database: "people" } });
}

async function nested_nodes_are_created() {
  const data = await ask(
    `mutation ($input: [MovieCreateInput!]!) {
      createMovies(input: $input) {
        info { nodesCreated relationshipsCreated }
        movies { id title released premiere tags place { latitude } actors { name } genres { name } }
      }
    }`,
    {
      input: [
        {
          title: "The Matrix",
          released: 1999,
          rating: 8.7,
          premiere: "1999-03-31T20:00:00.000Z",
          tags: ["sf", "action"],
          place: { latitude: 37.8, longitude: -122.4 },
          actors: { create: [{ node: { name: "Keanu Reeves", born: "1964-09-02" }, edge: { roles: ["Neo"], salary: 10 } }] },
          genres: { create: [{ node: { name: "SF" } }] },
        },
        { title: "Alien", released: 1979, rating: 8.5 },
      ],
    },
  );
  const { info, movies } = data.createMovies;
  assert.deepEqual(info, { nodesCreated: 4, relationshipsCreated: 2 });
  const matrix = movies.find((movie) => movie.title === "The Matrix");
  assert.deepEqual([matrix.premiere, matrix.tags, matrix.place], ["1999-03-31T20:00:00.000Z", ["sf", "action"], { latitude: 37.8 }]);
  assert.deepEqual([matrix.actors, matrix.genres], [[{ name: "Keanu Reeves" }], [{ name: "SF" }]]);
  assert.match(matrix.id, /^[0-9a-f-]{36}$/);
}

async function nodes_are_connected_and_updated() {
  const data = await ask(`mutation {
    updateMovies(
      where: { title: { eq: "Alien" } }
      update: {
        released: { set: 1980 }
        genres: { connect: [{ where: { node: { name: { eq: "SF" } } } }] }
        actors: { create: [{ node: { name: "Sigourney Weaver" }, edge: { roles: ["Ripley"] } }] }
      }
    ) { movies { title released genres { name } actors { name } } }
  }`);
  assert.deepEqual(data.updateMovies.movies, [
    { title: "Alien", released: 1980, genres: [{ name: "SF" }], actors: [{ name: "Sigourney Weaver" }] },
  ]);
  const added = await ask(`mutation {
    updateMovies(where: { title: { eq: "Alien" } }, update: { released: { subtract: 1 }, rating: { multiply: 1 } }) {
      movies { released }
    }
  }`);
  assert.equal(added.updateMovies.movies[0].released, 1979);
}

async function filters_and_sorting_select_nodes() {
  const titles = async (where) => (await ask(`{ movies(where: ${where}, sort: [{ title: ASC }]) { title } }`)).movies.map((one) => one.title);
  assert.deepEqual(await titles("{ released: { gt: 1990 } }"), ["The Matrix"]);
  assert.deepEqual(await titles('{ OR: [{ title: { startsWith: "Al" } }, { rating: { gte: 8.6 } }] }'), ["Alien", "The Matrix"]);
  assert.deepEqual(await titles('{ actors: { some: { name: { contains: "Keanu" } } } }'), ["The Matrix"]);
  assert.deepEqual(await titles('{ actors: { none: { name: { eq: "Keanu Reeves" } } } }'), ["Alien"]);
  assert.deepEqual(await titles('{ genres: { all: { name: { in: ["SF"] } } } }'), ["Alien", "The Matrix"]);
  assert.deepEqual(await titles('{ NOT: { tags: { includes: "sf" } } }'), []);
  assert.deepEqual(await titles("{ place: { distance: { from: { latitude: 37.8, longitude: -122.4 }, lt: 10 } } }"), ["The Matrix"]);
  const page = await ask("{ movies(limit: 1, offset: 1, sort: [{ title: ASC }]) { title } }");
  assert.deepEqual(page.movies, [{ title: "The Matrix" }]);
}

async function connections_have_cursors_and_edges() {
  const first = await ask(`{ moviesConnection(first: 1, sort: [{ title: ASC }]) {
    aggregate { count { nodes } } pageInfo { hasNextPage endCursor } edges { node { title } }
  } }`);
  const { aggregate, pageInfo, edges } = first.moviesConnection;
  assert.deepEqual([aggregate.count.nodes, pageInfo.hasNextPage, edges], [2, true, [{ node: { title: "Alien" } }]]);
  const next = await ask(
    "query ($after: String) { moviesConnection(first: 1, after: $after, sort: [{ title: ASC }]) { edges { node { title } } } }",
    { after: pageInfo.endCursor },
  );
  assert.deepEqual(next.moviesConnection.edges, [{ node: { title: "The Matrix" } }]);
  const roles = await ask(`{ movies(where: { title: { eq: "The Matrix" } }) {
    actorsConnection { edges { properties { roles salary } node { name } } }
  } }`);
  assert.deepEqual(roles.movies[0].actorsConnection.edges, [
    { properties: { roles: ["Neo"], salary: 10 }, node: { name: "Keanu Reeves" } },
  ]);
}

async function values_are_aggregated() {
  const data = await ask(`{ moviesConnection { aggregate {
    node { released { min max average sum } title { shortest longest } }
  } } }`);
  const { released, title } = data.moviesConnection.aggregate.node;
  assert.deepEqual(released, { min: 1979, max: 1999, average: 1989, sum: 3978 });
  assert.deepEqual(title, { shortest: "Alien", longest: "The Matrix" });
}

async function statements_of_the_schema_run() {
  const data = await ask('{ oldest movies(where: { title: { eq: "Alien" } }) { similar { title } } }');
  assert.deepEqual(data, { oldest: 1979, movies: [{ similar: [{ title: "The Matrix" }] }] });
}

async function interfaces_and_unions_are_resolved() {
  await ask('mutation { createDirectors(input: [{ name: "Ridley Scott" }]) { directors { name } } }');
  const people = await ask("{ people(sort: [{ name: ASC }]) { __typename name } }");
  assert.deepEqual(people.people.map((one) => `${one.__typename} ${one.name}`), [
    "Actor Keanu Reeves",
    "Director Ridley Scott",
    "Actor Sigourney Weaver",
  ]);
  const found = await ask('{ results(where: { Movie: { title: { eq: "Alien" } }, Genre: {} }) { ... on Movie { title } ... on Genre { name } } }');
  assert.equal(found.results.length, 2);
}

async function nodes_are_disconnected_and_deleted() {
  const data = await ask(`mutation { updateMovies(
    where: { title: { eq: "Alien" } }
    update: { genres: { disconnect: [{ where: { node: { name: { eq: "SF" } } } }] } }
  ) { movies { genres { name } } } }`);
  assert.deepEqual(data.updateMovies.movies, [{ genres: [] }]);
  const gone = await ask('mutation { deleteMovies(where: { title: { eq: "Alien" } }, delete: { actors: [{ where: {} }] }) { nodesDeleted } }');
  assert.equal(gone.deleteMovies.nodesDeleted, 2);
}

const full_text_queries_are_answered = expectedToFail("FULLTEXT INDEX", async function full_text_queries_are_answered() {
  const text = `type Text @node @fulltext(indexes: [{ indexName: "t", fields: ["body"], queryName: "searchTexts" }]) { body: String }`;
  const other = new Neo4jGraphQL({ typeDefs: text, driver });
  await other.getSchema();
  const session = driver.session({ database: "people" });
  try {
    await session.run("CREATE FULLTEXT INDEX t FOR (n:Text) ON EACH [n.body]");
  } finally {
    await session.close();
  }
});

run(
  "graphql",
  [
    schema_is_built_and_checked,
    nested_nodes_are_created,
    nodes_are_connected_and_updated,
    filters_and_sorting_select_nodes,
    connections_have_cursors_and_edges,
    values_are_aggregated,
    statements_of_the_schema_run,
    interfaces_and_unions_are_resolved,
    nodes_are_disconnected_and_deleted,
    full_text_queries_are_answered,
  ],
  () => driver.close(),
);
