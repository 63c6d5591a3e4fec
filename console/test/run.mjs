// The console in a real browser: node test/run.mjs BINARY [--only NAME] [--skip NAME], where NAME is part of the name of a test.
// Prints what `cargo xtask test` counts.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { parseArgs } from "node:util";

import { client, startBrowser, startServer } from "./browser.mjs";
import { fill, HOSTILE } from "./data.mjs";

const PASSWORD = "correct horse battery";
const LONG = "NameOfALabelThatIsAsLongAsNamesAreWhereSomeProgramHasMadeThemUp";
const PAGES = ["query", "browse", "schema", "import", "monitor", "access"];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const [binary, ...options] = process.argv.slice(2);
const { values: choice } = parseArgs({ args: options, options: { only: { type: "string", default: "" }, skip: { type: "string" } } });
const server = await startServer(binary);
const browser = await startBrowser();
const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", acceptDownloads: true });
const page = await context.newPage();
page.setDefaultTimeout(10_000);

const problems = [];
let expectedStatuses = [];
const watch = (page) => {
  page.on("console", (message) => {
    if (message.type() !== "error") return;
    // The browser logs requests that a test expects to be refused.
    const refused = /status of (\d+)/.exec(message.text());
    if (refused && expectedStatuses.includes(Number(refused[1]))) return;
    problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`error in the page: ${error.stack ?? error}`));
  page.on("dialog", (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (!["data:", "blob:"].includes(url.protocol) && url.origin !== server.url) problems.push(`a request elsewhere: ${request.url()}`);
  });
};
watch(page);
await context.addInitScript(() => {
  window.__violations = [];
  addEventListener("securitypolicyviolation", (event) => window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.target?.outerHTML?.slice(0, 200)}`), true);
});
async function quiet(where) {
  const violations = await page.evaluate(() => window.__violations.splice(0));
  const all = [...problems.splice(0), ...violations.map((one) => `policy: ${one}`)];
  if ((await page.evaluate(() => window.__xss)) !== undefined) all.push("a stored script ran");
  if (all.length) throw new Error(`${where}:\n${all.join("\n")}`);
}
function equal(found, expected, what = "") {
  const [one, two] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== two) throw new Error(`${what}: ${one} is not ${two}`);
}
function holds(condition, what) {
  if (!condition) throw new Error(what);
}

const editor = page.getByRole("textbox", { name: "Query" });
const status = page.getByTestId("status");
const go = async (name) => {
  await page.evaluate((name) => (location.hash = "#/" + name), name);
  await page.waitForTimeout(30);
};
async function type(text) {
  await editor.focus();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}
async function ask(text) {
  await go("query");
  await type(text);
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
}
/** Explains or profiles what is typed. The previous result, which may be a plan too, is shown until the new one replaces it. */
async function showPlan(button) {
  await page.getByRole("button", { name: button }).click();
  await page.getByRole("button", { name: "Run", exact: true }).waitFor();
}
const tab = (name) => page.getByRole("tab", { name, exact: true });

/** Positions of the nodes in the graph, by name: choosing one draws a ring around it. */
async function nodesDrawn() {
  await page.evaluate(() => {
    const proto = CanvasRenderingContext2D.prototype;
    window.__arc ??= proto.arc;
    proto.arc = function (x, y, ...rest) {
      window.__ring = [x, y];
      return window.__arc.call(this, x, y, ...rest);
    };
  });
  const select = page.getByLabel("Choose a node");
  const places = {};
  for (const option of await select.locator("option:not([value=''])").all()) {
    await page.evaluate(() => (window.__ring = null));
    await select.selectOption(await option.getAttribute("value"));
    places[await option.innerText()] = await page.waitForFunction(() => window.__ring).then((ring) => ring.jsonValue());
  }
  await page.evaluate(() => (CanvasRenderingContext2D.prototype.arc = window.__arc));
  await select.selectOption("");
  return places;
}
/** Those outside of the visible picture. */
async function outside(places) {
  const { width, height } = await page.getByRole("img", { name: /^A graph of/ }).boundingBox();
  return Object.entries(places).filter(([, [x, y]]) => !(x > 0 && x < width && y > 0 && y < height));
}

/** The colour of a pixel of the page. */
async function colourAt(x, y) {
  const picture = (await page.screenshot({ clip: { x: Math.round(x), y: Math.round(y), width: 1, height: 1 } })).toString("base64");
  return page.evaluate(async (picture) => {
    const image = new Image();
    image.src = "data:image/png;base64," + picture;
    await image.decode();
    const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    context.drawImage(image, 0, 0);
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  }, picture);
}
/** Loads the page with an empty cache until `there` is visible: what the server sent. How long it takes is measured by times.mjs. */
async function load(options, there) {
  const fresh = await browser.newContext(options);
  const page = await fresh.newPage();
  const sizes = [];
  page.on("requestfinished", (request) => sizes.push(request.sizes().then((size) => size.responseBodySize + size.responseHeadersSize)));
  await page.goto(server.url);
  await there(page).waitFor();
  await page.waitForLoadState("networkidle");
  const all = await Promise.all(sizes);
  await fresh.close();
  return { requests: all.length, kib: Math.ceil(all.reduce((sum, size) => sum + size, 0) / 1024) };
}
/** Another user, in a separate browser context. */
async function another(user, password) {
  const own = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await own.newPage();
  page.setDefaultTimeout(10_000);
  const enter = async (password) => {
    await page.getByLabel("Name").fill(user);
    await page.getByLabel("Password").fill(password);
    await page.keyboard.press("Enter");
  };
  await page.goto(server.url);
  await enter(password);
  await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
  return { page, enter, go: (name) => page.evaluate((name) => (location.hash = "#/" + name), name), close: () => own.close() };
}

let api;
const tests = {
  async "the first start: a one-time link, and the token is removed from the address"() {
    expectedStatuses = [401];
    await page.goto(server.link);
    await page.getByRole("button", { name: "Create the administrator" }).waitFor();
    equal(await page.evaluate(() => location.href.includes("setup")), false, "the token in the address");
    await page.getByLabel("Name").fill("admin");
    await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
    await page.getByLabel("Repeat the password").fill(PASSWORD + "!");
    await page.keyboard.press("Enter");
    await page.getByText("The two passwords differ").waitFor();
    await page.getByLabel("Repeat the password").fill(PASSWORD);
    await page.keyboard.press("Enter");
    await editor.waitFor();
    const again = await fetch(`${server.url}/v1/setup`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token: server.token, user: "eve", password: PASSWORD }) });
    equal(again.status, 401, "the token a second time");
    const token = (await client(server.url).call("POST", "/v1/login", { user: "admin", password: PASSWORD })).token;
    api = client(server.url, token);
    await fill(api);
    await page.reload();
    await editor.waitFor();
    expectedStatuses = [];
  },

  async "the page loads with few requests and bytes"() {
    const login = await load({}, (page) => page.getByRole("button", { name: "Log in" }));
    const editor = await load({ storageState: await context.storageState() }, (page) => page.getByRole("textbox", { name: "Query" }));
    console.log(`login: ${JSON.stringify(login)}, editor: ${JSON.stringify(editor)}`);
    holds(login.requests <= 8 && login.kib <= 400, `login: ${JSON.stringify(login)}`);
    holds(editor.requests <= 16 && editor.kib <= 400, `editor: ${JSON.stringify(editor)}`);
  },

  async "the cookie is hidden from scripts and useless without the page"() {
    const cookies = await context.cookies();
    equal(cookies.length, 1, "cookies");
    equal([cookies[0].httpOnly, cookies[0].sameSite], [true, "Strict"], "the cookie");
    const secret = cookies[0].value;
    const seen = await page.evaluate(() => document.cookie + JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }) + location.href + document.documentElement.outerHTML);
    holds(!seen.includes(secret) && !seen.includes("isomer_setup"), "a script can read the token");
    expectedStatuses = [403];
    const bare = await page.evaluate(async () => (await fetch("/v1/databases", { credentials: "same-origin" })).status);
    equal(bare, 403, "a request with the cookie alone");
    const form = await page.request.post(`${server.url}/v1/databases/people/query`, { headers: { Origin: "https://evil.example", "Content-Type": "text/plain" }, data: '{"query":"MATCH (n) DETACH DELETE n"}' });
    equal(form.status(), 403, "a form of another site");
  },

  async "a table, exact numbers, JSON, several statements, parameters"() {
    await ask("RETURN 9007199254740993 AS big, 1.0 AS one, 'two' AS text, [1, {a: null}] AS nested");
    const cells = await page.getByRole("cell").allInnerTexts();
    equal(cells.slice(1), ["9007199254740993", "1.0", "two", '[1,{"a":null}]'], "cells");
    await tab("JSON").click();
    holds((await page.getByRole("region", { name: "Rows as JSON" }).innerText()).includes("9007199254740993"), "JSON keeps the number");
    await tab("Table").click();
    await ask("RETURN 1 AS a; // ; 'not a statement'\nRETURN ';' AS b;");
    equal((await page.getByRole("cell").allInnerTexts())[1], ";", "the last statement's result");
    await page.getByRole("combobox", { name: "Statement" }).selectOption("0");
    equal((await page.getByRole("cell").allInnerTexts())[1], "1", "the first statement's result");
    await page.getByRole("button", { name: "Parameters" }).click();
    await page.getByLabel("Parameters, as JSON").fill('{"n": 12345678901234567}');
    await ask("RETURN $n AS n");
    equal((await page.getByRole("cell").allInnerTexts())[1], "12345678901234567", "a parameter");
    await page.getByRole("button", { name: "Parameters" }).click();
    await ask("CREATE (t:Trash {n: 1}) RETURN t.n");
    holds((await status.innerText()).includes("1 nodes created"), "counters");
    await api.query("MATCH (t:Trash) DELETE t");
  },

  async "results and running statements survive a change of page"() {
    await ask("RETURN 'kept' AS word");
    await go("schema");
    await page.getByRole("heading", { name: "Schema", level: 1 }).waitFor();
    await go("query");
    equal((await page.getByRole("cell").allInnerTexts())[1], "kept", "the result");
    await type("UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b WITH a, b WHERE a + b < 0 RETURN count(*)");
    await page.keyboard.press("Control+Enter");
    await page.getByRole("button", { name: /^Stop · \d+ s/ }).waitFor();
    await go("schema");
    await page.getByRole("heading", { name: "Schema", level: 1 }).waitFor();
    await go("query");
    await page.getByRole("button", { name: /^Stop/ }).click();
    await page.getByRole("button", { name: "Run", exact: true }).waitFor();
    holds((await page.getByRole("alert").innerText()).includes("The statement was cancelled"), "it was stopped");
  },

  async "errors are shown where they are"() {
    expectedStatuses = [400];
    await ask("MATCH (p:Person)\nRETRUN p");
    const alert = page.getByRole("alert");
    await alert.waitFor();
    holds((await alert.innerText()).includes("Invalid"), "the kind");
    await page.locator(".cm-lintRange-error").first().waitFor();
    expectedStatuses = [];
  },

  async "plans as a tree with rows and time"() {
    await go("query");
    await type("MATCH (p:Person)-[:KNOWS]->(q) WHERE p.born > 1980 RETURN q.name, count(*) AS n ORDER BY n DESC LIMIT 5");
    await showPlan("Explain");
    const plan = page.getByRole("region", { name: "Plan" });
    await plan.waitFor();
    equal(await plan.getByRole("columnheader").allInnerTexts(), ["Operator", "Expected"], "columns of EXPLAIN");
    await showPlan("Profile");
    await plan.getByRole("columnheader", { name: "Own time" }).waitFor();
    const text = await plan.innerText();
    holds(/Expand/.test(text) && /\bms\b/.test(text), text);
    await tab("Table").click();
    equal((await page.getByRole("row").count()) - 1, 5, "rows in addition to the plan");
  },

  async "the plan shows the operators of its text, leaves included"() {
    // The first is rewritten, so that its plan has unused operators; the others have right sides, branches and sub-plans.
    for (const query of [
      "MATCH (a:Person {name: 'x'})-[:KNOWS]->(b)-[:KNOWS]->(c) RETURN a.name, count(*)",
      "MATCH (p:Person) WHERE NOT (p)-[:KNOWS]->() OPTIONAL MATCH (p)-[:LIKES]->(f) RETURN p.name, size([(p)--(q) WHERE q.born > 1990 | q]) AS n",
      "MATCH (p:Person) RETURN p.name AS n UNION MATCH (f:Film) WHERE EXISTS { (f)<-[:LIKES]-() } RETURN f.title AS n",
    ]) {
      const { plan } = await api.call("POST", "/v1/databases/people/query", { query: "EXPLAIN " + query });
      const wanted = plan.trim().split("\n").map((line) => ({ depth: (line.match(/^(?:\| )*/)[0].length / 2), text: line.replace(/^(?:\| )*/, "").replace(/^\[(\w+)\] /, "$1 ").replace(/ {2}~.*$/, "").replace(/\s+/g, " ").trim() }));
      holds(wanted.some((line) => line.text.startsWith("Argument")), `a plan with leaves: ${plan}`);
      await go("query");
      await type(query);
      await showPlan("Explain");
      const shown = page.getByRole("region", { name: "Plan" });
      await shown.waitFor();
      const lines = await shown.locator("tbody td.op > div").evaluateAll((all) => all.map((one) => ({ depth: parseInt(one.style.paddingLeft) / 22, text: one.innerText.replace(/\s+/g, " ").trim() })));
      equal(lines, wanted, query);
    }
  },

  async "completion from the live catalog"() {
    await go("query");
    await type("");
    await page.keyboard.type("MATCH (p:Pe");
    const list = page.getByRole("listbox");
    await list.getByRole("option", { name: "Person" }).first().waitFor();
    await page.waitForTimeout(120);
    await page.keyboard.press("Enter");
    await page.keyboard.type(")-[:KNO");
    await list.getByRole("option", { name: "KNOWS" }).first().waitFor();
    await page.waitForTimeout(120);
    await page.keyboard.press("Tab");
    await page.keyboard.type("]->(q) WHERE p.ema");
    await list.getByRole("option", { name: "email" }).first().waitFor();
    await page.keyboard.press("Escape");
    const text = (await editor.innerText()).replace(/\s+/g, " ");
    holds(text.startsWith("MATCH (p:Person)-[:KNOWS]->(q) WHERE p.ema"), text);
  },

  async "history and favourites are stored, and run nothing by themselves"() {
    await ask("RETURN 'to be kept' AS kept");
    await page.getByRole("button", { name: "Add to favourites" }).click();
    await page.reload();
    await editor.waitFor();
    equal(await status.count(), 0, "nothing ran");
    await page.goto(`${server.url}/#/query/MATCH%20(n)%20DETACH%20DELETE%20n`);
    await page.waitForTimeout(150);
    equal(await status.count(), 0, "nothing ran from a link");
    await tab("History").click();
    await page.getByRole("button", { name: /RETURN 'to be kept'/ }).first().click();
    equal(await editor.innerText(), "RETURN 'to be kept' AS kept", "from the history");
    await tab("Saved").click();
    equal(await page.getByRole("button", { name: /RETURN 'to be kept'/ }).count(), 1, "favourites");
    await page.getByRole("button", { name: "Remove from the favourites" }).click();
    await tab("Catalog").click();
  },

  async "a result as a graph: expanded, styled, capped"() {
    await ask("MATCH (p:Person {_key: 'p1'}) RETURN p");
    const graph = page.getByRole("img", { name: /^A graph of/ });
    await graph.waitFor();
    equal(await graph.getAttribute("aria-label").then((label) => label.startsWith("A graph of 1 nodes")), true, "one node");
    const box = await graph.boundingBox();
    await page.mouse.dblclick(box.x + box.width / 2, box.y + box.height / 2);
    await page.getByRole("status").filter({ hasText: "more nodes" }).waitFor();
    const expanded = Number(/of (\d+)/.exec(await graph.getAttribute("aria-label"))[1]);
    holds(expanded > 3, `${expanded} nodes after the double click`);
    await page.getByRole("button", { name: /^Person/ }).and(page.locator("[aria-expanded]")).click();
    // The pixels, not only the state: the names next to the nodes, and the centre of one.
    await page.evaluate(() => {
      const proto = CanvasRenderingContext2D.prototype;
      window.__fillText = proto.fillText;
      window.__texts = [];
      proto.fillText = function (text, ...rest) {
        window.__texts.push(text);
        return window.__fillText.call(this, text, ...rest);
      };
    });
    await page.getByLabel("Caption").selectOption("email");
    await page.waitForFunction(() => window.__texts.some((text) => text.endsWith("@example.org")));
    await page.evaluate(() => (CanvasRenderingContext2D.prototype.fillText = window.__fillText));
    const [x, y] = Object.entries(await nodesDrawn()).find(([name]) => name.startsWith("Person "))[1];
    const drawn = () => colourAt(box.x + x, box.y + y);
    await page.waitForTimeout(100);
    const before = await drawn();
    await page.getByLabel("Colour", { exact: true }).fill("#ff0000");
    await page.waitForTimeout(200);
    const after = await drawn();
    holds(String(before) !== "255,0,0", `the node is red already: ${before}`);
    equal(after, [255, 0, 0], "the colour of the node");
    equal((await page.evaluate(() => JSON.parse(localStorage.getItem("isomer.styles")).Person)).caption, "email", "the style");
    await page.evaluate(() => localStorage.removeItem("isomer.styles"));
    await api.query("UNWIND range(1, 2500) AS n CREATE (:Many {n: n})");
    await ask("MATCH (m:Many) RETURN m");
    await page.getByText("at most 2,000 nodes").waitFor();
    await page.getByRole("button", { name: "Show all" }).click();
    await api.query("MATCH (m:Many) DELETE m");
  },

  async "the neighbours of an expanded node are visible, also after a drag"() {
    await ask("MATCH (a:City {_key: 'Pisa'}) RETURN a");
    const graph = page.getByRole("img", { name: /^A graph of 1 nodes/ });
    await graph.waitFor();
    const box = await page.locator(".canvas").boundingBox();
    const middle = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.click(...middle);
    await page.getByRole("region", { name: "Chosen" }).waitFor();
    await page.mouse.dblclick(...middle);
    await page.getByRole("status").filter({ hasText: "more nodes" }).waitFor();
    await page.waitForTimeout(200);
    const places = await nodesDrawn();
    const spread = (at) => Math.max(...Object.values(places).map((place) => place[at])) - Math.min(...Object.values(places).map((place) => place[at]));
    holds(Object.keys(places).length > 5 && spread(0) > 100 && spread(1) > 100, `one heap: ${JSON.stringify(places)}`);
    equal(await outside(places), [], "nodes outside of the picture");
    // Dragged out of view, and back by the button.
    const [x, y] = places["City Pisa"];
    await page.mouse.move(box.x + x, box.y + y);
    await page.mouse.down();
    await page.mouse.move(box.x + x + 30, box.y + y, { steps: 3 });
    await page.mouse.move(box.x + box.width + 200, box.y + y, { steps: 5 });
    await page.mouse.up();
    holds((await outside(await nodesDrawn())).length > 0, "the drag moved nothing");
    await page.getByRole("button", { name: "Show all" }).click();
    await page.waitForTimeout(600);
    equal(await outside(await nodesDrawn()), [], "nodes outside after Show all");
  },

  async "a relationship of the graph is chosen by a click"() {
    await ask("MATCH p = (:Person {_key: 'p1'})-[:LIVES_IN]->() RETURN p");
    await page.getByRole("img", { name: /^A graph of 2 nodes/ }).waitFor();
    await page.waitForTimeout(200);
    const [one, two] = Object.values(await nodesDrawn());
    const box = await page.locator(".canvas").boundingBox();
    await page.mouse.click(box.x + (one[0] + two[0]) / 2, box.y + (one[1] + two[1]) / 2);
    const chosen = page.getByRole("region", { name: "Chosen" });
    await chosen.getByRole("heading", { name: "LIVES_IN" }).waitFor();
    await chosen.getByRole("button", { name: /^from/ }).click();
    await chosen.getByRole("heading", { name: "Person" }).waitFor();
  },

  async "the graph by keyboard: nodes are chosen, followed and expanded"() {
    await ask("MATCH (p:Person {_key: 'p1'}) RETURN p");
    await page.getByLabel("Choose a node").focus();
    await page.keyboard.press("ArrowDown");
    const chosen = page.getByRole("region", { name: "Chosen" });
    await chosen.getByRole("button", { name: "Expand" }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("status").filter({ hasText: "more nodes" }).waitFor();
    await chosen.getByRole("button", { name: /LIVES_IN/ }).focus();
    await page.keyboard.press("Enter");
    await chosen.getByRole("button", { name: /^to/ }).focus();
    await page.keyboard.press("Enter");
    await chosen.getByRole("heading", { name: "City" }).waitFor();
  },

  async "large results keep the page responsive and report what is not shown"() {
    await ask("UNWIND range(1, 200000) AS n RETURN n");
    await page.getByText(/more rows than the 10,000 shown here/).waitFor();
    holds((await status.innerText()).startsWith("10,000+ rows"), await status.innerText());
    await page.getByRole("button", { name: "Next" }).click();
    await ask("RETURN reduce(s = 'x', i IN range(1, 22) | s + s) AS large");
    await page.getByRole("button", { name: /^x+/ }).click();
    await page.getByText(/Only the first 400,000 characters/).waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    const slow = ask("UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b WITH a, b WHERE a * b < 0 RETURN count(*)").catch(() => {});
    await page.getByRole("button", { name: /^Stop/ }).click();
    await slow;
    await page.getByText("The statement was cancelled").waitFor();
    for (let wait = 0; wait < 40 && (await api.query("SHOW QUERIES")).rows.length > 1; wait++) await page.waitForTimeout(50);
    equal((await api.query("SHOW QUERIES")).rows.length, 1, "the statement continues without its page");
  },

  async "JSON of a large result: all rows or a notice; copying includes all"() {
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: server.url });
    const shown = page.getByRole("region", { name: "Rows as JSON" });
    const notice = page.getByText(/Only the first 400,000 characters are shown; copying includes everything/);
    const copied = async () => {
      await page.evaluate(() => navigator.clipboard.writeText(""));
      await page.getByRole("button", { name: "Copy as JSON" }).click();
      await page.waitForFunction(async () => (await navigator.clipboard.readText()) !== "");
      return page.evaluate(async () => JSON.parse(await navigator.clipboard.readText()));
    };
    await ask("UNWIND range(1, 9000) AS n RETURN n");
    await tab("JSON").click();
    const numbers = [...(await shown.innerText()).matchAll(/"n": (\d+)/g)];
    equal([numbers.length, numbers.at(-1)[1], await notice.count()], [9000, "9000", 0], "what is shown");
    equal((await copied()).map((row) => row.n), Array.from({ length: 9000 }, (_, at) => at + 1), "what is copied");
    await ask("UNWIND range(1, 9000) AS n RETURN n, 'a text that makes every row a long one, so that not all are shown' AS text");
    await tab("JSON").click();
    await notice.waitFor();
    const [box, panel] = [await notice.boundingBox(), await page.locator("#shown").boundingBox()];
    holds(box.y >= panel.y && box.y + box.height <= panel.y + panel.height, "the notice is outside of the visible part");
    const rows = await copied();
    equal([rows.length, rows.at(-1).n], [9000, 9000], "what is copied of a longer one");
    await tab("Table").click();
  },

  async "a result as CSV, harmless in a spreadsheet"() {
    await ask("RETURN '=1+1' AS a, 'x, \"y\"' AS b, null AS c");
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download as CSV" }).click()]);
    equal(readFileSync(await download.path(), "utf8"), 'a,b,c\r\n\'=1+1,"x, ""y""",\r\n', "the file");
  },

  async "data: changed values keep their types, or are refused"() {
    const record = page.getByRole("region", { name: "Record", exact: true });
    const text = page.getByLabel(/^(?:Properties|Value), as JSON$/);
    const dialog = page.getByRole("dialog");
    const change = async (from, to) => {
      await record.getByRole("button", { name: "Change" }).click();
      const before = await text.inputValue();
      holds(before.includes(from), `${from} in ${before}`);
      await text.fill(before.replace(from, to));
      await dialog.getByRole("button", { name: "Save" }).click();
    };
    const kept = async (from, to) => {
      await change(from, to);
      await dialog.waitFor({ state: "detached" });
    };
    const refused = async (from, to, reason) => {
      expectedStatuses = [400];
      await change(from, to);
      const message = await dialog.getByRole("alert").innerText();
      holds(message.includes(reason), message);
      await dialog.getByRole("button", { name: "Cancel" }).click();
      expectedStatuses = [];
    };
    const fields = `due: date('2026-01-01'), at: datetime('2026-01-01T10:00+01:00[Europe/Rome]'), clock: localtime('10:00'), zoned: time('10:00+02:00'), local: localdatetime('2026-01-01T10:00'),
      long: duration('P1DT2H'), place: point({longitude: 8.5, latitude: 47.0}), big: 9007199254740993, one: 1.0, far: 1.0 / 0.0, raw: $raw, text: '2026-01-01', on: true,
      days: [date('2026-01-01'), date('2026-01-02')], deep: {inner: [{since: date('2026-01-01'), n: 1.0}], name: 'x'}`;
    const types = { due: "DATE", at: "ZONED DATETIME", clock: "LOCAL TIME", zoned: "ZONED TIME", local: "LOCAL DATETIME", long: "DURATION", place: "POINT", big: "INTEGER", one: "FLOAT", far: "FLOAT", raw: "BYTES", text: "STRING", on: "BOOLEAN" };
    const shown = { ...types, "days[0]": "DATE", "days[1]": "DATE", "deep.inner[0].since": "DATE", "deep.inner[0].n": "FLOAT", "deep.name": "STRING" };
    const raw = { $bytes: "AQI=" };
    await api.query(`CREATE (a:Typed {_key: 't1', ${fields}})-[:TYPED {${fields}}]->(:Typed {_key: 't2'})`, { raw });
    await api.query(`CALL kv.put('typed', 'k', {${fields}})`, { raw });
    await api.query("CALL kv.put('typed', 'day', date('2026-01-01'))");
    const places = [
      { path: "label/Typed", name: "t1", root: "MATCH (n:Typed {_key: 't1'}) WITH properties(n) AS v" },
      { path: "type/TYPED", name: /^#/, root: "MATCH ()-[r:TYPED]->() WITH properties(r) AS v" },
      { path: "bucket/typed", name: "k", root: "WITH kv.get('typed', 'k') AS v" },
    ];
    for (const { path, name, root } of places) {
      await page.goto(`${server.url}/#/browse/${path}`);
      await page.reload();
      await page.getByRole("region", { name: "Records", exact: true }).getByRole("button", typeof name === "string" ? { name, exact: true } : { name }).first().click();
      const value = async (expression) => (await api.query(`${root} RETURN ${expression} AS x`)).rows[0][0];
      const open = async () => {
        // After a change its record is closed: it is opened again.
        if (path.startsWith("bucket")) await page.getByRole("button", { name, exact: true }).click();
      };
      await record.getByRole("button", { name: "Change" }).click();
      const listed = dialog.getByRole("group", { name: "Types" });
      await listed.waitFor();
      for (const [part, type] of Object.entries(shown)) holds((await listed.innerText()).replace(/\s+/g, " ").includes(`${part} ${type}`), `${part} ${type} in ${await listed.innerText()}`);
      await dialog.getByRole("button", { name: "Cancel" }).click();
      for (const [from, to, expression, wanted] of [
        ['"due": "2026-01-01"', '"due": "2026-05-05"', "v.due = date('2026-05-05')", true],
        ['"at": "2026-01-01T10:00+01:00[Europe/Rome]"', '"at": "2026-07-01T10:00+02:00[Europe/Rome]"', "v.at = datetime('2026-07-01T10:00[Europe/Rome]')", true],
        ['"clock": "10:00"', '"clock": "11:30"', "v.clock = localtime('11:30')", true],
        ['"zoned": "10:00+02:00"', '"zoned": "11:00Z"', "v.zoned = time('11:00Z')", true],
        ['"local": "2026-01-01T10:00"', '"local": "2026-02-01T10:00"', "v.local = localdatetime('2026-02-01T10:00')", true],
        ['"long": "P1DT2H"', '"long": "P2D"', "v.long = duration('P2D')", true],
        ["8.5", "9", "v.place = point({longitude: 9, latitude: 47})", true],
        ["9007199254740993", "9007199254740995", "toString(v.big)", "9007199254740995"],
        ['"one": 1.0', '"one": 2', "v.one = 2 AND valueType(v.one) = 'FLOAT'", true],
        ['"far": "Infinity"', '"far": "-Infinity"', "v.far < 0", true],
        ['"AQI="', '"AQID"', "v.raw", { $bytes: "AQID" }],
        ['"2026-01-01", "2026-01-02"', '"2026-01-02", "2026-01-03", "2026-01-04"', "[d IN v.days | valueType(d)]", ["DATE", "DATE", "DATE"]],
        ['"since": "2026-01-01"', '"since": "2026-06-01"', "v.deep.inner[0].since = date('2026-06-01') AND valueType(v.deep.inner[0].n) = 'FLOAT'", true],
        ['"text": "2026-01-01"', '"text": "2026-05-05"', "v.text", "2026-05-05"],
        ['"on": true', '"on": false', "v.on", false],
      ]) {
        await kept(from, to);
        equal(await value(expression), wanted, `${path}: ${to}`);
        await open();
      }
      equal(await value(`[k IN ${JSON.stringify(Object.keys(types))} | valueType(v[k])]`), Object.values(types), `types of ${path}`);
      for (const [from, to, reason] of [
        ['"due": "2026-05-05"', '"due": "soon"', "`due` has the type DATE"],
        ['"due": "2026-05-05"', '"due": 5', "`due` has the type DATE"],
        ['"at": "2026-07-01T10:00+02:00[Europe/Rome]"', '"at": "2026-07-01T10:00"', "no zone"],
        ['"long": "P2D"', '"long": "two days"', "`long` has the type DURATION"],
        ['"big": 9007199254740995', '"big": "many"', "`big` has the type INTEGER"],
        ['"since": "2026-06-01"', '"since": "2026-06-31"', "`deep.inner[0].since` has the type DATE"],
        ['"2026-01-03"', '"x"', "`days[1]` has the type DATE"],
        ["47.0", "147.0", "`place` has the type POINT"],
        ['"on": false', '"on": "no"', "`on` has the type BOOLEAN"],
      ]) await refused(from, to, reason);
      equal(await value("v.due = date('2026-05-05')"), true, "refused changes had no effect");
    }
    await page.getByRole("button", { name: "day", exact: true }).click();
    await kept("2026-01-01", "2026-05-05");
    equal((await api.query("RETURN kv.get('typed', 'day') = date('2026-05-05') AS x")).rows[0][0], true, "a value that is a date");
    // With the checkbox, types may change.
    await page.goto(`${server.url}/#/browse/label/Typed`);
    await page.getByRole("button", { name: "t1", exact: true }).click();
    await record.getByRole("button", { name: "Change" }).click();
    await text.fill((await text.inputValue()).replace('"due": "2026-05-05"', '"due": "soon"'));
    await dialog.getByLabel(/^Allow types to change/).check();
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    equal((await api.query("MATCH (n:Typed {_key: 't1'}) RETURN n.due")).rows[0][0], "soon", "a type that may change");
    await api.query("MATCH (n:Typed) DETACH DELETE n");
    await api.call("DELETE", "/v1/databases/people/buckets/typed");
  },

  async "data: records, neighbours, changes, keys"() {
    await page.goto(`${server.url}/#/browse/label/Person`);
    await page.getByRole("heading", { name: "Person", level: 1 }).waitFor();
    await page.getByRole("button", { name: "p1", exact: true }).click();
    const record = page.getByRole("region", { name: "Record", exact: true });
    await record.getByText("Relationships").waitFor();
    await record.getByRole("button", { name: /LIVES_IN/ }).click();
    await record.getByRole("heading", { name: /City/ }).waitFor();
    await page.getByLabel("Text in any property").fill("p7@");
    await page.getByLabel("Text in any property").fill("lovelace");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => [...document.querySelectorAll("tbody tr")].length > 0 && [...document.querySelectorAll("tbody tr")].every((row) => /lovelace/i.test(row.textContent)));

    await page.goto(`${server.url}/#/browse/label/Film`);
    await page.getByRole("button", { name: "New" }).click();
    await page.getByLabel("Properties, as JSON").fill('{"_key": "f99", "title": "Test", "n": 9007199254740993}');
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "f99" }).click();
    await page.getByRole("button", { name: "Change" }).click();
    const text = page.getByLabel("Properties, as JSON");
    holds((await text.inputValue()).includes("9007199254740993"), "the number, exactly");
    await text.fill('{"_key": "f99", "n": 9007199254740993, "new": [1.0]}');
    await page.getByRole("button", { name: "Save" }).click();
    await record.getByText('"new"').waitFor();
    equal((await api.query("MATCH (f:Film {_key: 'f99'}) RETURN f.title, toString(f.n), f.new")).rows[0], [null, "9007199254740993", [1.0]], "what is stored");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "f99" }).waitFor({ state: "detached" });

    await page.goto(`${server.url}/#/browse/type/KNOWS`);
    await page.getByRole("heading", { name: "KNOWS", level: 1 }).waitFor();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText(/^51–/).waitFor();

    await page.goto(`${server.url}/#/browse/bucket/sessions`);
    await page.getByRole("button", { name: "s-003" }).click();
    await record.getByText('"visits"').waitFor();
    await page.getByLabel("Prefix of keys").fill("s-01");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "s-003" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "New" }).click();
    await page.getByLabel("Key", { exact: true }).fill("s-01/ä?#");
    await page.getByLabel("Value, as JSON").fill("{wrong");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    await page.getByLabel("Value, as JSON").fill("[true]");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("button", { name: "s-01/ä?#" }).click();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "s-01/ä?#" }).waitFor({ state: "detached" });
  },

  async "convergent fields show their kinds"() {
    await page.goto(`${server.url}/#/browse/label/Post`);
    await page.getByRole("button", { name: "post-2", exact: true }).click();
    const record = page.getByRole("region", { name: "Record", exact: true });
    await record.getByText("Convergent fields").waitFor();
    const text = await record.innerText();
    for (const kind of ["counter", "set", "flag", "register"]) holds(text.includes(kind), `${kind} in ${text}`);
    const votes = record.getByLabel("Replicas of votes", { exact: true });
    await votes.waitFor();
    holds(/here\s*\+\d/.test(await votes.innerText()), `what each replica has added: ${await votes.innerText()}`);
  },

  async "files: folders, uploads, contents as text, downloads"() {
    await page.goto(`${server.url}/#/browse/files/%2F`);
    await page.getByRole("button", { name: "Folder", exact: true }).click();
    await page.getByLabel("Name", { exact: false }).last().fill("letters");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("link", { name: "letters" }).click();
    await page.getByText("Nothing in this folder").waitFor();
    const name = "a <img src=x onerror=window.__xss=1>.txt";
    const content = "<script>window.__xss=1</script> Dear Ada,";
    await page.getByLabel("Files to upload").setInputFiles({ name, mimeType: "text/html", buffer: Buffer.from(content) });
    await page.getByRole("button", { name, exact: true }).click();
    equal(await page.getByRole("region", { name: "Content" }).innerText(), content, "the content, as text");
    await page.getByRole("button", { name: "Close" }).click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: `Download ${name}` }).click()]);
    equal(readFileSync(await download.path(), "utf8"), content, "the download");
    await page.getByRole("button", { name: `Rename ${name}` }).click();
    await page.getByLabel("Name", { exact: false }).last().fill("/moved.txt");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Nothing in this folder").waitFor();
    await page.getByRole("link", { name: "Files", exact: true }).click();
    await page.getByRole("button", { name: "Remove moved.txt" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByRole("button", { name: "Remove letters" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("Nothing in this folder").waitFor();
  },

  async "schema: indexes and constraints are created and dropped"() {
    await go("schema");
    await page.getByRole("button", { name: "Index", exact: true }).click();
    await page.getByLabel("Label", { exact: true }).fill("Film");
    await page.getByLabel(/^Properties/).fill("year, title");
    await page.getByLabel("Name", { exact: true }).fill("film year");
    await page.getByText("CREATE INDEX `film year` FOR (n:Film) ON (n.year, n.title)").waitFor();
    await page.getByRole("button", { name: "Make" }).click();
    await page.getByRole("button", { name: "Drop the index film year" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Drop" }).click();
    await page.getByRole("button", { name: "Drop the index film year" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Constraint", exact: true }).click();
    await page.getByLabel("Label", { exact: true }).fill("Film");
    await page.getByLabel(/^Properties/).fill("nothing");
    await page.getByLabel("Requirement").selectOption("IS NOT NULL");
    expectedStatuses = [400, 409, 422];
    await page.getByRole("button", { name: "Make" }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    expectedStatuses = [];
    await page.getByRole("button", { name: "Cancel" }).click();
  },

  async "import: a preview, nodes, relationships, invalid lines"() {
    await go("import");
    const file = page.getByLabel("File to import");
    const csv = '\ufeffid,name,age,note\r\n1,"Ann, ""A""",31,"two\r\nlines"\r\n2,Bob,,\r\n3,too,many,fields,here\r\n007,Zero,1.50,x\r\n';
    await file.setInputFiles({ name: "visitors.csv", mimeType: "text/csv", buffer: Buffer.from(csv) });
    await page.getByText("line 5: 5 fields where the first line has 4").waitFor({ state: "attached" });
    await page.getByLabel("Key", { exact: false }).first().waitFor();
    await page.getByRole("button", { name: "Import 3 nodes" }).click();
    await page.getByText(/Imported 3 nodes/).waitFor();
    const rows = (await api.query("MATCH (v:Visitors) RETURN v._key, v.name, v.age, v.note ORDER BY v.name")).rows;
    equal(rows, [[1, 'Ann, "A"', 31, "two\r\nlines"], [2, "Bob", null, null], ["007", "Zero", 1.5, "x"]], "what was imported");
    await file.setInputFiles({ name: "met.jsonl", mimeType: "application/jsonl", buffer: Buffer.from('{"from": 1, "to": 2, "n": 9007199254740993}\n') });
    await tab("Relationships").click();
    await page.getByLabel("Type").fill("MET");
    await page.getByLabel("Label of the first").selectOption("Visitors");
    await page.getByLabel("Label of the second").selectOption("Visitors");
    await page.getByRole("button", { name: "Import 1 relationships" }).click();
    await page.getByText(/Imported 1 relationships/).waitFor();
    equal((await api.query("MATCH (:Visitors {_key: 1})-[m:MET]->(:Visitors {_key: 2}) RETURN toString(m.n)")).rows, [["9007199254740993"]], "the relationship");
    // A duplicate key: the server refuses the whole import and names the line.
    expectedStatuses = [400, 409];
    await file.setInputFiles({ name: "visitors.csv", mimeType: "text/csv", buffer: Buffer.from("id,name\n9,New\n1,Again\n") });
    await tab("Nodes").click();
    await page.getByRole("button", { name: "Import 2 nodes" }).click();
    await page.getByRole("alert").waitFor();
    equal((await api.query("MATCH (v:Visitors) RETURN count(v)")).rows, [[3]], "all or nothing");
    await file.setInputFiles({ name: "x.csv", mimeType: "text/csv", buffer: Buffer.from([0x61, 0xff, 0xfe]) });
    await page.getByText("is not UTF-8").waitFor();
    await api.query("MATCH (v:Visitors) DETACH DELETE v");
    expectedStatuses = [];
  },

  async "import: independent files, and columns of any name"() {
    await page.reload();
    await go("import");
    const give = (name, text) => page.getByLabel("File to import").setInputFiles({ name, mimeType: "text/csv", buffer: Buffer.from(text) });
    const label = page.getByLabel("Label", { exact: true });
    await give("gates.csv", "id,name\n1,North\n");
    equal(await label.inputValue(), "Gates", "the first file's label");
    await give("towers.csv", "id,constructor,__proto__,toString,zero\n1,a,b,c,-0\n");
    equal(await label.inputValue(), "Towers", "the second file's label");
    await page.getByRole("button", { name: "Import 1 nodes" }).click();
    await page.getByText(/Imported 1 nodes/).waitFor();
    equal((await api.query("MATCH (t:Towers) RETURN t.constructor, t.`__proto__`, t.toString, t.zero")).rows, [["a", "b", "c", "-0"]], "columns named like built-in properties");
    await page.getByLabel("File to import").setInputFiles({ name: "bad.csv", mimeType: "text/csv", buffer: Buffer.from([0x61, 0xff]) });
    await page.getByText("is not UTF-8").waitFor();
    equal(await page.getByRole("button", { name: /^Import \d/ }).count(), 0, "the file before the refused one");
    await give("empty.csv", "");
    await page.getByText("empty.csv has no rows").waitFor();
    await give("keyed.csv", "id,_key,name\n7,k7,Seven\n");
    equal(await page.getByRole("combobox", { name: /^Key/ }).inputValue(), "_key", "a column `_key` is preferred");
    await label.fill("Mine");
    await give("gates.csv", "id,name\n1,North\n");
    equal(await label.inputValue(), "Mine", "the typed label is kept");
    await page.getByRole("checkbox", { name: /^name/ }).uncheck();
    await page.getByRole("button", { name: "Import 1 nodes" }).click();
    await page.getByText(/Imported 1 nodes/).waitFor();
    equal((await api.query("MATCH (m:Mine) RETURN properties(m)")).rows, [[{ _key: 1 }]], "a column that was left out");
    await api.query("MATCH (n) WHERE n:Towers OR n:Mine DELETE n");
  },

  async "monitor: metrics, running queries and cancelling them, live changes"() {
    await go("monitor");
    expectedStatuses = [409];
    const running = api.query("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b WITH a, b WHERE a * b < 0 RETURN count(*)").then(() => "ended", (error) => String(error));
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    holds((await running).includes("Cancelled"), "the query was cancelled");
    await page.getByText("No query is running.").waitFor();
    await api.query("CREATE (:Noted {text: 'seen in the feed'})");
    await page.locator(".event").filter({ hasText: "Noted" }).waitFor();
    await api.query("MATCH (n:Noted) DELETE n");
    await page.getByRole("img", { name: /Requests: all [\d.]+/ }).waitFor();
  },

  async "monitor: a commit with several events, and the next one"() {
    await go("query");
    await Promise.all([page.waitForResponse(/\/changes$/), go("monitor")]);
    const events = page.locator(".event");
    // Enough for some of them to arrive within one millisecond.
    await api.query("UNWIND range(1, 20000) AS n CREATE (:Big {n: n})");
    await page.waitForFunction(() => document.querySelectorAll(".event").length >= 20).catch((error) => problems.push(`the list stops: ${error.message}`));
    await quiet("a large commit");
    const versions = await events.locator(".badge").allInnerTexts();
    await api.query("CREATE (:Noted {text: 'seen after the large one'})");
    await events.filter({ hasText: "seen after the large one" }).waitFor();
    equal(await events.filter({ hasText: "Big" }).count(), 20, "the large one is still there");
    await quiet("what comes after it");
    equal([versions.length, new Set(versions).size], [20, 1], `versions of one commit: ${versions}`);
    await go("query");
    await api.query("MATCH (n) WHERE n:Big OR n:Noted DELETE n");
  },

  async "access: a database that cannot be opened is shown and reopened"() {
    const broken = async (route) => {
      const answer = await route.fetch();
      const me = await answer.json();
      const one = me.databases.find((one) => one.database === "people");
      Object.assign(one, { open: false, error: "Corrupt: <b>the log</b> is damaged" });
      await route.fulfill({ response: answer, json: me });
    };
    await page.route("**/v1/me", broken);
    await page.reload();
    await go("access");
    await page.getByText("Corrupt: <b>the log</b> is damaged").waitFor();
    await page.getByRole("option", { name: "people (cannot be opened)" }).waitFor({ state: "attached" });
    await page.unroute("**/v1/me", broken);
    await page.getByRole("button", { name: "Reopen" }).click();
    await page.getByText("people is open").waitFor();
    equal(await page.getByText("cannot be opened").count(), 0, "it is open");
  },

  async "access: users, tokens, and the limited view of a reader"() {
    await go("access");
    await page.getByRole("button", { name: "User", exact: true }).click();
    await page.getByLabel("Name", { exact: true }).fill("rita");
    await page.getByLabel("Password", { exact: false }).fill(PASSWORD);
    await page.getByLabel("Database", { exact: true }).last().selectOption("people");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("cell", { name: "rita", exact: true }).waitFor();
    await page.getByRole("button", { name: "Token", exact: true }).click();
    await page.getByLabel("Name", { exact: true }).fill("report");
    await page.getByLabel("Limit the rights of the token").check();
    await page.getByRole("button", { name: "Save" }).click();
    const token = await page.getByLabel("Token", { exact: true }).inputValue();
    equal((await client(server.url, token).query("RETURN 1 AS n")).rows, [[1]], "the token works");
    await page.getByRole("button", { name: "I have saved it" }).click();
    holds(!(await page.content()).includes(token), "the token is shown once");
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No tokens.").waitFor();
    equal(await client(server.url, token).query("RETURN 1").catch((error) => /401/.test(error.message)), true, "revoked at once");

    const other = await browser.newContext();
    const reader = await other.newPage();
    reader.setDefaultTimeout(10_000);
    await reader.goto(server.url);
    await reader.getByLabel("Name").fill("rita");
    await reader.getByLabel("Password").fill("wrong password");
    await reader.keyboard.press("Enter");
    await reader.getByText("the name or the password is wrong").waitFor();
    await reader.getByLabel("Password").fill(PASSWORD);
    await reader.keyboard.press("Enter");
    await reader.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
    await reader.evaluate(() => (location.hash = "#/browse/label/Person"));
    await reader.getByRole("button", { name: "p1", exact: true }).click();
    equal(await reader.getByRole("button", { name: /^(?:New|Change|Delete)$/ }).count(), 0, "buttons that change");
    await reader.evaluate(() => (location.hash = "#/access"));
    await reader.getByText("No tokens.").waitFor();
    equal(await reader.getByRole("heading", { name: "Users" }).count(), 0, "the list of users");
    await other.close();
    await page.getByRole("button", { name: "Remove rita" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByRole("cell", { name: "rita", exact: true }).waitFor({ state: "detached" });
  },

  async "access: every role is given by the form, and a replica sees what it may do"() {
    await api.call("POST", "/v1/users", { user: "till", password: PASSWORD, roles: { people: "reader" } });
    const roles = async () => (await api.call("GET", "/v1/users/till")).roles;
    const row = page.getByRole("row", { name: /^till/ });
    await go("query");
    await page.reload();
    await go("access");
    for (const role of ["editor", "schema", "admin", "replica"]) {
      await row.getByRole("button", { name: "Roles" }).click();
      await page.getByRole("dialog").getByLabel("Role", { exact: true }).selectOption(role);
      await page.getByRole("button", { name: "Save" }).click();
      await row.getByText(`people: ${role}`).waitFor();
      equal(await roles(), { people: role }, "what is stored");
    }
    // Saving without a change keeps it; a second one is added and removed.
    await row.getByRole("button", { name: "Roles" }).click();
    equal(await page.getByRole("dialog").getByLabel("Role", { exact: true }).inputValue(), "replica", "what the form shows");
    await page.getByRole("button", { name: "Role", exact: true }).click();
    await page.getByRole("button", { name: "Save" }).click();
    await row.getByText("all databases: reader").waitFor();
    equal(await roles(), { "*": "reader", people: "replica" }, "two roles");
    await row.getByRole("button", { name: "Roles" }).click();
    const everywhere = Object.keys(await roles()).indexOf("*");
    await page.getByRole("button", { name: "Remove this role" }).nth(everywhere).click();
    await page.getByRole("button", { name: "Save" }).click();
    await row.getByText("all databases: reader").waitFor({ state: "detached" });
    equal(await roles(), { people: "replica" }, "one of them");

    const till = await another("till", PASSWORD);
    await till.go("browse/label/Film");
    await till.page.getByRole("button", { name: "New", exact: true }).click();
    await till.page.getByLabel("Properties, as JSON").fill('{"_key": "f98", "title": "Made by a replica"}');
    await till.page.getByRole("button", { name: "Save" }).click();
    await till.page.getByRole("button", { name: "f98" }).waitFor();
    await till.go("schema");
    for (const name of ["Index", "Constraint"]) await till.page.getByRole("button", { name, exact: true }).waitFor();
    await till.go("import");
    await till.page.getByLabel("File to import").waitFor({ state: "attached" });
    await till.go("access");
    await till.page.getByRole("cell", { name: "replica", exact: true }).waitFor();
    equal(await till.page.getByRole("button", { name: /^(?:Back up|User|Database|Drop .*)$/ }).count(), 0, "actions of administrators");
    await till.go("monitor");
    await till.page.getByRole("heading", { name: "Live changes" }).waitFor();
    equal(await till.page.getByRole("heading", { name: "Running queries" }).count(), 0, "the list of queries");
    await till.close();
    await api.query("MATCH (f:Film {_key: 'f98'}) DELETE f");
    await api.call("DELETE", "/v1/users/till");
  },

  async "access: users change their own password, administrators others"() {
    const [given, own] = ["given by an administrator", "chosen by herself"];
    const logIn = (password) => client(server.url).call("POST", "/v1/login", { user: "wera", password }).then(() => true, (error) => /: 401 /.test(error.message) ? false : String(error));
    await api.call("POST", "/v1/users", { user: "wera", password: PASSWORD, roles: { people: "reader" } });
    await go("query");
    await page.reload();
    await go("access");
    await page.getByRole("row", { name: /^wera/ }).getByRole("button", { name: "Password" }).click();
    expectedStatuses = [400];
    await page.getByRole("textbox", { name: /^New password/ }).fill("short");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    expectedStatuses = [];
    await page.getByRole("textbox", { name: /^New password/ }).fill(given);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Password changed").waitFor();
    equal([await logIn(PASSWORD), await logIn(given)], [false, true], "the old one and the new one");

    const wera = await another("wera", given);
    await wera.go("access");
    await wera.page.getByRole("button", { name: "Change your password" }).click();
    await wera.page.getByLabel("Current password").fill(PASSWORD);
    await wera.page.getByRole("textbox", { name: /^New password/ }).fill(own);
    await wera.page.getByRole("button", { name: "Save" }).click();
    await wera.page.getByRole("dialog").getByRole("alert").waitFor();
    await wera.page.getByLabel("Current password").fill(given);
    await wera.page.getByRole("button", { name: "Save" }).click();
    await wera.page.getByRole("button", { name: "Log in" }).waitFor();
    equal([await logIn(given), await logIn(own)], [false, true], "the given and the chosen one");
    await wera.enter(own);
    await wera.page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
    await wera.close();
    await api.call("DELETE", "/v1/users/wera");
  },

  async "access: a database is created, backed up and dropped"() {
    const names = async () => (await api.call("GET", "/v1/databases")).databases.map((one) => one.database);
    await go("access");
    await page.getByRole("button", { name: "Database", exact: true }).click();
    expectedStatuses = [400];
    await page.getByLabel("Name", { exact: true }).fill("../shop");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    expectedStatuses = [];
    await page.getByLabel("Name", { exact: true }).fill("shop");
    await page.getByRole("button", { name: "Save" }).click();
    const row = page.getByRole("row", { name: /^shop/ });
    await row.waitFor();
    await page.getByRole("option", { name: "shop" }).first().waitFor({ state: "attached" });
    equal((await names()).includes("shop"), true, "the server's databases");
    await row.getByRole("button", { name: "Back up" }).click();
    await page.getByLabel(/^Name/).fill("monday");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Backup written").waitFor();
    holds(existsSync(`${server.folder}/backups`) && readdirSync(`${server.folder}/backups`, { recursive: true }).some((name) => name.includes("monday")), "there is no backup");
    await row.getByRole("button", { name: "Drop shop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    equal((await names()).includes("shop"), true, "after Cancel");
    await row.getByRole("button", { name: "Drop shop" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Drop it" }).click();
    await row.waitFor({ state: "detached" });
    equal((await names()).includes("shop"), false, "the server's databases after the drop");
  },

  async "the description of the interface lists every route"() {
    const docs = await context.newPage();
    watch(docs);
    await docs.goto(`${server.url}/v1/docs`);
    const routes = docs.locator("#routes summary");
    await routes.first().waitFor();
    const { paths } = await client(server.url).call("GET", "/v1/openapi.json");
    const known = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    const shown = await routes.evaluateAll((all) => all.filter((one) => one.checkVisibility()).map((one) => `${one.children[0].textContent} ${one.children[1].textContent}`));
    holds(known.length > 50, `${known.length} routes`);
    equal(shown.sort(), known.sort(), "routes");
    console.log(`${shown.length} routes are displayed`);
    await docs.getByLabel("Search").fill("get metrics");
    const found = await docs.locator("#routes details:not([hidden])").evaluateAll((all) => all.filter((one) => one.checkVisibility()).length);
    holds(found > 0 && found < 10, `${found} routes found`);
    await docs.locator("#routes summary:visible").first().click();
    await docs.locator("#routes details[open] p").first().waitFor();
    equal(await docs.evaluate(() => window.__violations), [], "the policy");
    await docs.close();
  },

  async "dialogs focus their first field, and Enter confirms them"() {
    await go("access");
    await page.getByRole("button", { name: "User", exact: true }).click();
    await page.keyboard.type("nora");
    await page.keyboard.press("Tab");
    await page.keyboard.type(PASSWORD);
    await page.keyboard.press("Enter");
    await page.getByRole("cell", { name: "nora", exact: true }).waitFor();
    await page.getByRole("button", { name: "Token", exact: true }).click();
    await page.keyboard.type("by keyboard");
    await page.keyboard.press("Enter");
    const token = page.getByLabel("Token", { exact: true });
    await token.waitFor();
    // It is shown only once: another Enter must not close the dialog.
    await page.keyboard.press("Enter");
    await page.waitForTimeout(100);
    equal(await token.evaluate((one) => [document.activeElement === one, one.selectionEnd - one.selectionStart === one.value.length]), [true, true], "the token is selected for copying");
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("button", { name: "Revoke" }).click();
    equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Cancel", "the destructive button has no focus");
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("No tokens.").waitFor();
    await page.getByRole("button", { name: "Remove nora" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByRole("cell", { name: "nora", exact: true }).waitFor({ state: "detached" });
  },

  async "a page requests what it shows, and then sends nothing more"() {
    let asked = 0;
    const counted = () => asked++;
    page.on("request", counted);
    for (const name of [...PAGES, "browse/label/Post", "browse/files/%2F"]) {
      await go(name === "query" ? "access" : "query");
      await page.waitForTimeout(300);
      asked = 0;
      await go(name);
      await page.waitForTimeout(2000);
      // The catalog, the page's data, and two samples a second of the monitor.
      holds(asked <= 40, `${name}: ${asked} requests in two seconds`);
    }
    page.off("request", counted);
  },

  async "stored script in names, values, keys and errors never runs"() {
    const name = (text) => "`" + text.replaceAll("`", "``") + "`";
    for (const [at, text] of HOSTILE.entries()) {
      await api.query(`CREATE (a:${name(text)} {_key: $key, ${name(text)}: $text, nested: $nested})-[:${name(text)} {text: $text}]->(b:Hostile {_key: $key})`, { key: text, text, nested: { [text]: [text] } });
      await api.call("PUT", `/v1/databases/people/buckets/hostile/keys/${encodeURIComponent(text)}`, JSON.stringify(text));
      if (at < 3) await api.call("PUT", `/v1/databases/people/buckets/${encodeURIComponent(text)}/keys/k`, JSON.stringify(text)).catch(() => {});
    }
    await api.query(`CREATE INDEX ${name(HOSTILE[1])} FOR (h:${name(HOSTILE[1])}) ON (h.${name(HOSTILE[1])})`);
    await go("query");
    await page.reload();
    await editor.waitFor();
    await ask("MATCH p = (a)-[r]->(b:Hostile) RETURN p, a, r, properties(a) AS m, b._key AS k");
    for (const view of ["Graph", "Table", "JSON"]) {
      await tab(view).click();
      await page.waitForTimeout(150);
      await quiet(view);
    }
    await tab("Table").click();
    holds((await page.getByRole("region", { name: "Rows", exact: true }).innerText()).includes("<img src=x"), "shown as text");
    expectedStatuses = [400, 404, 422];
    for (const text of HOSTILE) await ask(`RETURN ${text}`);
    expectedStatuses = [];
    for (const text of HOSTILE) {
      for (const kind of ["label", "type"]) {
        await go(`browse/${kind}/${encodeURIComponent(text)}`);
        await page.locator("tbody tr").first().waitFor();
      }
      await page.locator("tbody button").first().click();
    }
    await go("browse/bucket/hostile");
    await page.locator("tbody button").first().click();
    for (const one of PAGES) {
      await go(one);
      await page.waitForTimeout(200);
      await quiet(one);
    }
    await page.getByRole("link", { name: "Import" }).click();
    const csv = HOSTILE.map((text) => `"${text.replaceAll('"', '""')}"`).join(",");
    await page.getByLabel("File to import").setInputFiles({ name: HOSTILE[1].replaceAll("/", "") + ".csv", mimeType: "text/csv", buffer: Buffer.from(`${csv}\n${csv}\n`) });
    await page.getByRole("region", { name: "Preview" }).waitFor();
    await api.query(`DROP INDEX ${name(HOSTILE[1])}`);
    await api.query("MATCH (a)-->(b:Hostile) DETACH DELETE a, b");
    await api.call("DELETE", "/v1/databases/people/buckets/hostile");
    for (const text of HOSTILE.slice(0, 3)) await api.call("DELETE", `/v1/databases/people/buckets/${encodeURIComponent(text)}`).catch(() => {});
    await page.reload();
  },

  async "everything is reachable by keyboard with a visible focus"() {
    await go("query");
    await editor.waitFor();
    for (const [at, name] of PAGES.entries()) {
      await page.keyboard.press(`Alt+${at + 1}`);
      await page.waitForFunction((name) => location.hash === "#/" + name, name);
      await page.waitForTimeout(120);
      const seen = new Set();
      await page.evaluate(() => document.activeElement?.blur());
      for (let step = 0; step < 60; step++) {
        await page.keyboard.press("Tab");
        const focused = await page.evaluate(() => {
          let one = document.activeElement;
          while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
          if (!one || one === document.body) return null;
          const style = getComputedStyle(one);
          const box = one.getBoundingClientRect();
          const name = (one.getAttribute("aria-label") || one.textContent || one.getAttribute("title") || one.getAttribute("placeholder") || one.labels?.[0]?.textContent || "").trim();
          one.dataset.walked ??= String(Math.random());
          const marked = style.outlineStyle !== "none" || one.closest(".cm-editor") || one.type === "file" || one.matches("select, input");
          return { id: one.dataset.walked, name: name.slice(0, 40), marked: !!marked, shown: box.width > 0 && box.height > 0, tag: one.tagName };
        });
        if (!focused) break;
        holds(focused.name !== "" && focused.shown && focused.marked, `${name}: ${JSON.stringify(focused)}`);
        if (seen.has(focused.id)) break;
        seen.add(focused.id);
      }
      holds(seen.size >= 8, `${name}: only ${seen.size} places`);
    }
    // A dialog takes the focus, traps it, and returns it.
    await go("schema");
    await page.getByRole("button", { name: "Index", exact: true }).focus();
    await page.keyboard.press("Enter");
    equal(await page.evaluate(() => document.activeElement.closest("dialog") !== null), true, "focus in the dialog");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Index", "focus is back");
  },

  async "every page is accessible, light and dark"() {
    await ask("MATCH (p:Person) RETURN p._key AS key, p.name AS name, p LIMIT 20");
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      for (const name of [...PAGES, "browse/label/Post", "browse/files/%2F"]) {
        await go(name);
        if (name === "query") {
          await ask("MATCH (p:Person) RETURN p._key AS key, p.name AS name LIMIT 20");
        } else if (name.startsWith("browse/label")) {
          await page.getByRole("button", { name: "post-2", exact: true }).click();
          await page.getByText("Convergent fields").waitFor();
        } else await page.waitForTimeout(300);
        await quiet(`${name}, ${scheme}`);
        await page.evaluate(axe);
        const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], resultTypes: ["violations"] }));
        const violations = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).slice(0, 4).join(" | ")}`);
        // Policy violations of the checker itself are not the page's.
        await page.evaluate(() => window.__violations.splice(0));
        problems.splice(0);
        equal(violations, [], `${name}, ${scheme}`);
      }
    }
    await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
    const colours = async () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await colours();
    await page.getByRole("button", { name: /^Colours/ }).click();
    await page.getByRole("button", { name: /^Colours: light/ }).click();
    await page.getByRole("button", { name: /^Colours: dark/ }).waitFor();
    holds((await colours()) !== light, "the switch changes the colours");
    await page.reload();
    await page.getByRole("button", { name: /^Colours: dark/ }).waitFor();
    await page.getByRole("button", { name: /^Colours: dark/ }).click();
  },

  async "no page scrolls sideways"() {
    const places = [...PAGES, "browse/label/Post", "browse/label/Person", "browse/type/KNOWS", "browse/bucket/settings", "browse/files/%2F"];
    // Elements that extend beyond the window, except within scrolling containers.
    const cutOff = () => page.evaluate(() => [...document.querySelectorAll("main *")].filter((one) => {
      if (one.getBoundingClientRect().right <= innerWidth + 1 || one.closest(".cm-editor, .sr, canvas, svg")) return false;
      for (let at = one; at.tagName !== "MAIN"; at = at.parentElement) if (at !== one && /auto|scroll/.test(getComputedStyle(at).overflowX)) return false;
      return true;
    }).slice(0, 3).map((one) => `${one.tagName}.${one.className}: ${one.textContent.trim().slice(0, 40)}`));
    const tooWide = () => page.evaluate(() => [document.scrollingElement, document.querySelector("main"), ...document.querySelectorAll('[aria-label="Records"], [aria-label="Record"]')]
      .filter((one) => one && one.scrollWidth > one.clientWidth)
      .map((one) => `${one.getAttribute("aria-label") ?? one.tagName}: ${one.scrollWidth} in ${one.clientWidth}`));
    const fits = async (where) => equal([...(await tooWide()), ...(await cutOff())], [], where);
    await api.query(`CREATE (:${LONG} {${LONG}: 1, _key: 'long'})-[:${LONG}]->(:${LONG})`);
    for (const width of [1280, 900, 800, 390]) {
      await page.setViewportSize({ width, height: 800 });
      for (const place of places) {
        await go(place);
        await page.waitForTimeout(60);
        await fits(`${place} at ${width}`);
      }
      await go("browse/label/Post");
      await page.getByRole("button", { name: "post-5", exact: true }).click();
      await page.getByText("Convergent fields").waitFor();
      await fits(`a record at ${width}`);
      await page.getByRole("button", { name: "Close", exact: true }).click();
      await ask("MATCH p = (n)-->() RETURN p LIMIT 60");
      for (const view of ["Graph", "Table", "JSON"]) {
        await tab(view).click();
        await page.waitForTimeout(60);
        await fits(`${view} at ${width}`);
      }
      await showPlan("Profile");
      await page.getByRole("region", { name: "Plan" }).waitFor();
      await fits(`a plan at ${width}`);
      // The controls next to the statement are fully visible at any width.
      const panel = page.getByLabel("Catalog, history and favourites");
      await panel.getByRole("tab", { name: "History" }).click();
      await panel.getByRole("button", { name: /^MATCH p =/ }).first().waitFor();
      await panel.getByRole("button", { name: /^MATCH p =/ }).first().click();
      holds((await editor.boundingBox()).y >= 0, `at ${width} the statement from the panel is outside of the visible part`);
      await panel.getByRole("tab", { name: "Catalog" }).click();
      await panel.getByRole("button", { name: LONG }).first().waitFor();
      equal(await panel.evaluate((one) => [...one.querySelectorAll("*")].filter((inner) => inner.getBoundingClientRect().right > one.getBoundingClientRect().right + 1 && !inner.closest("span")).length), 0, `the panel at ${width}`);
    }
    await api.query(`MATCH (n:${LONG}) DETACH DELETE n`);
    await page.setViewportSize({ width: 1280, height: 800 });
  },

  async "an expired login shows the login page, and logging out ends it"() {
    const cookies = await context.cookies();
    const kept = () => page.evaluate(() => Object.keys(localStorage).filter((name) => /history|draft/.test(name)));
    await go("query");
    await ask("RETURN 'a private text' AS mine");
    holds((await kept()).every((name) => name.endsWith(".admin")), `stored only for this user: ${await kept()}`);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("button", { name: "Log in" }).waitFor();
    const old = await fetch(`${server.url}/v1/me`, { headers: { Cookie: `${cookies[0].name}=${cookies[0].value}` } });
    equal(old.status, 401, "the old cookie");
    equal(await context.cookies(), [], "cookies");
    equal(await kept(), [], "the history is deleted at the logout");
    await page.getByLabel("Name").fill("admin");
    await page.getByLabel("Password").fill(PASSWORD);
    await page.keyboard.press("Enter");
    await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
    const tokens = (await api.call("GET", "/v1/tokens")).tokens.filter((token) => token.login);
    const newest = tokens.sort((one, two) => two.created_ms - one.created_ms)[0];
    await api.call("DELETE", `/v1/tokens/${newest.id}`);
    expectedStatuses = [401];
    await go("schema");
    await page.getByRole("button", { name: "Log in" }).waitFor();
    await page.waitForTimeout(200);
  },
};

let passed = 0;
let prepared = false;
const failed = [];
const began = Date.now();
for (const [name, test] of Object.entries(tests)) {
  // The first makes the administrator and the data for all others.
  const isFirst = !prepared;
  const isChosen = name.includes(choice.only) && !(choice.skip && name.includes(choice.skip));
  if (!isFirst && !isChosen) continue;
  prepared = true;
  const started = Date.now();
  expectedStatuses = [];
  try {
    await test();
    await quiet(name);
    if (!isChosen) continue;
    passed++;
    console.log(`test ${name} ... ok`);
  } catch (error) {
    failed.push(name);
    console.log(`${error.stack ?? error}`);
    await page.screenshot({ path: `${process.env.TMPDIR ?? "/tmp"}/isomer-console-failed-${failed.length}.png` }).catch(() => {});
    console.log(`test ${name} ... FAILED`);
    problems.length = 0;
    await page.evaluate(() => document.querySelector("dialog[open]")?.close()).catch(() => {});
    if (isFirst) break;
  }
  console.error(`${name}: ${Date.now() - started} ms`);
}
await browser.close();
await server.stop();
console.log(`${((Date.now() - began) / 1000).toFixed(1)} s`);
console.log(`test result: ${failed.length ? "FAILED" : "ok"}. ${passed} passed; ${failed.length} failed; 0 ignored`);
process.exit(failed.length ? 1 : 0);
