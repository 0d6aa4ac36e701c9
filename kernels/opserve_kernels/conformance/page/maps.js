// Heat maps of the used fraction. Within the tolerance they are blue, beyond it orange: the two stay apart for
// colour-blind eyes too, lightness goes one way within each, and what is wrong has a mark of its own.
import { count, fraction, make, toNumber, value } from "./elements.js";

const SCALES = {
  light: {
    right: [[0, "#f4f8fc"], [0.25, "#c6dbef"], [0.5, "#86bcdc"], [0.75, "#3f8fc4"], [1, "#08519c"]],
    wrong: [[0, "#fdbe85"], [0.5, "#e6690d"], [1, "#8f2d04"]],
    infinite: "#3d1200", mark: "#ffffff", unmarked: "#5b2000", edge: "#b8c2cc", cursor: "#000000",
  },
  dark: {
    right: [[0, "#131c26"], [0.25, "#17395a"], [0.5, "#235f91"], [0.75, "#4a93c9"], [1, "#a5d0ee"]],
    wrong: [[0, "#a34a0c"], [0.5, "#ee8a35"], [1, "#ffd3a1"]],
    infinite: "#fff3e0", mark: "#3d1200", unmarked: "#ffe6cc", edge: "#3b4754", cursor: "#ffffff",
  },
};
const MOST_TIMES = 100; // of the tolerance: where the scale of what is wrong ends
const WIDTH_PX = 560, LEAST_CELL_PX = 3, MOST_CELL_PX = 26, MARKED_CELL_PX = 7, GAP_PX = 10;
const PANEL_EDGES_PX = 38; // paddings and borders of a case's panel, and a map's frame
const WRAPPED_CELLS = 64; // of a map with one row
const MAP_TITLES = { plane: "Planes", position: "Positions", tap: "Taps of the kernel" };

