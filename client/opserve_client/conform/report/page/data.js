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
