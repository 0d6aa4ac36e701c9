// Sessions of the caller, or of all tenants for an administrator; and the timeline of one.
import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { get, post, useLoad } from "./data.js";
import { bytes, count, many, seconds } from "./format.js";
import { Badge, Confirm, Empty, Failure, Section, Table, colour, save, useSecond } from "./parts.js";
import { chromeTrace, rowsOf, spansOf } from "./trace.js";

const LANE = 26, LABEL = 96, AXIS = 20, LATEST = 400;
const COLOURS = { kernel: "--blue", wait: "--soft", copy: "--orange" };
const REFRESH_MS = 1000;

export function Sessions({ live, rest: [id] }) {
  const now = useSecond();
  const [text, setText] = useState("");
  const all = [...live.sessions.values()];
  const fits = (one) => [one.id, one.tenant, one.device].some((part) => part.includes(text));
  const rows = all.filter(fits).toSorted((one, other) => other.working - one.working || one.open_s - other.open_s).map((one) => rowOf(one, now, one.id === id));
  return html`${id && html`<${Timeline} key=${id} id=${id} open=${live.sessions.has(id)} />`}
    <${Section} title="Sessions" hint=${many(all.length, "session")}>
    ${all.length ? html`<div class="row"><label>Text <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="id, tenant or device" /></label></div>
      <${Table} label="Sessions" numbers=${[3, 4, 5, 6, 7]} rows=${rows}
        titles=${["Session", "State", "Device", "Open for", "Expires in", "Calls in progress", "Queued entries", "Memory", "Tenant", ""]} />`
    : html`<${Empty}>You have no open session. Open one: <code>Client("${location.origin}").open_session("ascend910b")</code>.<//>`}<//>`;
}

function rowOf(session, now, chosen) {
  const passed = (now - session.read) / 1000;
  const release = (force) => post("/v1/sessions:release", { id: session.id, force });
  return {
    id: session.id, mark: chosen ? "chosen" : "",
    cells: [
      html`<a href="#/sessions/${session.id}"><code>${session.id}</code></a>`,
      html`<${Badge} kind=${session.working ? "good" : ""}>${session.working ? "Working" : "Idle"}<//>${session.exclusive ? " exclusive" : ""}`,
      session.device, seconds(session.open_s + passed), session.working ? "renewed by its work" : seconds(Math.max(0, session.expires_in_s - passed)),
      count(session.calls), count(session.queued_entries), bytes(session.memory_bytes), session.tenant,
      html`<${Confirm} label="Close" question=${session.working ? "Close it with its work?" : "Close it?"} act=${() => release(session.working)} />`,
    ],
  };
}

function Timeline({ id, open }) {
  const { value, problem, again } = useLoad(() => get("/v1/sessions:timeline", { id }), [id]);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden && open) again(); }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [open]);
  const held = useRef(null);
  held.current = value ?? held.current; // of a session that has ended, what was seen last
  const download = () => save(`session-${id}.json`, "application/json", JSON.stringify(chromeTrace(held.current, `session ${id}`)));
  return html`<${Section} title="Timeline of session ${id}" hint=${html`<a href="#/sessions">close</a>`}>
    ${!open && html`<p><${Badge} kind="warn">Ended<//> This is what was seen last.</p>`}
    ${held.current ? html`<${Lanes} timeline=${held.current} />
      <div class="row"><button type="button" onClick=${download}>Download for Perfetto</button>
      <span class="hint">Open the file at ui.perfetto.dev or in chrome://tracing. This page sends it nowhere.</span></div>`
    : problem ? html`<${Failure} problem=${problem} />` : html`<${Empty}>Reading the timeline …<//>`}<//>`;
}

