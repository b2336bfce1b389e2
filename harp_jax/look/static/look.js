"use strict";
// Texts of the collection are set as text, never as markup.
const $ = (id) => document.getElementById(id);
const make = (tag, className = "", text = "") => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== "") node.textContent = text;
  return node;
};
let queries = [], offset = 0, levels = {}, current = "", newest = 0;
const PROPOSED = 5;

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

function showCounts(found) {
  const queries = found.labelled === 1 ? "1 query" : `${found.labelled} queries`;
  $("labels").textContent = found.labels
    ? `${found.labels} labels for ${queries} in ${found.file}; train on them with harp site --labels=${found.file}`
    : `Label results as relevant or not; labels are saved to ${found.file}.`;
}

function propose() {
  const list = $("proposals").querySelector("ul");
  list.replaceChildren(...queries.slice(offset, offset + PROPOSED).map((query) => {
    const item = make("li"), button = make("button", "", query);
    button.type = "button";
    button.title = query;
    button.addEventListener("click", () => { $("q").value = query; search(query); });
    item.append(button);
    return item;
  }));
  $("proposals").hidden = !queries.length;
  $("more").hidden = queries.length <= PROPOSED;
}

function moved(hit, name) {
  const by = hit.before - hit.rank;
  if (name === "BM25") return null;
  const text = by > 0 ? `▲ ${by}` : by < 0 ? `▼ ${-by}` : "=";
  const node = make("span", "moved " + (by > 0 ? "up" : by < 0 ? "down" : "soft"), text);
  const words = by > 0 ? `up ${by} from` : by < 0 ? `down ${-by} from` : "unchanged at";
  node.title = `${words} BM25 rank ${hit.before}`;
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

function hitItem(hit, about, { name, passage }) {
  const item = make("li", "hit"), top = make("div", "top");
  item.dataset.docid = hit.docid;
  const heading = make("h3", "", about.title || hit.docid);
  if (about.address) {
    const link = make("a", "", heading.textContent);
    link.href = about.address;
    link.rel = "noreferrer";
    link.target = "_blank";
    heading.replaceChildren(link);
  }
  top.append(make("span", "rank", hit.rank), heading);
  const change = moved(hit, name);
  if (change) top.append(change);
  top.append(make("span", "score", hit.score.toFixed(name === "BM25" ? 2 : 3)));
  item.append(top);
  if (about.title) item.append(make("div", "id", hit.docid));
  const text = make("p", "snippet");
  const scored = about.passages[passage];
  if (scored) text.append(make("span", "scored", SCORED[passage] || `Passage that the ${passage} scored best: `));
  for (const [part, matched] of scored || about.snippet) text.append(matched ? make("mark", "", part) : part);
  item.append(text);
  if (about.anchors.length) {
    const called = about.anchors.map(([anchor, count]) => `“${anchor}”` + (count > 1 ? ` × ${count}` : ""));
    item.append(make("p", "called", "Links call it " + called.join(", ")));
  }
  item.append(judge(hit.docid));
  const choose = () => {
    for (const other of document.querySelectorAll("li.hit")) other.classList.toggle("chosen", other.dataset.docid === hit.docid);
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

function show(found) {
  current = found.query;
  levels = found.levels;
  $("rankings").replaceChildren(...found.rankings.map((ranking, number) => {
    const section = make("section"), heading = make("h2", "", ranking.name), list = make("ol");
    section.dataset.name = ranking.name;
    heading.id = "ranking-" + number;  // names have spaces
    section.setAttribute("aria-labelledby", heading.id);
    list.append(...ranking.results.map((hit) => hitItem(hit, found.documents[hit.docid], ranking)));
    section.append(heading, list);
    return section;
  }));
  $("views").replaceChildren(...found.rankings.map((ranking) => {
    const button = make("button", "", ranking.name);
    button.type = "button";
    button.addEventListener("click", () => view(ranking.name));
    return button;
  }));
  const some = found.candidates > 0;
  $("views").hidden = $("rankings").hidden = !some;
  const names = found.rankings.map((ranking) => ranking.name);
  view(names.includes(document.body.dataset.view) ? document.body.dataset.view : names.includes("Recommended") ? "Recommended" : "Both");
  press();
  say(some
    ? `${found.candidates} candidates, ranked in ${found.seconds.toFixed(2)} s; showing the top ${found.rankings[0].results.length}`
    : "No document shares a word with the query.");
}

async function search(query) {
  query = query.trim();
  if (!query) return;
  const number = ++newest;
  say("Searching …");
  try {
    const found = await ask("search?" + new URLSearchParams({ q: query }));
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
  $("more").addEventListener("click", () => { offset = offset + PROPOSED < queries.length ? offset + PROPOSED : 0; propose(); });
  try {
    const about = await ask("about");
    $("about").textContent = `${about.documents.toLocaleString("en")} documents, ranked by ${about.model}`;
    queries = about.queries;
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
