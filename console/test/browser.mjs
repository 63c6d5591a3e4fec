// A real server and a real browser for the tests: started and stopped here.

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

/** Starts `isomer serve` on a new folder. */
export async function startServer(binary, flags = []) {
  const folder = mkdtempSync(join(tmpdir(), "isomer-console-"));
  const settings = ["databases_folder=databases", "backups_folder=backups", "log.level=info"].flatMap((setting) => ["--set", setting]);
  const child = spawn(binary, ["serve", "people.isomer", "--create", "--listen", "127.0.0.1:0", ...settings, ...flags], { cwd: folder, stdio: ["ignore", "inherit", "pipe"] });
  const said = [];
  const server = { folder, url: "", link: "", token: "", stop: null };
  const ended = new Promise((resolve) => child.on("exit", resolve));
  server.stop = async () => {
    child.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  };
  await new Promise((resolve, reject) => {
    child.on("exit", () => reject(new Error("the server ended:\n" + said.join("\n"))));
    createInterface({ input: child.stderr }).on("line", (line) => {
      said.push(line);
      const url = /url[=: "]+(https?:\/\/[0-9.:]+)/.exec(line);
      if (url) server.url = url[1];
      const link = /(https?:\/\/\S+\/#setup=(\S+))/.exec(line);
      if (link) [, server.link, server.token] = link;
      if (server.link && server.url) resolve();
    });
  });
  return server;
}

/** Debian's Chromium, or the one that CHROMIUM names. */
export async function startBrowser() {
  const executablePath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) => path && existsSync(path));
  if (!executablePath) throw new Error("there is no Chromium: apt-get install chromium, or set CHROMIUM");
  const browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--force-color-profile=srgb", "--font-render-hinting=none"],
  });
  if (process.env.CONSOLE_DIST) tryBuilt(browser, process.env.CONSOLE_DIST);
  return browser;
}

/** Serves freshly built files instead of those in the binary, which then need not be rebuilt; everything else comes from the server. */
function tryBuilt(browser, folder) {
  const make = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await make(options);
    await context.route((url) => url.pathname === "/" || url.pathname.startsWith("/console/"), async (route) => {
      const name = new URL(route.request().url()).pathname.replace(/^\/(?:console\/)?/, "");
      const path = join(folder, name || "index.html");
      if (name) return route.fulfill({ path });
      // The policy of the page comes from the server.
      const { "content-encoding": _encoding, "content-length": _length, ...headers } = (await route.fetch()).headers();
      return route.fulfill({ headers, path });
    });
    return context;
  };
}

/** The HTTP interface, used from outside of the browser. */
export function client(url, token) {
  const call = async (method, path, body, type = "application/json") => {
    const answer = await fetch(url + path, {
      method,
      headers: { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(body === undefined ? {} : { "Content-Type": type }) },
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  return {
    call,
    query: (query, parameters = {}) => call("POST", "/v1/databases/people/query", { query, parameters }),
  };
}
