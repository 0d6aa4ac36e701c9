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
    ...(verdict.refusal ? [refusalOf(verdict.refusal)] : []),
    ...wrongFirst(verdict.outputs).map((output) => outputOf(output)),
    ...(verdict.checks.length ? [checksOf(verdict.checks)] : []),
    callOf(given),
    reproductionOf(given, verdict.outputs),
  );
  panel.hidden = false;
  close.addEventListener("click", () => closeCase());
}

function wrongFirst(outputs) {
  const isRight = (output) => Number(output.status === "PASSED");
  return outputs.toSorted((one, other) => isRight(one) - isRight(other));
}

function changeOf(row, before) {
  const was = before === null ? "" : `: was ${before.status}, worst ${fraction(toNumber(before.worst))} of the tolerance; is ${row.status}, ${fraction(row.worst)}`;
  return make("p", { class: "change" }, make("b", {}, row.change), was);
}

function refusalOf(refusal) {
  const text = (code) => code === null ? "no rejection" : [code.number, code.name].filter((part) => part !== null).join(" ");
  return section("Status code", table(["Expected", "Given"], [[text(refusal.expected), text(refusal.given)]]));
}

function outputOf(output) {
  const shape = output.shape.length ? output.shape.join(" × ") : "scalar";
  const reported = output.layers.filter((layer) => !layer.gate);
  return make("section", { class: "output" },
    make("h4", {}, output.name, " ", make("small", {}, `${output.dtype}, ${shape}`), " ", statusBadge(output.status)),
    make("p", {}, output.reason),
    ...(output.maps.length ? [legend(), make("div", { class: "maps" }, ...output.maps.map(heatMap))] : []),
    ...(output.omitted ? [make("p", { class: "hint" }, "The maps of this output are omitted because the run has many failures: run the case alone to see them.")] : []),
    section("Layers that decide", layersOf(output.layers.filter((layer) => layer.gate))),
    ...(reported.length ? [fold(`Standards that are only reported: ${reported.filter((layer) => layer.passed).length} of ${reported.length} are met`, layersOf(reported))] : []),
    ...(output.histogram.some((bin) => bin.elements) ? [section("Used fraction of the tolerance", histogramOf(output.histogram))] : []),
    ...(output.greatest.length ? [section(output.errors ? `Worst ${output.greatest.length} of ${count(output.errors)} wrong elements` : "Worst element", elementsOf(output.greatest))] : []),
    ...(output.first.length && output.errors > output.greatest.length ? [fold("First wrong elements", elementsOf(output.first))] : []),
  );
}

function layersOf(layers) {
  const metrics = (layer) => Object.entries(layer.metrics).map(([name, number]) => `${name} ${value(number)}`).join(", ");
  return table(["", "Layer", "Metrics", "Version, source"], layers.map((layer) => [
    make("span", { class: layer.passed ? "met" : "unmet" }, layer.passed ? "✓ met" : "✗ not met"),
    layer.name, metrics(layer), `${layer.version}, ${layer.source}`,
  ]), ["", "", "metrics"]);
}

function histogramOf(bins) {
  const most = Math.max(...bins.map((bin) => bin.elements));
  const rows = bins.filter((bin) => bin.elements).map((bin) => {
    const bar = make("div", { class: toNumber(bin.most) > 1 ? "bar wrong" : "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(1, 100 * Math.log1p(bin.elements) / Math.log1p(most))}%`;
    return [bin.name, count(bin.elements), bar];
  });
  return table(["Used", "Elements", "Log scale"], rows, ["", "number", "bars"]);
}

function elementsOf(elements) {
  return table(["Index", "Exact", "Expected", "Got", "Absolute", "Relative", "Used", "ULP"], elements.map((one) => [
    `[${one.index.join(", ")}]`, ...[one.exact, one.expected, one.got, one.absolute, one.relative].map(value),
    fraction(toNumber(one.used)), one.ulp === null ? "–" : count(one.ulp),
  ]), ["index", ...Array(7).fill("number")]);
}

function checksOf(checks) {
  return section("Checks", table(["", "Check", "Tensor", "Result", "Elements"], checks.map((check) => [
    statusBadge(check.status), check.name, check.tensor, check.reason,
    check.elements ? `${count(check.elements)}: ${check.first.map((one) => `[${one.join(", ")}]`).join(" ")}` : "",
  ])));
}

function callOf(given) {
  const tensors = Object.entries(given.tensors).map(([name, tensor]) => [
    name, tensor.dtype, tensor.shape.join(" × "), tensor.format ?? "ND",
    [tensor.strides ? `strides ${tensor.strides.join(", ")}` : "", tensor.offset ? `offset ${tensor.offset}` : "",
      tensor.fill ? fillOf(tensor.fill) : "output"].filter(Boolean).join("; "),
  ]);
  const others = Object.entries(given.arguments).map(([name, held]) => [name, JSON.stringify(held)]);
  return section("The call",
    table(["Tensor", "Dtype", "Shape", "Format", "Content"], tensors),
    table(["Argument", "Value"], others));
}

function fillOf(fill) {
  return [fill.kind ?? "integer", fill.bound ? `within ${fill.bound}` : "", fill.thinning ? `one of ${2 ** fill.thinning} kept` : ""].filter(Boolean).join(", ");
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

function copyable(id, text) {
  const code = make("pre", { id, tabindex: "0" }, text);
  const button = make("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch { // Some browsers deny files the clipboard: the selection can be copied by keys.
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  return make("div", { class: "copyable" }, code, button);
}

function section(title, ...children) {
  return make("section", {}, make("h5", {}, title), ...children);
}

function fold(title, ...children) {
  return make("details", {}, make("summary", {}, title), ...children);
}

function table(titles, rows, classes = []) {
  const line = (cells, kind) => make("tr", {}, ...cells.map((cell, place) =>
    make(kind, { class: classes[place] || null, scope: kind === "th" ? "col" : null }, cell)));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, line(titles, "th")),
    make("tbody", {}, ...rows.map((cells) => line(cells, "td")))));
}
