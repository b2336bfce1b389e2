"use strict";
// Texts of the collection are set as text, never as markup.
const $ = (id) => document.getElementById(id);
const make = (tag, className = "", text = "") => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== "") node.textContent = text;
  return node;
};
let about = { sum: "Recommended", reader: "" }, offset = 0, levels = {}, current = "", newest = 0;
const PROPOSED = 5, SHOWN = 10;

async function ask(url, options) {
  const response = await fetch(url, options);
  const found = await response.json().catch(() => ({ error: `the server answered with status ${response.status}` }));
  if (!response.ok) throw new Error(found.error);
  return found;
}

function say(text, failed = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", failed);
}

function showCounts(counts) {
  const queries = counts.labelled === 1 ? "1 query" : `${counts.labelled} queries`;
  $("labels").textContent = counts.labels
    ? `${counts.labels} labels for ${queries} in ${counts.file}; train on them with harp site --labels=${counts.file}`
    : `Label results as relevant or not; labels are saved to ${counts.file}.`;
}

function propose() {
  const list = $("proposals").querySelector("ul");
  list.replaceChildren(...about.queries.slice(offset, offset + PROPOSED).map((query) => {
    const item = make("li"), button = make("button", "", query);
    button.type = "button";
    button.title = query;
    button.addEventListener("click", () => { $("q").value = query; search(query); });
    item.append(button);
    return item;
  }));
  $("proposals").hidden = !about.queries.length;
  $("more").hidden = about.queries.length <= PROPOSED;
}

function moved(ranks, part) {
  const by = ranks.BM25 - ranks[part];
  if (part === "BM25") return null;
  const text = by > 0 ? `▲ ${by}` : by < 0 ? `▼ ${-by}` : "=";
  const node = make("span", "moved " + (by > 0 ? "up" : by < 0 ? "down" : "soft"), text);
  const words = by > 0 ? `up ${by} from` : by < 0 ? `down ${-by} from` : "unchanged at";
  node.title = `${words} BM25 rank ${ranks.BM25}`;
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", node.title);
  return node;
}

function judge(docid) {
  const group = make("div", "judge");
  for (const [name, level, text] of [["yes", 1, "Relevant"], ["no", 0, "Not relevant"]]) {
    const button = make("button", name, text);
    button.type = "button";
    button.dataset.docid = docid;
    button.dataset.level = level;
    button.addEventListener("click", () => label(docid, levels[docid] === level ? null : level));
    group.append(button);
  }
  return group;
}

function press() {
  for (const button of document.querySelectorAll(".judge button")) {
    button.setAttribute("aria-pressed", String(levels[button.dataset.docid] === Number(button.dataset.level)));
  }
}

