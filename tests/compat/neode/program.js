// neode: models, creation, queries, relationships, the query builder and schema, as its README shows.

const { BOLT, USER, PASSWORD, assert, library, run } = require("../harness/harness.js");

const Neode = library("neode");
const neode = new Neode(`bolt://${BOLT}`, USER, PASSWORD, false, "people");

neode.model("Person", {
  person_id: { primary: true, type: "uuid", required: true },
  name: { type: "string", index: true, required: true, min: 1 },
  email: { type: "string", email: true },
  age: "number",
  born: "date",
  knows: {
    type: "relationship",
    target: "Person",
    relationship: "KNOWS",
    direction: "out",
    properties: { since: { type: "localdatetime" }, strength: "integer" },
    eager: false,
  },
  works_at: { type: "node", target: "Company", relationship: "WORKS_AT", direction: "out", eager: true },
  friends: { type: "nodes", target: "Person", relationship: "KNOWS", direction: "out", eager: true },
});
neode.model("Company", { name: { type: "string", primary: true } });

let ada, bob;

async function nodes_are_created() {
  ada = await neode.create("Person", { name: "Ada", email: "ada@example.org", age: 36, born: new Date("1815-12-10") });
  bob = await neode.create("Person", { name: "Bob", age: 20 });
  assert.equal(ada.get("name"), "Ada");
  assert.match(ada.get("person_id"), /^[0-9a-f-]{36}$/);
  assert.equal((await ada.toJson()).age, 36);
}

async function invalid_nodes_are_refused() {
  await assert.rejects(neode.create("Person", { name: "Eve", email: "nowhere" }));
  await assert.rejects(neode.create("Person", { age: 3 }));
}

async function nodes_are_merged() {
  const company = await neode.merge("Company", { name: "Acme" });
  const again = await neode.merge("Company", { name: "Acme" });
  assert.equal(company.id(), again.id());
  assert.equal((await neode.mergeOn("Person", { name: "Bob" }, { age: 21 })).get("age"), 21);
}

async function nodes_are_found() {
  assert.equal((await neode.find("Person", ada.get("person_id"))).get("name"), "Ada");
  assert.equal((await neode.first("Person", "name", "Bob")).get("name"), "Bob");
  assert.equal((await neode.first("Person", { name: "Bob", age: 21 })).get("age"), 21);
  assert.equal(await neode.first("Person", "name", "Nobody"), false);
  const all = await neode.all("Person", {}, { name: "DESC" }, 10, 0);
  assert.deepEqual(all.map((one) => one.get("name")), ["Bob", "Ada"]);
  assert.equal((await neode.findById("Person", ada.id())).get("name"), "Ada");
}

async function nodes_are_related() {
  const knows = await ada.relateTo(bob, "knows", { since: new Date("2020-01-02"), strength: 7 });
  assert.equal(Number(knows.get("strength")), 7);
  await ada.relateTo(await neode.first("Company", "name", "Acme"), "works_at");
  const found = await neode.first("Person", "name", "Ada");
  assert.equal(found.get("works_at").get("name"), "Acme");
  assert.equal(found.get("friends").first().get("name"), "Bob");
  await found.detachFrom(bob);
  const { records } = await neode.cypher("MATCH (:Person)-[r:KNOWS]->() RETURN count(r) AS n");
  assert.equal(records[0].get("n").toNumber(), 0);
}

async function nodes_are_updated_and_deleted() {
  await bob.update({ age: 22 });
  assert.equal((await neode.first("Person", "name", "Bob")).get("age"), 22);
  await bob.delete();
  assert.equal(await neode.first("Person", "name", "Bob"), false);
}

async function queries_are_built() {
  const query = neode.query().match("p", "Person").where("p.age", ">", 30).return("p").orderBy("p.name").limit(5);
  const result = await query.execute();
  assert.equal(neode.hydrate(result, "p").first().get("name"), "Ada");
  const related = neode.query().match("p", "Person").relationship("WORKS_AT", "out", "r").to("c", "Company");
  const rows = await related.return("c.name AS name").execute();
  assert.equal(rows.records[0].get("name"), "Acme");
}

async function batches_run_in_one_transaction() {
  await neode.batch([
    { query: "CREATE (n:Batch {n: $n})", params: { n: 1 } },
    { query: "CREATE (n:Batch {n: $n})", params: { n: 2 } },
  ]);
  const { records } = await neode.cypher("MATCH (b:Batch) RETURN count(b) AS n");
  assert.equal(records[0].get("n").toNumber(), 2);
  await assert.rejects(neode.batch([{ query: "CREATE (:Batch)", params: {} }, { query: "no statement", params: {} }]));
  const after = await neode.cypher("MATCH (b:Batch) RETURN count(b) AS n");
  assert.equal(after.records[0].get("n").toNumber(), 2);
}

async function everything_is_deleted() {
  await neode.deleteAll("Person");
  await neode.deleteAll("Company");
  assert.equal((await neode.all("Person")).length, 0);
}

run(
  "neode",
  [
    nodes_are_created,
    invalid_nodes_are_refused,
    nodes_are_merged,
    nodes_are_found,
    nodes_are_related,
    nodes_are_updated_and_deleted,
    queries_are_built,
    batches_run_in_one_transaction,
    everything_is_deleted,
  ],
  () => neode.close(),
);
