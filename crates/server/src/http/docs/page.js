"use strict";
// Everything is put into the page as text: nothing that the server says is read as markup.
function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

function described(method, path, operation, schemas) {
  const summary = element("summary", "", element("b", method.toUpperCase()), element("code", path), element("span", operation.summary));
  const details = element("details", "", summary, element("p", operation.description));
  details.dataset.words = `${method} ${path} ${operation.summary}`.toLowerCase();
  const rows = (operation.parameters || []).map((one) =>
    element("tr", "", element("td", "", element("code", one.name)), element("td", one.in + (one.required ? ", needed" : "")),
      element("td", one.description || (one.schema.enum || [one.schema.type]).join(", "))));
  if (rows.length) details.append(element("table", "", ...rows));
  const content = operation.requestBody && operation.requestBody.content;
  for (const [type, body] of Object.entries(content || {})) {
    const name = body.schema && body.schema.$ref && body.schema.$ref.split("/").pop();
    details.append(element("p", `Body: ${type}`));
    if (name) details.append(element("pre", JSON.stringify(schemas[name], null, 2)));
  }
  return details;
}

async function main() {
  const answer = await fetch("/v1/openapi.json");
  const description = await answer.json();
  const parts = new Map();
  for (const [path, methods] of Object.entries(description.paths))
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0];
      if (!parts.has(tag)) parts.set(tag, element("section", "", element("h2", tag)));
      parts.get(tag).append(described(method, path, operation, description.components.schemas));
    }
  const routes = document.getElementById("routes");
  routes.replaceChildren(...parts.values());
  document.getElementById("search").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const one of routes.querySelectorAll("details")) one.hidden = !words.every((word) => one.dataset.words.includes(word));
  });
}

main();
