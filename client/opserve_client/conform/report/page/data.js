// The report's data: an index of all cases, and chunks with their details, unpacked when a case is opened.

const index = await unpack(document.getElementById("index"));
const chunks = [...document.querySelectorAll("script.chunk")];
const unpacked = new Map();

async function unpack(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** What is known of a case, by its place in the run. */
async function detailOf(place) {
  const number = Math.floor(place / index.chunk);
  if (!unpacked.has(number)) unpacked.set(number, unpack(chunks[number]));
  return (await unpacked.get(number))[place % index.chunk];
}

/** The index has columns, where names stand in lists; here is a row of a case. */
function rowOf(place) {
  const { columns, names } = index;
  const named = (column) => names[column][columns[column][place]];
  return {
    place,
    id: columns.id[place],
    status: named("status"),
    operator: named("operator"),
    profile: named("profile"),
    dtype: named("dtype"),
    kind: named("kind"),
    change: named("change"),
    known: named("known"),
    worst: toNumber(columns.worst[place]),
    before: columns.before[place] === null ? null : toNumber(columns.before[place]),
    errors: columns.errors[place],
    reason: columns.reason[place],
    about: columns.about[place],
  };
}

/** JSON has no name for infinity and NaN: they are texts. */
function toNumber(value) {
  return typeof value === "string" ? Number(value) : value;
}

/** A used fraction of the tolerance, for people. */
function fraction(used) {
  if (used === null || Number.isNaN(used)) return "–";
  if (used === Infinity) return "∞";
  if (used >= 1e6) return `${used.toExponential(0)}×`;
  if (used > 1) return `${used < 10 ? used.toFixed(1) : count(Math.round(used))}×`;
  return used === 0 ? "0" : used < 0.01 ? "<1 %" : `${Math.round(used * 100)} %`;
}

/** A number of an element, whole enough to be compared. */
function value(given) {
  const number = toNumber(given);
  if (number === null) return "–";
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "NaN" : number > 0 ? "∞" : "-∞";
  return Number.isInteger(number) && Math.abs(number) < 1e7 ? String(number) : String(Number(number.toPrecision(8)));
}

/** An element with children: texts stay texts, whatever they hold. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, held] of Object.entries(attributes)) {
    if (held === true) element.setAttribute(key, "");
    else if (held !== false && held !== null) element.setAttribute(key, held);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const count = new Intl.NumberFormat("en").format;
