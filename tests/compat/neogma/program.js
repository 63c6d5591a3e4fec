// neogma: models, creation with related nodes, queries, the query builder and transactions, as its documentation shows.

const { BOLT, USER, PASSWORD, assert, library, run } = require("../harness/harness.js");

const { BindParam, ModelFactory, Neogma, Op, QueryBuilder, QueryRunner, getSession, getTransaction } = library("neogma");
const neogma = new Neogma({ url: `bolt://${BOLT}`, username: USER, password: PASSWORD, database: "people" });

const Orders = ModelFactory(
  { label: "Order", schema: { id: { type: "string", required: true }, status: { type: "string" } }, primaryKeyField: "id" },
  neogma,
);
const Users = ModelFactory(
  {
    label: "User",
    schema: {
      id: { type: "string", required: true },
      name: { type: "string", minLength: 3, required: true },
      age: { type: "number", minimum: 0, required: false },
    },
    primaryKeyField: "id",
    relationships: {
      Orders: {
        model: Orders,
        direction: "out",
        name: "CREATES",
        properties: { Rating: { property: "rating", schema: { type: "number" } } },
      },
    },
    methods: {
      greeting() {
        return `I am ${this.name}`;
      },
    },
  },
  neogma,
);

async function connectivity_is_verified() {
  await neogma.verifyConnectivity();
}

async function nodes_are_created() {
  const ada = await Users.createOne({ id: "1", name: "Adam", age: 38 });
  assert.equal(ada.greeting(), "I am Adam");
  ada.age = 39;
  await ada.save();
  const found = await Users.findOne({ where: { id: "1" } });
  assert.equal(found.age, 39);
  await assert.rejects(Users.createOne({ id: "2", name: "x" }), /validating/i);
}

async function related_nodes_are_created() {
  await Users.createOne({
    id: "3",
    name: "Barry",
    Orders: {
      properties: [{ id: "o1", status: "confirmed", Rating: 4 }],
      where: [],
    },
  });
  const [row] = await Users.findRelationships({ alias: "Orders", where: { source: { id: "3" } } });
  assert.equal(row.source.name, "Barry");
  assert.equal(row.target.status, "confirmed");
  assert.equal(row.relationship.Rating ?? row.relationship.rating, 4);
  await Users.createMany([{ id: "4", name: "Carol", age: 30 }, { id: "5", name: "David", age: 40 }]);
  assert.equal((await Users.findMany()).length, 4);
}

async function nodes_are_related() {
  const david = await Users.findOne({ where: { id: "5" }, throwIfNotFound: true });
  const [, created] = await david.relateTo({ alias: "Orders", where: { id: "o1" }, properties: { Rating: 5 } });
  assert.equal(created, 1);
  const found = await david.findRelationships({ alias: "Orders", where: {} });
  assert.equal(found[0].target.id, "o1");
  await Users.relateTo({ alias: "Orders", where: { source: { id: "4" }, target: { id: "o1" } }, properties: { Rating: 1 } });
  const all = await Users.findRelationships({ alias: "Orders", where: {} });
  assert.equal(all.length, 3);
  const deleted = await Users.deleteRelationships({ alias: "Orders", where: { source: { id: "4" } } });
  assert.equal(deleted, 1);
}

async function nodes_are_found_by_operators() {
  const names = async (where) => (await Users.findMany({ where, order: [["name", "ASC"]] })).map((one) => one.name);
  assert.deepEqual(await names({ age: { [Op.gt]: 30 } }), ["Adam", "David"]);
  assert.deepEqual(await names({ id: { [Op.in]: ["3", "4"] } }), ["Barry", "Carol"]);
  assert.deepEqual(await names({ name: { [Op.contains]: "a" } }), ["Adam", "Barry", "Carol", "David"]);
  const page = await Users.findMany({ order: [["name", "DESC"]], skip: 1, limit: 2, plain: true });
  assert.deepEqual(page.map((one) => one.name), ["Carol", "Barry"]);
}

async function nodes_are_updated_and_deleted() {
  const [nodes] = await Users.update({ age: 41 }, { where: { id: "5" }, return: true });
  assert.equal(nodes[0].age, 41);
  assert.equal(await Users.delete({ where: { id: "4" }, detach: true }), 1);
  assert.equal(await Users.findOne({ where: { id: "4" } }), null);
}

async function queries_are_built() {
  const result = await new QueryBuilder(new BindParam({ least: 40 }))
    .match({ related: [{ model: Users, identifier: "u" }, { name: "CREATES", direction: "out" }, { label: "Order", identifier: "o" }] })
    .where("u.age > $least")
    .return("u.name AS name, o.id AS id")
    .orderBy("u.name")
    .run(neogma.queryRunner);
  assert.deepEqual(result.records.map((record) => record.toObject()), [{ name: "David", id: "o1" }]);
  const rows = await neogma.queryRunner.run("UNWIND $list AS n RETURN n * 2 AS n", { list: [1, 2] });
  assert.deepEqual(rows.records.map((record) => Number(record.get("n"))), [2, 4]);
  assert.equal(QueryRunner.getResultProperties((await neogma.queryRunner.run("MATCH (u:User {id: '1'}) RETURN u")), "u")[0].name, "Adam");
}

async function transactions_commit_and_roll_back() {
  const { driver } = neogma;
  const database = { database: "people" };
  await getTransaction(null, (session) => Users.createOne({ id: "6", name: "Frank" }, { session }), driver, database);
  const create_and_fail = async (session) => {
    await Users.createOne({ id: "7", name: "Grace" }, { session });
    throw new Error("roll back");
  };
  const in_session = (session) => getTransaction(session, create_and_fail, driver);
  await assert.rejects(getSession(null, in_session, driver, database), /roll back/);
  assert.equal(await Users.findOne({ where: { id: "7" } }), null);
  assert.equal((await Users.findOne({ where: { id: "6" } })).name, "Frank");
}

run(
  "neogma",
  [
    connectivity_is_verified,
    nodes_are_created,
    related_nodes_are_created,
    nodes_are_related,
    nodes_are_found_by_operators,
    nodes_are_updated_and_deleted,
    queries_are_built,
    transactions_commit_and_roll_back,
  ],
  () => neogma.driver.close(),
);
