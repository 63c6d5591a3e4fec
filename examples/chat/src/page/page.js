"use strict";
// User input is inserted as text only.
const byId = (id) => document.getElementById(id);
let me = 0;
let current = 0;
let feed = null;
let names = new Map();

async function call(method, path, body) {
  const answer = await fetch(path, { method, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body) });
  const content = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(content.error || `the server answered ${answer.status}`), { status: answer.status });
  return content;
}

function element(name, text, className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

async function start(id, name) {
  me = id;
  byId("me").textContent = name;
  byId("login").hidden = true;
  byId("chat").hidden = false;
  await list();
}

async function enter(event, isNew) {
  event.preventDefault();
  if (!event.target.closest("form").reportValidity()) return;
  const asked = { username: byId("username").value, password: byId("password").value };
  try {
    if (isNew) await call("POST", "/api/users", asked);
    const { id, username } = await call("POST", "/api/session", asked);
    byId("password").value = "";
    localStorage.setItem("me", JSON.stringify([id, username]));
    await start(id, username);
  } catch (error) {
    byId("problem").textContent = error.message;
  }
}

// The name of a group lists its members: each user sees it without their own name.
const title = (name) => name.split(", ").filter((one) => one !== byId("me").textContent).join(", ") || name;

async function list() {
  const seen = current;
  const { chats } = await call("GET", "/api/chats");
  // It was deleted, or this user was removed.
  if (seen && seen === current && !chats.some((chat) => chat.id === seen)) close();
  byId("chats").replaceChildren(...chats.map((chat) => {
    const button = element("button", title(chat.name));
    if (chat.id === current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => open(chat));
    return button;
  }));
}

function show(message) {
  const item = element("li", "", message.sender === me ? "own" : "");
  if (message.sender !== me && names.size > 2) item.append(element("b", names.get(message.sender) ?? "former member"));
  const at = new Date(message.timestamp);
  item.append(element("p", message.text), element("time", at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })));
  byId("messages").append(item);
  item.scrollIntoView();
}

function close() {
  if (feed) feed.close();
  current = 0;
  byId("name").textContent = "Choose a chat, or begin one";
  byId("people").hidden = byId("say").hidden = true;
  byId("messages").replaceChildren();
}

/** The members of the open chat and its actions: the creator adds, removes and deletes, the others may leave. */
function showPeople(chat, members) {
  names = new Map(members.map((member) => [member.id, member.username]));
  const mine = chat.admin === me;
  byId("who").textContent = `${members.length} members`;
  byId("people").hidden = false;
  byId("add").hidden = byId("delete").hidden = !mine;
  byId("all").replaceChildren(...members.map((member) => {
    const item = element("li", "");
    item.append(element("span", member.id === me ? `${member.username} (you)` : member.username));
    if (mine ? member.id === me : member.id !== me) return item;
    const button = element("button", mine ? "Remove" : "Leave", "quiet");
    if (mine) button.setAttribute("aria-label", `Remove ${member.username}`);
    button.addEventListener("click", () => change("DELETE", `/members/${member.id}`));
    item.append(button);
    return item;
  }));
}

async function change(method, what, body) {
  const chat = current;
  try {
    await call(method, `/api/chats/${chat}${what}`, body);
    trouble();
    await list();
    if (current !== chat) return;
    const [{ members }, found] = await Promise.all([call("GET", `/api/chats/${chat}/members`), call("GET", `/api/chats/${chat}`)]);
    if (current === chat) showPeople(found, members);
  } catch (error) {
    trouble(error);
  }
}

async function open(chat) {
  if (feed) feed.close();
  if (current !== chat.id) byId("people").open = false;
  current = chat.id;
  const [{ members }, { messages }] = await Promise.all([
    call("GET", `/api/chats/${chat.id}/members`),
    call("GET", `/api/chats/${chat.id}/messages?n=50`),
  ]);
  if (current !== chat.id) return;
  showPeople(chat, members);
  byId("name").textContent = title(chat.name);
  byId("messages").replaceChildren();
  byId("say").hidden = false;
  messages.forEach(show);
  const last = messages.length ? messages[messages.length - 1].id : 0;
  // The browser resumes a broken feed by itself: each event has its number as id.
  feed = new EventSource(`/api/chats/${chat.id}/feed?after=${last}`);
  feed.addEventListener("message", (event) => show(JSON.parse(event.data)));
  await list();
  byId("text").focus();
}

function trouble(error) {
  byId("trouble").textContent = error ? error.message : "";
}

/** The existing chat with this user. */
async function privateChat(other) {
  const { chats } = await call("GET", "/api/chats");
  const isLikely = (chat) => title(chat.name) === other;
  for (const chat of [...chats.filter(isLikely), ...chats.filter((chat) => !isLikely(chat))]) {
    const { members } = await call("GET", `/api/chats/${chat.id}/members`);
    if (members.length === 2 && members.some((member) => member.username === other)) return chat;
  }
  throw new Error(`the chat with ${other} was deleted: begin it again`);
}

document.querySelector("#login form").addEventListener("submit", (event) => enter(event, false));
byId("join").addEventListener("click", (event) => enter(event, true));
byId("begin").addEventListener("submit", async (event) => {
  event.preventDefault();
  const own = byId("me").textContent;
  const asked = byId("others").value.split(",").map((name) => name.trim());
  const members = [...new Set(asked)].filter((name) => name && name !== own);
  const name = [own, ...members].join(", ");
  try {
    if (!members.length) throw new Error("name another user");
    const made = await call("POST", "/api/chats", { name, members }).catch((error) => {
      if (error.status !== 409) throw error;
    });
    const chat = made ? { id: made.id, name, admin: me } : await privateChat(members[0]);
    byId("others").value = "";
    trouble();
    await open(chat);
  } catch (error) {
    trouble(error);
  }
});
byId("say").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = byId("text").value;
  byId("text").value = "";
  try {
    await call("POST", `/api/chats/${current}/messages`, { text });
    trouble();
  } catch (error) {
    byId("text").value = text;
    trouble(error);
  }
});
byId("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const username = byId("new-member").value.trim();
  byId("new-member").value = "";
  await change("POST", "/members", { username });
});
byId("delete").addEventListener("click", () => {
  if (confirm("Delete the chat with all its messages, for all members?")) change("DELETE", "");
});
byId("leave").addEventListener("click", async () => {
  if (feed) feed.close();
  localStorage.removeItem("me");
  await call("DELETE", "/api/session");
  location.reload();
});
// New chats appear within some seconds; messages arrive at once, through the feed.
setInterval(() => { if (me) list().catch(() => {}); }, 3000);

// A reloaded page, or one in a second tab, continues the session: the cookie and the name belong to the browser.
async function again() {
  const known = JSON.parse(localStorage.getItem("me"));
  const { id } = known ? await call("GET", "/api/session") : {};
  if (!known || id !== known[0]) throw new Error("log in");
  await start(...known);
}
again().catch(() => { byId("login").hidden = false; });