async function label(docid, level) {
  const query = current;
  try {
    const body = JSON.stringify({ query, docid, level });
    const found = await ask("label", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    showCounts(found);
    if (query !== current) return;
    levels = found.levels;
    press();
  } catch (error) {
    say(error.message, true);
  }
}

const SCORED = { vectors: "Passage with the nearest vector: ", "re-ranker": "From the part that the re-ranker read: " };

function hitItem(hit, { part, reader }) {
  const item = make("li", "hit"), top = make("div", "top");
  item.dataset.docid = hit.id;
  const heading = make("h3", "", hit.title || hit.id);
  if (hit.url) {
    const link = make("a", "", heading.textContent);
    link.href = hit.url;
    link.rel = "noreferrer";
    link.target = "_blank";
    heading.replaceChildren(link);
  }
  top.append(make("span", "rank", hit.ranks[part]), heading);
  const change = moved(hit.ranks, part);
  if (change) top.append(change);
  const score = part === "sum" ? hit.score : hit.parts[part];
  top.append(make("span", "score", score.toFixed(part === "BM25" ? 2 : 3)));
  item.append(top);
  if (hit.title) item.append(make("div", "id", hit.id));
  const text = make("p", "snippet"), scored = reader && hit.snippets[reader];
  if (scored) text.append(make("span", "scored", SCORED[reader] || `Passage that the ${reader} scored best: `));
  for (const [words, matched] of scored || hit.snippets[""]) text.append(matched ? make("mark", "", words) : words);
  item.append(text);
  if (hit.anchors.length) {
    const called = hit.anchors.map(([anchor, count]) => `“${anchor}”` + (count > 1 ? ` × ${count}` : ""));
    item.append(make("p", "called", "Links call it " + called.join(", ")));
  }
  item.append(judge(hit.id));
  const choose = () => {
    for (const other of document.querySelectorAll("li.hit")) other.classList.toggle("chosen", other.dataset.docid === hit.id);
  };
  item.addEventListener("mouseenter", choose);
  item.addEventListener("focusin", choose);
  return item;
}

function view(name) {
  document.body.dataset.view = name;
  for (const section of $("rankings").children) section.classList.toggle("shown", section.dataset.name === name);
  for (const button of $("views").children) button.setAttribute("aria-pressed", String(button.textContent === name));
}

// The columns: BM25, the sum, and each model; every column has the best results by its part.
function columns(results) {
  const models = Object.keys(results.length ? results[0].ranks : {}).filter((part) => part !== "sum" && part !== "BM25");
  const named = models.map((part) => ({ name: part[0].toUpperCase() + part.slice(1), part, reader: part }));
  return [{ name: "BM25", part: "BM25", reader: "" }, { name: about.sum, part: "sum", reader: about.reader }, ...named];
}

function show(found) {
  current = found.query;
  levels = found.levels;
  const shown = columns(found.results);
  $("rankings").replaceChildren(...shown.map((column, number) => {
    const section = make("section"), heading = make("h2", "", column.name), list = make("ol");
    section.dataset.name = column.name;
    heading.id = "ranking-" + number;  // names have spaces
    section.setAttribute("aria-labelledby", heading.id);
    const best = found.results.filter((hit) => hit.ranks[column.part] <= SHOWN);
    best.sort((a, b) => a.ranks[column.part] - b.ranks[column.part]);
    list.append(...best.map((hit) => hitItem(hit, column)));
    section.append(heading, list);
    return section;
  }));
  $("views").replaceChildren(...shown.map(({ name }) => {
    const button = make("button", "", name);
    button.type = "button";
    button.addEventListener("click", () => view(name));
    return button;
  }));
  const some = found.results.length > 0;
  $("views").hidden = $("rankings").hidden = !some;
  view(shown.some(({ name }) => name === document.body.dataset.view) ? document.body.dataset.view : about.sum);
  press();
  say(found.message || `${found.candidates} candidates, ranked in ${found.seconds.toFixed(2)} s; showing the top ${SHOWN}`);
}

async function search(query) {
  query = query.trim();
  if (!query) return;
  const number = ++newest;
  say("Searching …");
  try {
    const found = await ask("search?" + new URLSearchParams({ q: query, k: SHOWN, explain: 1 }));
    if (number !== newest) return;
    show(found);
    history.replaceState(null, "", "?" + new URLSearchParams({ q: query }));
    document.title = `${query} – harp look`;
  } catch (error) {
    if (number === newest) say(error.message, true);
  }
}

async function start() {
  $("form").addEventListener("submit", (event) => { event.preventDefault(); search($("q").value); });
  $("more").addEventListener("click", () => {
    offset = offset + PROPOSED < about.queries.length ? offset + PROPOSED : 0;
    propose();
  });
  try {
    about = await ask("about");
    $("about").textContent = `${about.documents.toLocaleString("en")} documents, ranked by ${about.model}`;
    propose();
    showCounts(about);
    $("verdict").textContent = about.verdict;
    $("verdict").hidden = !about.verdict;
  } catch (error) {
    say(error.message, true);
  }
  const query = new URLSearchParams(location.search).get("q");
  if (query) { $("q").value = query; search(query); }
}
start();
