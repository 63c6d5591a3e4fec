// Two browsers talk to each other, live: node two.mjs URL NAME [FOLDER]. Uses the browser tools of the console's tests; a picture
// of the page goes into the folder.

import { join } from "node:path";

import { startBrowser } from "../../../console/test/browser.mjs";

const [url, system, pictures] = process.argv.slice(2);
const browser = await startBrowser();
const problems = [];
let failed = false;

async function someone(name) {
  const context = await browser.newContext({ viewport: { width: 980, height: 620 }, deviceScaleFactor: pictures ? 2 : 1 });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("dialog", (dialog) => problems.push(dialog.message()));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  await page.goto(url);
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill("correct horse");
  await page.getByRole("button", { name: "Sign up" }).click();
  await page.getByLabel("Members").waitFor();
  return page;
}

async function begin(page, others) {
  await page.getByLabel("Members").fill(others);
  await page.getByRole("button", { name: "Begin" }).click();
  await page.locator("#chats [aria-current]").waitFor();
}

async function say(from, listeners, text) {
  await from.getByLabel("Message", { exact: true }).fill(text);
  await from.getByRole("button", { name: "Send" }).click();
  for (const page of [from, ...listeners]) await page.locator("#messages li").filter({ hasText: text }).waitFor();
}

try {
  const [ann, ben] = [await someone("ann"), await someone("ben")];
  await begin(ann, "ben");
  // The new chat appears without any action.
  await ben.locator("#chats button").first().click({ timeout: 12_000 });
  await ben.locator("#chats [aria-current]").waitFor();
  await say(ann, [ben], "Hello Ben");
  await say(ben, [ann], "Hello Ann");
  // User input is shown as text.
  await say(ann, [ben], "<img src=x onerror=document.title='owned'>");
  for (let at = 0; at < 5; at++) await say(at % 2 ? ann : ben, [at % 2 ? ben : ann], `number ${at}`);
  for (const page of [ann, ben]) {
    const said = await page.locator("#messages li p").allInnerTexts();
    if (said.length !== 8 || said[0] !== "Hello Ben" || said[7] !== "number 4") throw new Error(`what was said: ${said}`);
    if ((await page.title()) !== "Chat on IsomerDB") throw new Error("a script ran");
  }
  // The session survives a reload, and each message is shown once.
  await ben.reload();
  await ben.locator("#chats button").first().click();
  await ben.locator("#messages li").nth(7).waitFor();
  await say(ann, [ben], "still there?");
  if ((await ben.locator("#messages li").count()) !== 9) throw new Error("a message is there twice");

  // A group: every message shows its sender.
  const cleo = await someone("cleo");
  await begin(cleo, "ann, ben");
  for (const page of [ann, ben]) await page.locator("#chats button").filter({ hasText: "cleo" }).click({ timeout: 12_000 });
  await say(cleo, [ann, ben], "Are we all here?");
  await say(ben, [ann, cleo], "I am, and so is Ann.");
  const names = await ann.locator("#messages li b").allInnerTexts();
  if (names.join() !== "cleo,ben") throw new Error(`who said it: ${names}`);
  if (pictures) {
    await say(ann, [ben, cleo], "Hello, both of you! Shall we meet at the fountain, as we did last week?");
    await say(cleo, [ann], "Gladly. I bring the sandwiches.");
    await ann.screenshot({ path: join(pictures, "chat.png") });
  }

  // A second chat with the same user opens the first; one with oneself is refused, and repeated names count once.
  await begin(ann, "ben");
  await ann.locator("#messages li").filter({ hasText: "Hello Ben" }).waitFor();
  await ann.getByLabel("Members").fill("ann");
  await ann.getByRole("button", { name: "Begin" }).click();
  await ann.locator("#trouble").filter({ hasText: "name another user" }).waitFor();
  const group = (page) => page.locator("#chats button").filter({ hasText: "ben, dora" });
  const dora = await someone("dora");
  await begin(cleo, "ben, dora, ben");
  await cleo.locator("#name").filter({ hasText: /^ben, dora$/ }).waitFor();

  // The creator of a chat adds and removes members; the others may leave it.
  await cleo.locator("#who").click();
  await cleo.getByLabel("Member to add").fill("ann");
  await cleo.getByRole("button", { name: "Add" }).click();
  await cleo.getByRole("button", { name: "Remove ann" }).waitFor();
  await group(ann).click({ timeout: 12_000 });
  await ann.locator("#who").filter({ hasText: "4 members" }).click();
  if (await ann.getByRole("button", { name: /Remove|Delete|Add/ }).count()) throw new Error("what only the founder may");
  await ann.getByRole("button", { name: "Leave" }).click();
  await group(ann).waitFor({ state: "detached" });
  await cleo.getByRole("button", { name: "Remove dora" }).click();
  await cleo.getByRole("button", { name: "Remove dora" }).waitFor({ state: "detached" });
  cleo.removeAllListeners("dialog");
  cleo.on("dialog", (dialog) => dialog.accept());
  await dora.close();
  await cleo.getByRole("button", { name: "Delete the chat" }).click();
  await group(cleo).waitFor({ state: "detached" });
  await cleo.getByText("Choose a chat, or begin one").waitFor();

  // A second tab continues the session of the first, also in a narrow window.
  const tab = await ann.context().newPage();
  await tab.setViewportSize({ width: 390, height: 700 });
  await tab.goto(url);
  await tab.locator("#chats button").first().click();
  const field = await tab.getByLabel("Members").boundingBox();
  const [width, seen] = await tab.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  if (field.width < 150 || width > seen) throw new Error(`a field of ${field.width}, ${width} in ${seen}`);
  await tab.close();
  await ann.getByRole("button", { name: "Log out" }).click();
  await ann.getByLabel("Password").waitFor();
  // The browser logs the refusal itself.
  const others = problems.filter((problem) => !/409|401/.test(problem));
  if (others.length) throw new Error(others.join("\n"));
} catch (error) {
  failed = true;
  console.log(error.stack ?? error, problems);
}
await browser.close();
console.log(`test two browsers on ${system} ... ${failed ? "FAILED" : "ok"}`);
console.log(`test result: ${failed ? "FAILED. 0 passed; 1" : "ok. 1 passed; 0"} failed; 0 ignored`);
process.exit(failed ? 1 : 0);
