// The panel of one case: description, numbers and maps, then the commands that run it again.

const panel = document.getElementById("case");

function drawCase(row, detail) {
  const { case: given, verdict, places, before, known } = detail;
  const close = make("button", { type: "button", id: "close", "aria-label": "Close the case" }, "✕");
  const link = make("a", { href: `#case=${encodeURIComponent(row.id)}`, class: "permalink" }, "link to this case");
  panel.replaceChildren(
    make("header", {}, make("h3", {}, statusBadge(row.status), " ", row.operator), close),
    make("p", { class: "id" }, make("code", {}, row.id), " ", link),
    make("p", { class: "hint" }, [`profile ${row.profile}`, ...(given.tags ?? []), given.source ?? ""].filter(Boolean).join(" · ")),
    make("p", { class: "reason" }, verdict.reason),
    ...(row.known ? [make("p", { class: "known" }, make("b", {}, row.known), `: ${known}`)] : []),
    ...(row.change ? [changeOf(row, before)] : []),
    ...(places.length ? [make("ul", { class: "places" }, ...places.map((text) => make("li", {}, text)))] : []),
    ...verdictParts(verdict),
    callOf(given),
    reproductionOf(given, verdict.outputs),
  );
  panel.hidden = false;
  close.addEventListener("click", () => closeCase());
}

function changeOf(row, before) {
  const was = before === null ? "" : `: was ${before.status}, worst ${fraction(toNumber(before.worst))} of the tolerance; is ${row.status}, ${fraction(row.worst)}`;
  return make("p", { class: "change" }, make("b", {}, row.change), was);
}

/** A value as a Python string literal for json.loads: ASCII only, with no code in it. */
function quoted(given) {
  const ascii = JSON.stringify(given).replace(/[\u007f-\uffff]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return JSON.stringify(ascii);
}

function snippetOf(given, outputs) {
  const elements = Object.fromEntries(outputs.map((output) =>
    [output.name, output.greatest.map((one) => [one.index, one.expected])]));
  return index.snippet.replace('"@CASE@"', () => quoted(given)).replace('"@ELEMENTS@"', () => quoted(elements));
}

function reproductionOf(given, outputs) {
  const command = `${index.command} ${given.id}`;
  return section("Reproduce",
    copyable("command", command),
    make("p", {}, "Or as a Python program that needs only opserve's client: it generates the same inputs, calls your function and shows the elements above."),
    copyable("snippet", snippetOf(given, outputs)));
}
