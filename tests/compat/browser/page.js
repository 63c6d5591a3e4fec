// Runs in the page: see program.js.

/* global neo4j, settings */

const auth = neo4j.auth.basic(settings.user, settings.password);
const connect = (scheme, token = auth) => neo4j.driver(`${scheme}://${settings.bolt}`, token, { disableLosslessIntegers: true });

function same(found, expected) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  if (a !== b) throw new Error(`expected ${b}, found ${a}`);
}

async function refused(code, work) {
  try {
    await work();
  } catch (error) {
    return same(error.code, code);
  }
  throw new Error(`${code} was expected`);
}

const tests = {
  async connectivity_is_verified() {
    for (const scheme of ["bolt", "neo4j"]) {
      const driver = connect(scheme);
      const { protocolVersion } = await driver.getServerInfo();
      if (protocolVersion < 5) throw new Error(`version ${protocolVersion}`);
      await driver.close();
    }
  },
  async statements_write_and_read() {
    const driver = connect("neo4j");
    const database = "people";
    const created = await driver.executeQuery("CREATE (p:Page {name: $name})-[:ON]->(:Site) RETURN p", { name: "start" }, { database });
    same(created.records[0].get("p").properties, { name: "start" });
    same(created.summary.counters.updates().nodesCreated, 2);
    const found = await driver.executeQuery("MATCH path = (:Page)-[:ON]->(:Site) RETURN path, date('2020-01-02') AS day", {}, { database });
    same(found.records[0].get("path").segments[0].relationship.type, "ON");
    same(found.records[0].get("day").toString(), "2020-01-02");
    await driver.close();
  },
  async long_values_and_results_arrive() {
    const driver = connect("bolt");
    const text = "x".repeat(300_000);
    const long = await driver.executeQuery("RETURN $text AS text", { text });
    same(long.records[0].get("text").length, text.length);
    const rows = await driver.executeQuery("UNWIND range(1, 50000) AS n RETURN n, 'row ' + n AS text");
    same(rows.records.length, 50_000);
    same(rows.records[49_999].get("text"), "row 50000");
    await driver.close();
  },
  async transactions_commit_and_roll_back() {
    const driver = connect("bolt");
    const session = driver.session({ database: "people" });
    const transaction = await session.beginTransaction();
    await transaction.run("CREATE (:Tx {n: 1})");
    await transaction.rollback();
    await session.executeWrite((tx) => tx.run("CREATE (:Tx {n: 2})"));
    const found = await session.executeRead((tx) => tx.run("MATCH (t:Tx) RETURN t.n AS n"));
    same(found.records.map((record) => record.get("n")), [2]);
    await session.close();
    await driver.close();
  },
  async errors_have_codes() {
    const driver = connect("bolt");
    await refused("Neo.ClientError.Statement.SyntaxError", () => driver.executeQuery("no statement"));
    await driver.close();
    const nobody = connect("bolt", neo4j.auth.basic("admin", "wrong"));
    await refused("Neo.ClientError.Security.Unauthorized", () => nobody.executeQuery("RETURN 1"));
    await nobody.close();
  },
  async sessions_share_connections() {
    const driver = connect("bolt");
    const numbers = Array.from({ length: 20 }, (_, n) => n);
    const found = await Promise.all(numbers.map((n) => driver.executeQuery("RETURN $n AS n", { n })));
    same(found.map((one) => one.records[0].get("n")), numbers);
    await driver.close();
  },
};

(async () => {
  const outcomes = {};
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      outcomes[name] = null;
    } catch (error) {
      outcomes[name] = `${error.code ?? ""} ${error.stack ?? error}`;
    }
  }
  await fetch("outcomes", { method: "POST", body: JSON.stringify(outcomes) });
})();