/** Lanes of the latest entries: streams, then copies. */
function lanesOf(timeline) {
  const starts = [...timeline.streams.flatMap((one) => one.entries.slice(-LATEST).map((entry) => entry.queued_s)), ...timeline.copies.slice(-LATEST).map((copy) => copy.started_s)];
  const zero = starts.reduce((one, other) => Math.min(one, other), Infinity);
  const lanes = timeline.streams.map(({ stream, entries }) => ({
    name: stream ? `stream ${stream}` : "default", boxes: spansOf(entries.slice(-LATEST), zero).filter(({ span }) => span).map(({ entry, name, kind, span }) => ({
      kind, span, text: `${name}, ${seconds(span[1] - span[0])}, queued ${seconds(Math.max(0, entry.started_s - entry.queued_s))}`
        + `${entry.kernel_s === null ? "" : `, kernel ${seconds(entry.kernel_s)}`}, ${entry.outcome}${entry.reason && ` ${entry.reason}`}`,
    })),
  }));
  for (const copies of rowsOf(timeline.copies.slice(-LATEST))) {
    lanes.push({ name: "copies", boxes: copies.map((copy) => ({ kind: "copy", span: [copy.started_s - zero, copy.ended_s - zero],
      text: `${copy.kind.toLowerCase()} of buffer ${copy.buffer}, ${bytes(copy.size_bytes)}, ${seconds(copy.ended_s - copy.started_s)}` })) });
  }
  const length = lanes.flatMap((lane) => lane.boxes).reduce((most, { span }) => Math.max(most, span[1]), 1e-6);
  return { lanes, length };
}

function Lanes({ timeline }) {
  const canvas = useRef();
  const [at, point] = useState(null);
  const { lanes, length } = lanesOf(timeline);
  const boxes = lanes.flatMap((lane, row) => lane.boxes.map((box) => ({ ...box, row })));
  const place = ({ span, row }, width) => [LABEL + (width - LABEL) * (span[0] / length), row * LANE + 3, Math.max(2, (width - LABEL) * ((span[1] - span[0]) / length)), LANE - 6];
  useEffect(() => {
    const draw = () => paint(canvas.current, lanes, boxes, place, length, at);
    draw();
    addEventListener("resize", draw);
    return () => removeEventListener("resize", draw);
  });
  const hover = (event) => {
    const inside = boxes.findLastIndex((box) => {
      const [x, y, width, height] = place(box, canvas.current.clientWidth);
      return event.offsetX >= x - 1 && event.offsetX <= x + width + 1 && event.offsetY >= y && event.offsetY <= y + height;
    });
    point(inside < 0 ? null : inside);
  };
  const step = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || !boxes.length) return;
    event.preventDefault();
    point(at === null ? 0 : Math.min(boxes.length - 1, Math.max(0, at + by)));
  };
  const text = at !== null && boxes[at] ? `${lanes[boxes[at].row].name}: ${boxes[at].text}` : `${many(boxes.length, "entry").replace("entrys", "entries")} in ${seconds(length)}`;
  if (!boxes.length) return html`<${Empty}>The session has done no work yet. Its calls, waits and copies appear here.<//>`;
  return html`<div class="lanes"><p class="hint">${Object.keys(COLOURS).map((kind) => html`<span><span class="swatch of-${kind}"></span>${kind} ${" "}</span>`)}</p>
    <canvas ref=${canvas} tabindex="0" role="img" aria-label="${text}. Arrow keys read the entries." onPointerMove=${hover} onPointerLeave=${() => point(null)} onKeyDown=${step}></canvas>
    <output class="reading">${text}</output></div>`;
}

function paint(canvas, lanes, boxes, place, length, at) {
  const sharp = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = lanes.length * LANE + AXIS;
  canvas.width = width * sharp;
  canvas.height = height * sharp;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  const colours = Object.fromEntries(Object.entries(COLOURS).map(([kind, name]) => [kind, colour(name)]));
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = colour("--ink");
  lanes.forEach((lane, row) => pen.fillText(lane.name, 0, row * LANE + 18));
  pen.fillText("0 s", LABEL, height - 5);
  pen.textAlign = "right";
  pen.fillText(seconds(length), width, height - 5);
  boxes.forEach((box, index) => {
    pen.fillStyle = colours[box.kind];
    pen.fillRect(...place(box, width));
    if (index !== at) return;
    pen.strokeStyle = colour("--ink");
    pen.lineWidth = 2;
    pen.strokeRect(...place(box, width));
  });
}
