// Screenshots for the documentation: node test/screenshots.mjs BINARY FOLDER. Run by `cargo xtask console --screenshots`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { client, startBrowser, startServer } from "./browser.mjs";
import { fill } from "./data.mjs";

const PASSWORD = "correct horse battery";
const [binary, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const server = await startServer(binary);
const browser = await startBrowser();
try {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const take = async (name) => {
    await page.waitForTimeout(400);
    await page.screenshot({ path: join(folder, `console-${name}.png`) });
  };
  const go = async (name) => {
    await page.evaluate((name) => (location.hash = "#/" + name), name);
    await page.waitForTimeout(500);
  };
  const ask = async (text, button = "Run") => {
    await go("query");
    await page.getByRole("textbox", { name: "Query" }).focus();
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText(text);
    await page.getByRole("button", { name: button, exact: true }).click();
    await page.getByRole("button", { name: "Run", exact: true }).waitFor();
    await page.waitForTimeout(300);
  };

  await page.goto(server.link);
  await page.getByLabel("Name").fill("admin");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByLabel("Repeat the password").fill(PASSWORD);
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Query" }).waitFor();
  const login = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await login.goto(server.url);
  await login.getByRole("button", { name: "Log in" }).waitFor();
  await login.waitForTimeout(300);
  await login.screenshot({ path: join(folder, "console-login.png") });
  await login.close();
  const token = (await client(server.url).call("POST", "/v1/login", { user: "admin", password: PASSWORD })).token;
  const api = client(server.url, token);
  await fill(api);
  await api.call("POST", "/v1/users", { user: "rita", password: PASSWORD, roles: { people: "reader" } });
  await api.call("POST", "/v1/users", { user: "milo", password: PASSWORD, roles: { people: "editor" } });
  await api.call("POST", "/v1/tokens", { name: "nightly report", scope: { people: "reader" }, expires_in_ms: 30 * 86_400_000 });
  await api.call("POST", "/v1/databases", { database: "shop" });
  await page.reload();

  const graph = "MATCH (a:Person)-[r:KNOWS|WORKS_AT|LIVES_IN]->(b)\nWHERE a.born >= 1984\nRETURN a, r, b LIMIT 90";
  await ask(graph);
  await page.getByRole("img", { name: /^A graph of/ }).waitFor();
  await page.waitForTimeout(800);
  await take("graph");
  await page.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await page.reload();
  await ask(graph);
  await page.getByRole("img", { name: /^A graph of/ }).waitFor();
  await page.waitForTimeout(800);
  await take("graph-dark");
  await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
  await page.reload();
  await ask("MATCH (p:Person)-[:LIKES]->(f:Film)\nWITH f, count(*) AS fans, collect(p.name)[..4] AS some\nRETURN f.title AS film, f.year AS year, fans, some ORDER BY fans DESC");
  await page.getByRole("tab", { name: "Table" }).click();
  await take("table");
  await ask("MATCH (p:Person {_key: 'p7'})-[:KNOWS]-(f)-[:LIKES]->(film)\nWHERE NOT (p)-[:LIKES]->(film)\nRETURN film.title, count(*) AS fans ORDER BY fans DESC LIMIT 5", "Profile");
  await take("plan");
  await go("browse/label/Post");
  await page.getByRole("button", { name: "post-5", exact: true }).click();
  await page.getByText("Convergent fields").waitFor();
  await take("data");
  const letter = "Dear Charles,\n\nthe engine weaves algebraic patterns just as the loom weaves flowers and leaves.\nI send you note G with this.\n\nAda\n";
  const files = { "/letters/1843/to-babbage.txt": letter, "/letters/1843/answer.txt": letter.slice(0, 60), "/letters/1842/first.txt": letter.slice(0, 30), "/letters/list.csv": "year,from,to\n1843,Ada,Charles\n", "/letters/seal.png": "x".repeat(48_211) };
  for (const [path, body] of Object.entries(files)) await fetch(`${server.url}/v1/databases/people/file?folders=true&path=${encodeURIComponent(path)}`, { method: "PUT", headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/octet-stream" }, body });
  await go("browse/files/%2Fletters%2F1843");
  await page.getByRole("button", { name: "to-babbage.txt" }).or(page.getByRole("link", { name: "to-babbage.txt" })).first().click();
  await page.getByText("algebraic patterns").waitFor();
  await take("files");
  await go("schema");
  await take("schema");
  await go("import");
  const rows = ["id,name,born,city", "v1,Ann Marlow,1981,Pisa", "v2,Ben Okafor,1975,Lyon", 'v3,"Cho, Mina",1990,Graz', "v4,Dag Berg,1968,Bergen", "v5,Eva Brandt,1999,Delft"];
  await page.getByLabel("File to import").setInputFiles({ name: "visitors.csv", mimeType: "text/csv", buffer: Buffer.from(rows.join("\n")) });
  await page.getByRole("region", { name: "Preview" }).waitFor();
  await take("import");
  await go("monitor");
  const long = api.query("UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b WITH a, b WHERE a * b < 0 RETURN count(*)").catch(() => {});
  for (let second = 0; second < 14; second++) {
    const some = 10 + ((second * 37) % 50);
    for (let at = 0; at < some; at++) await api.query("MATCH (p:Person {_key: $key}) RETURN p.name", { key: `p${at}` });
    if (second > 11) await api.query("MATCH (p:Person {_key: $key}) SET p.seen = $at", { key: `p${second}`, at: second });
    for (let at = 0; at < some / 8; at++) await api.query("MATCH (p:Post {_key: $key}) SET p.votes = counter.add(p.votes, 1)", { key: `post-${1 + (at % 6)}` });
    await page.waitForTimeout(600);
  }
  await take("monitor");
  const running = (await api.call("GET", "/v1/databases/people/queries")).queries.find((one) => one.text.startsWith("UNWIND range(1, 1000000)"));
  if (running) await api.call("DELETE", `/v1/databases/people/queries/${running.id}`);
  await long;
  await go("access");
  await take("access");
} finally {
  await browser.close();
  await server.stop();
}
