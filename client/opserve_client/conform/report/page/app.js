// The page: its address holds the selection, and everything shown follows from the address.

const rows = index.columns.id.map((_, place) => rowOf(place));
const placeOf = new Map(rows.map((row) => [row.id, row.place]));
const texts = rows.map((row) => `${row.id} ${row.reason} ${row.about} ${row.status}`.toLowerCase());
const GRAVITY = ["NONDETERMINISTIC", "ERROR", "FAILED", "MISTRUSTED", "INVALID_ARGUMENTS", "UNIMPLEMENTED", "SKIPPED", "PASSED"];
const CHOICES = ["status", "operator", "profile", "dtype", "kind", "change", "known"];
const FIRST_SORT = { key: "status", descending: false };
const field = (name) => document.getElementById(name);
let chosen = { text: "", sort: FIRST_SORT };

/** Reads the selection from the address: #case=...&status=FAILED&text=...&sort=-worst */
function readAddress() {
  const held = new URLSearchParams(location.hash.slice(1));
  const sort = held.get("sort");
  chosen = { text: held.get("text") ?? "", sort: sort ? { key: sort.replace("-", ""), descending: sort.startsWith("-") } : FIRST_SORT };
  if (!COLUMNS.some(([key]) => key === chosen.sort.key)) chosen.sort = FIRST_SORT;
  for (const name of CHOICES) chosen[name] = held.get(name) ?? "";
  openId = held.get("case");
  show();
  showCase();
}

