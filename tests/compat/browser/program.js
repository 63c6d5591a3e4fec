// neo4j-driver's browser build in Chromium, over WebSocket: the page runs the tests and posts their results.

const { spawn } = require("node:child_process");
const { mkdtempSync, readFileSync, rmSync } = require("node:fs");
const { createServer } = require("node:http");
const { tmpdir } = require("node:os");
const { join } = require("node:path");

const { BOLT, USER, PASSWORD, library, run } = require("../harness/harness.js");

const driver = readFileSync(join(library.resolve("neo4j-driver"), "../browser/neo4j-web.min.js"));
const page = readFileSync(join(__dirname, "page.js"));
const settings = JSON.stringify({ bolt: BOLT, user: USER, password: PASSWORD });
const html = `<!doctype html><script src="driver.js"></script><script>const settings = ${settings};</script><script src="page.js"></script>`;
const LIMIT_MS = 90_000;

/** Serves the page and opens it; resolves with what it posts: a map of tests to errors, which are null on success. */
async function outcomes() {
  const profile = mkdtempSync(join(tmpdir(), "compat-browser-"));
  let posted;
  const result = new Promise((resolve) => (posted = resolve));
  const server = createServer((request, response) => {
    const files = { "/": ["text/html", html], "/driver.js": ["text/javascript", driver], "/page.js": ["text/javascript", page] };
    if (request.method === "POST") {
      const parts = [];
      request.on("data", (part) => parts.push(part));
      request.on("end", () => posted(JSON.parse(Buffer.concat(parts).toString())));
      response.end();
      return;
    }
    const [type, body] = files[request.url] ?? ["text/plain", ""];
    response.writeHead(body ? 200 : 404, { "Content-Type": type }).end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${server.address().port}/`;
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", `--user-data-dir=${profile}`];
  const browser = spawn("chromium", [...flags, address], { stdio: "ignore", detached: true });
  const late = new Promise((resolve) => setTimeout(resolve, LIMIT_MS, { page: "it posted nothing" }));
  try {
    return await Promise.race([result, late]);
  } finally {
    try {
      process.kill(-browser.pid);
    } catch {
      // It has ended.
    }
    server.closeAllConnections();
    server.close();
    await new Promise((resolve) => (browser.exitCode === null ? browser.once("exit", resolve) : resolve()));
    rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }
}

(async () => {
  const tests = Object.entries(await outcomes()).map(([name, error]) => {
    const test = () => {
      if (error !== null) throw new Error(error);
    };
    Object.defineProperty(test, "name", { value: name });
    return test;
  });
  await run("browser", tests);
})();
