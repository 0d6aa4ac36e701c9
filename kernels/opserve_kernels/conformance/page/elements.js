// Elements and numbers of the case view: texts stay texts, whatever they hold.

export const SIGNS = {
  PASSED: "✓", FAILED: "✗", ERROR: "!", NONDETERMINISTIC: "≠", MISTRUSTED: "?",
  INVALID_ARGUMENTS: "⊘", UNIMPLEMENTED: "∅", SKIPPED: "–",
};

/** JSON has no name for infinity and NaN: they are texts. */
export function toNumber(value) {
  return typeof value === "string" ? Number(value) : value;
}

/** A used fraction of the tolerance, for people. */
export function fraction(used) {
  if (used === null || Number.isNaN(used)) return "–";
  if (used === Infinity) return "∞";
  if (used >= 1e6) return `${used.toExponential(0)}×`;
  if (used > 1) return `${used < 10 ? used.toFixed(1) : count(Math.round(used))}×`;
  return used === 0 ? "0" : used < 0.01 ? "<1 %" : `${Math.round(used * 100)} %`;
}

/** A number of an element, whole enough to be compared. */
export function value(given) {
  const number = toNumber(given);
  if (number === null) return "–";
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "NaN" : number > 0 ? "∞" : "-∞";
  return Number.isInteger(number) && Math.abs(number) < 1e7 ? String(number) : String(Number(number.toPrecision(8)));
}

/** An element with children: texts stay texts, whatever they hold. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, held] of Object.entries(attributes)) {
    if (held === true) element.setAttribute(key, "");
    else if (held !== false && held !== null) element.setAttribute(key, held);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

export const count = new Intl.NumberFormat("en").format;

export function statusBadge(status) {
  return make("span", { class: `badge ${status}` }, `${SIGNS[status] ?? "•"} ${status}`);
}

export function copyable(id, text) {
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

export function section(title, ...children) {
  return make("section", {}, make("h5", {}, title), ...children);
}

export function fold(title, ...children) {
  return make("details", {}, make("summary", {}, title), ...children);
}

export function table(titles, rows, classes = []) {
  const line = (cells, kind) => make("tr", {}, ...cells.map((cell, place) =>
    make(kind, { class: classes[place] || null, scope: kind === "th" ? "col" : null }, cell)));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, line(titles, "th")),
    make("tbody", {}, ...rows.map((cells) => line(cells, "td")))));
}