function writeAddress({ step = false } = {}) {
  const held = new URLSearchParams();
  for (const name of ["text", ...CHOICES]) if (chosen[name]) held.set(name, chosen[name]);
  if (chosen.sort !== FIRST_SORT) held.set("sort", `${chosen.sort.descending ? "-" : ""}${chosen.sort.key}`);
  if (openId) held.set("case", openId);
  const address = `#${held}`;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

function show() {
  for (const name of ["text", ...CHOICES]) field(name).value = chosen[name];
  const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
  const set = CHOICES.filter((name) => chosen[name]);
  const found = rows.filter((row) => set.every((name) => row[name] === chosen[name])
    && words.every((word) => texts[row.place].includes(word)));
  found.sort(comparing(chosen.sort));
  field("count").textContent = `${count(found.length)} of ${count(rows.length)} cases`;
  for (const tile of document.querySelectorAll("[data-choice]")) {
    tile.setAttribute("aria-pressed", String(chosen[tile.dataset.choice] === tile.dataset.value));
  }
  drawHead(chosen.sort);
  showRows(found);
}

function comparing({ key, descending }) {
  const sign = descending ? -1 : 1;
  const worth = (row) => {
    const held = key === "status" ? GRAVITY.indexOf(row.status) : row[key];
    return held === null || Number.isNaN(held) ? -1 : held;
  };
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  return (a, b) => sign * order(worth(a), worth(b)) || order(b.worst, a.worst) || a.place - b.place;
}

function choose(changes) {
  Object.assign(chosen, changes);
  writeAddress();
  show();
}

async function showCase() {
  if (!placeOf.has(openId)) {
    panel.hidden = true;
    document.body.classList.remove("reading-case");
    return;
  }
  const requested = openId;
  const detail = await detailOf(placeOf.get(requested));
  if (requested !== openId) return; // another case was opened meanwhile
  document.body.classList.add("reading-case");
  drawCase(rows[placeOf.get(requested)], detail);
  panel.scrollTop = 0;
  activate(active);
}

async function openCase(row) {
  openId = row.id;
  active = shown.indexOf(row);
  writeAddress({ step: true });
  await showCase();
  panel.focus({ preventScroll: innerWidth >= 1100 });
}

function closeCase() {
  openId = null;
  writeAddress({ step: true });
  showCase();
  drawRows();
  grid.focus();
}

function drawTiles(place, choice, names, more = () => "") {
  const counts = new Map();
  for (const row of rows) counts.set(row[choice], (counts.get(row[choice]) ?? 0) + 1);
  field(place).replaceChildren(...names.filter((name) => counts.has(name)).map((name) => {
    const tile = make("button", { type: "button", class: `tile ${name}`, "data-choice": choice, "data-value": name, "aria-pressed": "false" },
      make("b", {}, count(counts.get(name))), make("span", {}, `${SIGNS[name] ?? ""} ${name}${more(name)}`));
    tile.addEventListener("click", () => choose({ [choice]: chosen[choice] === name ? "" : name }));
    return tile;
  }));
}

function drawSummary() {
  const statuses = GRAVITY.filter((status) => index.names.status.includes(status)).reverse();
  const groups = new Map();
  for (const row of rows) {
    const key = JSON.stringify([row.operator, row.dtype]);
    if (!groups.has(key)) groups.set(key, { counts: new Map(), worst: 0 });
    const group = groups.get(key);
    group.counts.set(row.status, (group.counts.get(row.status) ?? 0) + 1);
    group.worst = Math.max(group.worst, row.worst);
  }
  const head = make("tr", {}, ...["Operator", "Dtype", ...statuses, "Worst used"].map((title) => make("th", { scope: "col" }, title)));
  const lines = [...groups].sort().map(([key, group]) => {
    const [operator, dtype] = JSON.parse(key);
    const cells = statuses.map((status) => {
      if (!group.counts.has(status)) return make("td", { class: "number none" }, "·");
      const button = make("button", { type: "button", class: `plain ${status}`, "aria-label": `${group.counts.get(status)} ${status} of ${operator} in ${dtype}` }, count(group.counts.get(status)));
      button.addEventListener("click", () => { choose({ operator, dtype, status }); field("filters").scrollIntoView(); });
      return make("td", { class: "number" }, button);
    });
    return make("tr", {}, make("th", { scope: "row" }, operator), make("td", {}, dtype), ...cells, make("td", { class: "number" }, fraction(group.worst)));
  });
  field("summary").replaceChildren(make("thead", {}, head), make("tbody", {}, ...lines));
}

function drawHeader() {
  document.title = `opserve conformance: ${index.target}`;
  field("target").textContent = index.target;
  field("verdict").textContent = index.conclusion;
  field("verdict").className = index.good ? "good" : "bad";
  field("facts").replaceChildren(...index.facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  drawTiles("statuses", "status", GRAVITY);
  drawSummary();
  for (const name of CHOICES) {
    const options = [...index.names[name]].filter(Boolean).sort();
    field(name).replaceChildren(make("option", { value: "" }, "all"), ...options.map((option) => make("option", { value: option }, option)));
  }
  if (index.names.known.some(Boolean)) {
    field("expectations").hidden = false;
    field("known-label").hidden = false;
    drawTiles("knowns", "known", index.knowns);
  }
  if (!index.baseline) return;
  field("comparison").hidden = false;
  field("change-label").hidden = false;
  drawTiles("changes", "change", index.changes);
  field("gone").textContent = index.baseline;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  field("theme").textContent = theme === "dark" ? "Light" : "Dark";
  redrawMaps();
}

field("filters").addEventListener("input", (event) => choose({ [event.target.id]: event.target.value }));
field("filters").addEventListener("submit", (event) => event.preventDefault());
field("filters").addEventListener("reset", () => choose(Object.fromEntries(["text", ...CHOICES].map((name) => [name, ""]))));
field("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
field("skip").addEventListener("click", (event) => { event.preventDefault(); grid.focus(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawMaps);
grid.addEventListener("click", (event) => {
  const line = event.target.closest("[data-place]");
  const title = event.target.closest("[data-sort]");
  if (line) openCase(shown[Number(line.dataset.place)]);
  if (title) {
    const key = title.dataset.sort;
    choose({ sort: { key, descending: chosen.sort.key === key ? !chosen.sort.descending : NUMBERS.has(key) } });
    grid.querySelector(`[data-sort="${key}"]`).focus();
  }
});
grid.addEventListener("keydown", (event) => {
  if (event.target !== grid) return;
  const page = Math.max(1, Math.floor(grid.clientHeight / rowHeight()) - 2);
  const places = {
    ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: shown.length - 1,
  };
  if (event.key in places) {
    event.preventDefault();
    activate(places[event.key]);
  } else if (event.key === "Enter" && shown[active]) openCase(shown[active]);
});
addEventListener("keydown", (event) => {
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "/" && !typing) {
    event.preventDefault();
    field("text").focus();
  } else if (event.key === "Escape" && openId) closeCase();
});
for (const event of ["popstate", "hashchange"]) addEventListener(event, () => readAddress());

drawHeader();
field("theme").textContent = isDark() ? "Light" : "Dark";
readAddress();
document.documentElement.dataset.ready = "";
