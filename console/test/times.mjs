// How long the console takes to load: node test/times.mjs BINARY. Prints medians of loads with empty caches.

import { client, startBrowser, startServer } from "./browser.mjs";

const ROUNDS = 11;
const PASSWORD = "correct horse battery";

const server = await startServer(process.argv[2]);
const browser = await startBrowser();
try {
  await client(server.url).call("POST", "/v1/setup", { token: server.token, user: "admin", password: PASSWORD });
  const login = (page) => page.getByRole("button", { name: "Log in" });
  const editor = (page) => page.getByRole("textbox", { name: "Query" });
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(server.url);
  await page.getByLabel("Name").fill("admin");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.keyboard.press("Enter");
  await editor(page).waitFor();
  await report("login", {}, login);
  await report("editor", { storageState: await context.storageState() }, editor);
} finally {
  await browser.close();
  await server.stop();
}

/** Loads the page in new contexts, each until `there` is visible. */
async function report(what, options, there) {
  const times = [];
  for (let round = 0; round < ROUNDS; round++) {
    const fresh = await browser.newContext(options);
    const page = await fresh.newPage();
    const began = performance.now();
    await page.goto(server.url);
    await there(page).waitFor();
    times.push(performance.now() - began);
    await fresh.close();
  }
  times.sort((one, two) => one - two);
  const [least, median, most] = [times[0], times[(ROUNDS - 1) / 2], times[ROUNDS - 1]].map(Math.round);
  console.log(`${what.padEnd(8)} median ${median} ms, ${least} to ${most} ms, ${ROUNDS} loads`);
}