function isDark() {
  if (document.body.classList.contains("printing")) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function mixed(stops, at) {
  const next = Math.max(1, stops.findIndex(([end]) => end >= at));
  const [[low, from], [high, to]] = [stops[next - 1], stops[next]];
  const share = (at - low) / (high - low);
  const part = (colour, byte) => parseInt(colour.slice(1 + 2 * byte, 3 + 2 * byte), 16);
  const bytes = [0, 1, 2].map((byte) => Math.round(part(from, byte) + share * (part(to, byte) - part(from, byte))));
  return `rgb(${bytes.join(" ")})`;
}

/** The colour of a used fraction. */
function colour(used, scale) {
  if (Number.isNaN(used) || used === Infinity) return scale.infinite;
  if (used <= 1) return mixed(scale.right, Math.max(0, used));
  return mixed(scale.wrong, Math.min(1, Math.log(used) / Math.log(MOST_TIMES)));
}

/** Width for a map: that of the case's panel, so that no cell is out of sight in a narrow window. */
function mapWidth() {
  return Math.min(WIDTH_PX, document.querySelector(".panes").clientWidth - PANEL_EDGES_PX);
}

/** Where the cells of a map stand: the last two axes make panels, the axes before them count panels. */
function layoutOf(map) {
  const room = mapWidth();
  const shape = [...map.shape];
  const across = shape.pop();
  const down = shape.pop() ?? 1;
  const panels = shape.reduce((product, size) => product * size, 1);
  const wrap = down === 1 && panels === 1 ? Math.min(across, WRAPPED_CELLS, Math.floor(room / MARKED_CELL_PX)) : across;
  const lines = down === 1 && panels === 1 ? Math.ceil(across / wrap) : down;
  const cell = Math.max(LEAST_CELL_PX, Math.min(MOST_CELL_PX, Math.floor(room / wrap)));
  const abreast = Math.max(1, Math.min(panels, Math.floor((room + GAP_PX) / (wrap * cell + GAP_PX))));
  const stacked = Math.ceil(panels / abreast);
  return {
    wrap, lines, cell, panels, abreast, perPanel: down * across,
    width: abreast * (wrap * cell + GAP_PX) - GAP_PX + 2, height: stacked * (lines * cell + GAP_PX) - GAP_PX + 2,
    corner(place) {
      const panel = Math.floor(place / this.perPanel), inside = place % this.perPanel;
      return [
        1 + (panel % abreast) * (wrap * cell + GAP_PX) + (inside % wrap) * cell,
        1 + Math.floor(panel / abreast) * (lines * cell + GAP_PX) + Math.floor(inside / wrap) * cell,
      ];
    },
    placeAt(x, y) {
      const column = Math.floor((x - 1) / (wrap * cell + GAP_PX)), row = Math.floor((y - 1) / (lines * cell + GAP_PX));
      const left = Math.floor((x - 1 - column * (wrap * cell + GAP_PX)) / cell);
      const top = Math.floor((y - 1 - row * (lines * cell + GAP_PX)) / cell);
      const place = (row * abreast + column) * this.perPanel + top * wrap + left;
      const inside = left >= 0 && top >= 0 && left < wrap && top < lines && column < abreast && place < map.values.length;
      return inside ? place : null;
    },
  };
}

function drawMap(canvas, map, layout, cursor, form) {
  const scale = SCALES[isDark() ? "dark" : "light"];
  const sharp = devicePixelRatio || 1;
  canvas.width = layout.width * sharp;
  canvas.height = layout.height * sharp;
  canvas.style.width = `${layout.width}px`;
  canvas.style.height = `${layout.height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  pen.strokeStyle = scale.edge;
  for (let first = 0; first < map.values.length; first += layout.perPanel) {
    const [x, y] = layout.corner(first);
    pen.strokeRect(x - 0.5, y - 0.5, layout.wrap * layout.cell + 1, layout.lines * layout.cell + 1);
  }
  const inner = layout.cell > 5 ? layout.cell - 1 : layout.cell;
  map.values.forEach((given, place) => {
    const used = toNumber(given);
    const [x, y] = layout.corner(place);
    pen.fillStyle = form.colour(used, scale, map);
    pen.fillRect(x, y, inner, inner);
    if (form.isWrong(used) && layout.cell >= MARKED_CELL_PX) drawMark(pen, x, y, inner, used > 3 || Number.isNaN(used) ? scale.mark : scale.unmarked);
  });
  if (cursor !== null) {
    const [x, y] = layout.corner(cursor);
    pen.strokeStyle = scale.cursor;
    pen.lineWidth = 2;
    pen.strokeRect(x, y, inner, inner);
  }
}

function drawMark(pen, x, y, size, ink) {
  const edge = size * 0.3;
  pen.strokeStyle = ink;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x + edge, y + edge);
  pen.lineTo(x + size - edge, y + size - edge);
  pen.moveTo(x + size - edge, y + edge);
  pen.lineTo(x + edge, y + size - edge);
  pen.stroke();
}

/** "c 4 to 7, h 0": the entries of a cell. */
function entriesOf(map, place) {
  const entries = [];
  for (let axis = map.shape.length - 1; axis >= 0; axis--) {
    const first = (place % map.shape[axis]) * map.steps[axis];
    const last = Math.min(first + map.steps[axis], map.sizes[axis]) - 1;
    entries.unshift(`${map.axes[axis]} ${first}${last > first ? ` to ${last}` : ""}`);
    place = Math.floor(place / map.shape[axis]);
  }
  return entries.join(", ");
}

/** How a map shows the used fraction of the tolerance. */
const USED = {
  colour,
  isWrong: (used) => !(used <= 1),
  title: mapTitle,
  summary(map) {
    const wrong = map.values.filter((used) => !(toNumber(used) <= 1)).length;
    return wrong ? `${count(wrong)} of ${count(map.values.length)} cells are wrong` : "no cell is wrong";
  },
  read: readCell,
};

/** How a map shows values between -map.most and map.most: blue from 0 up, orange below. */
export const VALUES = {
  colour(given, scale, { most }) {
    if (!Number.isFinite(given)) return scale.infinite;
    return given < 0 ? mixed(scale.wrong, given / -most) : mixed(scale.right, most ? given / most : 0);
  },
  isWrong: (given) => !Number.isFinite(given),
  title: (map) => map.title,
  summary: (map) => map.summary,
  read: (map, place) => `${entriesOf(map, place)}: ${value(map.values[place])}`,
};

function readCell(map, place) {
  const used = toNumber(map.values[place]);
  return `${entriesOf(map, place)}: ${fraction(used)} of the tolerance${used <= 1 ? "" : ", wrong"}`;
}

function mapTitle(map) {
  const taps = ["kd", "kh", "kw"], spots = ["d", "h", "w"];
  const kind = taps.includes(map.axes[0]) ? "tap" : spots.includes(map.axes[0]) ? "position" : "plane";
  return `${MAP_TITLES[kind]} (${map.axes.map((axis, place) => `${axis} ${map.sizes[place]}`).join(" × ")})`;
}

/** A map with its title, its reading line, and keys and pointer that move over its cells. */
export function heatMap(map, form = USED) {
  let layout = layoutOf(map);
  const summary = form.summary(map);
  const canvas = make("canvas", {
    tabindex: "0", role: "img",
    "aria-label": `${form.title(map)}: ${summary}. Arrow keys read cells.`,
  });
  const reading = make("output", { class: "reading" }, summary);
  let cursor = null;
  const read = (place) => {
    cursor = place;
    drawMap(canvas, map, layout, cursor, form);
    reading.textContent = place === null ? summary : form.read(map, place);
  };
  canvas.addEventListener("pointermove", (event) => read(layout.placeAt(event.offsetX, event.offsetY)));
  canvas.addEventListener("pointerleave", () => read(null));
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.wrap, ArrowDown: layout.wrap };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = cursor === null ? 0 : cursor + steps[event.key];
    if (next >= 0 && next < map.values.length) read(next);
  });
  canvas.redraw = () => {
    layout = layoutOf(map);
    drawMap(canvas, map, layout, cursor, form);
  };
  canvas.redraw();
  return make("figure", { class: "map" }, make("figcaption", {}, form.title(map)),
    make("div", { class: "wide" }, canvas), axesHint(map), reading);
}

function axesHint(map) {
  const names = map.axes;
  if (map.shape.slice(0, -1).every((size) => size === 1)) return make("p", { class: "hint" }, `${names.at(-1)} →, line after line`);
  const panels = names.slice(0, -2);
  return make("p", { class: "hint" }, `${names.at(-2)} ↓  ${names.at(-1)} →${panels.length ? `, a panel for each ${panels.join(", ")}` : ""}`);
}

/** What the colours mean. */
export function legend() {
  const steps = [0, 0.25, 0.5, 0.75, 1, 1.5, 3, 10, 30, 100, Infinity];
  const canvases = [];
  const items = steps.map((used) => {
    const canvas = make("canvas", { width: "28", height: "14", "aria-hidden": "true" });
    canvas.redraw = () => {
      const scale = SCALES[isDark() ? "dark" : "light"];
      const pen = canvas.getContext("2d");
      pen.fillStyle = colour(used, scale);
      pen.fillRect(0, 0, 28, 14);
      if (!(used <= 1)) drawMark(pen, 7, 0, 14, used > 3 ? scale.mark : scale.unmarked);
      pen.strokeStyle = scale.edge;
      pen.strokeRect(0.5, 0.5, 27, 13);
    };
    canvases.push(canvas);
    return make("span", { class: "step" }, canvas, fraction(used));
  });
  canvases.forEach((canvas) => canvas.redraw());
  return make("div", { class: "legend", role: "img", "aria-label": "Colours: blue within the tolerance, orange with a cross beyond it, the strongest one infinite" },
    make("span", {}, "Used fraction of the tolerance"), ...items);
}

export function redrawMaps() {
  for (const canvas of document.querySelectorAll("canvas")) canvas.redraw?.(); // charts redraw themselves
}
