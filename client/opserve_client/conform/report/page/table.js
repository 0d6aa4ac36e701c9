// The table of cases: only the rows in sight exist.

const SPARE_ROWS = 8; // beyond what is in sight, so that scrolling shows no gap
const PRINTED_ROWS = 200;
const COLUMNS = [
  ["status", "Status"],
  ["operator", "Operator"],
  ["dtype", "Dtype"],
  ["worst", "Worst used"],
  ["before", "Before"],
  ["errors", "Wrong"],
  ["reason", "Reason"],
  ["kind", "Fill"],
  ["profile", "Profile"],
  ["id", "Case"],
].filter(([key]) => key !== "before" || index.baseline);
const NUMBERS = new Set(["worst", "before", "errors"]);

const grid = document.getElementById("grid");
const space = document.getElementById("space");
const drawn = document.getElementById("rows");
let shown = []; // rows that pass the filters, in order
let active = 0; // place in shown that the keys move
let openId = null;
let printing = false;

/** Height of a row: a narrow window has rows of several lines, so that each reason can be read. */
function rowHeight() {
  return Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row"));
}

function cellOf(row, key) {
  switch (key) {
    case "status": return statusBadge(row.status);
    case "worst": case "before": return fraction(row[key]);
    case "errors": return row.errors ? count(row.errors) : "";
    case "id": return row.id.split(".").at(-1);
    case "reason": return reasonOf(row);
    default: return row[key];
  }
}

function reasonOf(row) {
  const news = [row.known, row.change].filter(Boolean).join(", ");
  return news ? make("span", {}, make("b", {}, news), ` ${row.reason}`) : row.reason;
}

function drawHead(sort) {
  document.getElementById("head").replaceChildren(...COLUMNS.map(([key, title]) => {
    const sorted = sort.key === key;
    const order = sort.descending ? "descending" : "ascending";
    const button = make("button", { type: "button", "data-sort": key }, title, sorted ? (sort.descending ? " ▾" : " ▴") : "");
    return make("div", {
      role: "columnheader", class: key, "aria-sort": sorted ? order : "none",
    }, button);
  }));
}

function drawRows() {
  const height = rowHeight();
  const top = Math.max(0, grid.scrollTop - height);
  const first = printing ? 0 : Math.max(0, Math.floor(top / height) - SPARE_ROWS);
  const fits = printing ? PRINTED_ROWS : Math.ceil(grid.clientHeight / height) + 2 * SPARE_ROWS;
  space.style.height = printing ? "auto" : `${shown.length * height}px`;
  drawn.style.transform = printing ? "none" : `translateY(${first * height}px)`;
  drawn.replaceChildren(...shown.slice(first, first + fits).map((row, step) => drawRow(row, first + step)));
  grid.setAttribute("aria-rowcount", shown.length + 1);
  const focused = document.getElementById(`row-${active}`);
  if (focused) grid.setAttribute("aria-activedescendant", focused.id);
  else grid.removeAttribute("aria-activedescendant");
}

function drawRow(row, place) {
  const classes = [place === active ? "active" : "", row.id === openId ? "open" : ""].join(" ");
  return make("div", {
    role: "row", id: `row-${place}`, class: classes, "aria-rowindex": place + 2,
    "aria-selected": row.id === openId ? "true" : "false", "data-place": place,
  }, ...COLUMNS.map(([key]) => make("div", {
    role: "gridcell", class: NUMBERS.has(key) ? `${key} number` : key,
    title: key === "reason" ? row.reason : key === "id" ? row.id : null,
  }, cellOf(row, key))));
}

/** Moves the keys' row, and into sight. */
function activate(place) {
  active = Math.max(0, Math.min(shown.length - 1, place));
  const height = rowHeight();
  const top = active * height;
  const head = document.getElementById("head").offsetHeight;
  if (top < grid.scrollTop) grid.scrollTop = top;
  else if (top + head + height > grid.scrollTop + grid.clientHeight) {
    grid.scrollTop = top + head + height - grid.clientHeight;
  }
  drawRows();
}

function showRows(rows) {
  shown = rows;
  const place = rows.findIndex((row) => row.id === openId);
  active = Math.max(0, place);
  grid.scrollTop = 0;
  activate(active);
}

grid.addEventListener("scroll", () => requestAnimationFrame(drawRows), { passive: true });
addEventListener("resize", () => { drawRows(); redrawMaps(); });
for (const [event, held] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(event, () => { printing = held; document.body.classList.toggle("printing", held); drawRows(); redrawMaps(); });
}
