// Parts of several pages: badges, tables, bars, charts, buttons that ask once more.
import { html, useEffect, useErrorBoundary, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { count, seconds } from "./format.js";

const TABLE_ROWS = 100;

/** A state as a word with a colour: good, bad, warn or plain. */
export const Badge = ({ kind = "", children }) => html`<span class="badge ${kind}">${children}</span>`;

export function Section({ title, hint, children }) {
  return html`<section><h2>${title} ${hint && html`<small>${hint}</small>`}</h2>${children}</section>`;
}

/** A text in place of what is not there yet; it says what to do. */
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

export function Failure({ problem }) {
  if (!problem) return null;
  return html`<p class="problem" role="alert"><b>${problem.reason ?? "Failed"}${problem.code ? ` (${problem.code})` : ""}</b> ${problem.message}</p>`;
}

/** A table of rows of cells; of many rows the first ones, and a button for more. Numbers are right-aligned. */
export function Table({ label, titles, rows, numbers = [] }) {
  const [most, show] = useState(TABLE_ROWS);
  const kind = (place) => numbers.includes(place) ? "number" : "";
  return html`<div class="wide" tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${titles.map((title, place) => html`<th scope="col" class=${kind(place)}>${title}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, most).map(({ id, cells, mark = "" }) => html`<tr key=${id} class=${mark}>
      ${cells.map((cell, place) => html`<td class=${kind(place)}>${cell}</td>`)}</tr>`)}</tbody>
    </table>${rows.length > most && html`<p><button type="button" onClick=${() => show(most + 10 * TABLE_ROWS)}>
      Show more: ${count(most)} of ${count(rows.length)} are shown</button></p>`}</div>`;
}

/** Pairs of a name and a value. */
export function Facts({ of }) {
  const held = of.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">${held.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

export function Bar({ share, label, kind = "" }) {
  const ref = useRef();
  useLayoutEffect(() => { ref.current.style.width = `${100 * Math.min(1, Math.max(0, share))}%`; });
  return html`<div class="meter" role="img" aria-label=${label}><div ref=${ref} class="fill ${kind}"></div></div>`;
}

/** A button whose second press acts; problems are shown beside it. */
export function Confirm({ label, question, act, danger = true }) {
  const [asked, ask] = useState(false);
  const [problem, hold] = useState(null);
  const press = async () => {
    if (!asked) return ask(true);
    ask(false);
    hold(null);
    await act().catch(hold);
  };
  return html`<span class="confirm"><button type="button" class=${asked && danger ? "danger" : ""} onClick=${press}
    onBlur=${() => ask(false)}>${asked ? question : label}</button><${Failure} problem=${problem} /></span>`;
}

/** The colour of a CSS variable in the present theme, for canvases. */
export function colour(name) {
  document.body.style.accentColor = `var(${name})`; // resolves light-dark(); no element of ours shows it
  return getComputedStyle(document.body).accentColor;
}

/** A line of numbers, one a second; its text says the last, and the greatest of all. */
export function Line({ label, values, format, height = 56, top = null }) {
  const box = useRef(), chart = useRef(null);
  const last = values.at(-1) ?? 0, most = values.reduce((one, other) => Math.max(one, other ?? 0), 0);
  const data = [values.map((_, place) => place - values.length + 1), values];
  useEffect(() => {
    const options = {
      width: box.current.clientWidth || 240, height, legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false }, y: { range: (_, __, high) => [0, top ?? Math.max(high, 1e-9)] } },
      axes: [{ show: false }, { show: false }], padding: [4, 0, 2, 0],
      series: [{}, { stroke: () => colour("--blue"), fill: () => colour("--hover"), width: 1.5, points: { show: false } }],
    };
    chart.current = new globalThis.uPlot(options, data, box.current);
    const resized = new ResizeObserver(([entry]) => chart.current.setSize({ width: entry.contentRect.width, height }));
    resized.observe(box.current);
    return () => { resized.disconnect(); chart.current.destroy(); };
  }, []);
  useEffect(() => { chart.current?.setData(data); });
  const peak = `at most ${format(most)} in ${seconds(values.length)}`;
  return html`<figure class="line"><figcaption>${label}: <b>${format(last)}</b> <small>${peak}</small></figcaption>
    <div ref=${box} role="img" aria-label="${label}: ${format(last)} now, ${peak}"></div></figure>`;
}

/** Text with a button that copies it. */
export function Copyable({ id, text }) {
  const [done, say] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch { // Without TLS, a browser may deny the clipboard: the selection can be copied by keys.
      getSelection().selectAllChildren(document.getElementById(id));
      say("Selected");
    }
    setTimeout(() => say("Copy"), 1500);
  };
  return html`<div class="copyable"><pre id=${id} tabindex="0">${text}</pre><button type="button" class="copy" onClick=${copy}>${done}</button></div>`;
}

/** An element of another script inside a component. */
export function Foreign({ make, inputs }) {
  const ref = useRef();
  useLayoutEffect(() => { ref.current.replaceChildren(...[make()].flat()); }, inputs);
  return html`<div ref=${ref}></div>`;
}

/** Draws again each second, for texts that say how long something lasts. */
export function useSecond() {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => draw((round) => round + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return performance.now();
}

/** Keeps an error of one page from the others. */
export function Guarded({ children }) {
  const [problem] = useErrorBoundary();
  return problem ? html`<${Failure} problem=${problem} />` : children;
}

export function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
