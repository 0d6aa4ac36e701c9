// The view of a case: status, numbers and maps of each output, checks and the call. The conformance report and the
// dashboard show it.
import { count, fold, fraction, make, section, statusBadge, table, toNumber, value } from "./elements.js";
import { heatMap, legend } from "./maps.js";

/** The parts of a verdict: those of outputs that are wrong come first. */
export function verdictParts(verdict) {
  return [
    ...(verdict.refusal ? [refusalOf(verdict.refusal)] : []),
    ...wrongFirst(verdict.outputs).map((output) => outputOf(output)),
    ...(verdict.checks.length ? [checksOf(verdict.checks)] : []),
  ];
}

function wrongFirst(outputs) {
  const isRight = (output) => Number(output.status === "PASSED");
  return outputs.toSorted((one, other) => isRight(one) - isRight(other));
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
    ...(output.maps.length ? [legend(), make("div", { class: "maps" }, ...output.maps.map((map) => heatMap(map)))] : []),
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

/** The tensors and arguments of a case's definition. */
export function callOf(given) {
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
