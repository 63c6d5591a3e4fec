"use strict";
// Everything that people wrote is put into the page as text.
const byId = (id) => document.getElementById(id);
let me = 0;
let current = 0;
let feed = null;
let names = new Map();

async function call(method, path, body) {
  const answer = await fetch(path, { method, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body) });
  const told = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(told.error || `the server answered ${answer.status}`);
  return told;
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
    sessionStorage.setItem("me", JSON.stringify([id, username]));
    await start(id, username);
  } catch (error) {
    byId("problem").textContent = error.message;
  }
}

// A name that was given to several people's chat serves all of them: each leaves himself out.
const title = (name) => name.split(", ").filter((one) => one !== byId("me").textContent).join(", ") || name;

async function list() {
  const { chats } = await call("GET", "/api/chats");
  byId("chats").replaceChildren(...chats.map((chat) => {
    const button = element("button", title(chat.name));
    if (chat.id === current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => open(chat));
    return button;
  }));
}

function show(message) {
  const item = element("li", "", message.sender === me ? "own" : "");
  if (message.sender !== me && names.size > 2) item.append(element("b", names.get(message.sender) ?? "somebody who left"));
  const at = new Date(message.timestamp);
  item.append(element("p", message.text), element("time", at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })));
  byId("messages").append(item);
  item.scrollIntoView();
}

async function open(chat) {
  if (feed) feed.close();
  current = chat.id;
  const [{ members }, { messages }] = await Promise.all([
    call("GET", `/api/chats/${chat.id}/members`),
    call("GET", `/api/chats/${chat.id}/messages?n=50`),
  ]);
  if (current !== chat.id) return;
  names = new Map(members.map((member) => [member.id, member.username]));
  byId("name").textContent = title(chat.name);
  byId("who").textContent = members.length > 2 ? `${members.length} members` : "";
  byId("messages").replaceChildren();
  byId("say").hidden = false;
  messages.forEach(show);
  const last = messages.length ? messages[messages.length - 1].id : 0;
  // The browser goes on by itself where the feed broke off: each event bears its number.
  feed = new EventSource(`/api/chats/${chat.id}/feed?after=${last}`);
  feed.addEventListener("message", (event) => show(JSON.parse(event.data)));
  await list();
  byId("text").focus();
}

function trouble(error) {
  byId("trouble").textContent = error ? error.message : "";
}

document.querySelector("#login form").addEventListener("submit", (event) => enter(event, false));
byId("join").addEventListener("click", (event) => enter(event, true));
byId("begin").addEventListener("submit", async (event) => {
  event.preventDefault();
  const members = byId("others").value.split(",").map((name) => name.trim()).filter(Boolean);
  const name = [byId("me").textContent, ...members].join(", ");
  try {
    const { id } = await call("POST", "/api/chats", { name, members });
    byId("others").value = "";
    trouble();
    await open({ id, name });
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
byId("leave").addEventListener("click", async () => {
  if (feed) feed.close();
  sessionStorage.removeItem("me");
  await call("DELETE", "/api/session");
  location.reload();
});
// New chats appear within some seconds; messages come at once, through the feed.
setInterval(() => { if (me) list().catch(() => {}); }, 3000);

// A page that is loaded again goes on, while its session lasts.
const known = sessionStorage.getItem("me");
const again = known ? call("GET", "/api/session").then(() => start(...JSON.parse(known))) : Promise.reject();
again.catch(() => { byId("login").hidden = false; });
