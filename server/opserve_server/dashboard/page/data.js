// All that the pages read from the service: one function for calls, and one live state that a single watch keeps.
import { useEffect, useReducer, useRef, useState } from "./vendor/htm-preact.js";

const KEY_NAME = "opserve.key"; // in sessionStorage: a tab's life
const RETRY_MS = [500, 1000, 2000, 5000];
const SERIES_MS = 5000, SERIES_S = 600; // a chart of ten minutes has less than a point for two seconds
export const TABLES = ["devices", "waiting", "sessions", "runs", "service"];

/** An answer that is not a success: the members of problem+json. */
export class Problem extends Error {
  constructor(members) {
    super(members.detail ?? members.title);
    Object.assign(this, members);
  }
}

/** The state of the service. `state`: connecting, live, broken or key; `problem`: why. */
export const live = { state: "connecting", problem: null, ...emptyTables() };
const listeners = new Set();
let stop = new AbortController();

function emptyTables() {
  return Object.fromEntries(TABLES.map((name) => [name, new Map()]));
}

export const key = () => sessionStorage.getItem(KEY_NAME) ?? "";

export function setKey(text) {
  if (text) sessionStorage.setItem(KEY_NAME, text);
  else sessionStorage.removeItem(KEY_NAME);
  Object.assign(live, emptyTables());
  restart();
}

/** Calls the service; raises Problem. */
export async function call(path, { method = "GET", json, body, signal } = {}) {
  const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
  if (json !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, signal, body: json === undefined ? body : JSON.stringify(json), cache: "no-store" });
  if (answer.ok) return answer;
  throw new Problem(await answer.json().catch(() => ({ status: answer.status, detail: `The service answered ${answer.status}.` })));
}

export async function get(path, query = {}) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  return (await call(`${path}${given.size ? `?${given}` : ""}`)).json();
}

/** Every item of a list that comes in pages. */
export async function getAll(path, query, member, most = Infinity) {
  const items = [];
  for (let cursor = ""; items.length < most;) {
    const page = await get(path, { ...query, cursor });
    items.push(...page[member]);
    cursor = page.cursor;
    if (!cursor) break;
  }
  return items;
}

export const post = (path, json) => call(path, { method: "POST", json });

function notify() {
  for (const listener of listeners) listener();
}

/** Applies an event of the watch: names with items that changed, or with null where they are gone. */
function apply(change, whole) {
  if (whole) Object.assign(live, emptyTables());
  for (const table of TABLES) {
    for (const [name, item] of Object.entries(change[table] ?? {})) {
      if (item === null) live[table].delete(name);
      else live[table].set(name, typeof item === "object" && !Array.isArray(item) ? { ...item, read: performance.now() } : item);
    }
  }
  Object.assign(live, { state: "live", problem: null });
  notify();
}

async function watch(signal) {
  const answer = await call("/v1/watch", { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", whole = true;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("");
      if (!data) continue; // a sign of life
      apply(JSON.parse(data), whole);
      whole = false;
    }
  }
}

/** Watches until the tab is hidden or the key changes; a hidden tab holds no connection. */
async function follow(signal) {
  for (let failures = 0; !signal.aborted;) {
    try {
      await watch(signal); // ends after some minutes, and when the service drains
      failures = 0;
      await new Promise((resolve) => { setTimeout(resolve, RETRY_MS[0]); });
    } catch (problem) {
      if (signal.aborted) return;
      Object.assign(live, { state: problem.status === 401 ? "key" : "broken", problem });
      notify();
      if (problem.status === 401) return;
      const wait = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)];
      await new Promise((resolve) => { setTimeout(resolve, problem.retry_after_s ? 1000 * problem.retry_after_s : wait); });
    }
  }
}

export function restart() {
  stop.abort();
  stop = new AbortController();
  if (!document.hidden) follow(stop.signal);
}

document.addEventListener("visibilitychange", restart);
addEventListener("pagehide", () => stop.abort());

/** The live state; the component is drawn again when it changes, at most once a frame. */
export function useLive() {
  const [, draw] = useReducer((count) => count + 1, 0);
  useEffect(() => {
    let frame = 0;
    const listener = () => { frame ||= requestAnimationFrame(() => { frame = 0; draw(); }); };
    listeners.add(listener);
    listener(); // what changed before this effect ran
    return () => { listeners.delete(listener); cancelAnimationFrame(frame); };
  }, []);
  return live;
}

/** The result of an asynchronous function: { value, problem, again }. */
export function useLoad(load, inputs) {
  const [held, hold] = useState({ value: null, problem: null });
  const [round, again] = useReducer((count) => count + 1, 0);
  const latest = useRef(0);
  useEffect(() => {
    const mine = ++latest.current;
    const keep = (result) => { if (mine === latest.current) hold(result); };
    Promise.resolve().then(load).then((value) => keep({ value, problem: null }), (problem) => keep({ value: null, problem }));
  }, [...inputs, round]);
  return { ...held, again };
}

/** Series by name and label, of the last ten minutes, every five seconds while the tab is in sight. */
export function useSeries(names) {
  const [series, hold] = useState({});
  useEffect(() => {
    let timer = 0, ended = false;
    const read = async () => {
      if (!document.hidden) {
        const found = await get("/v1/series", { name: names.join(), last_s: SERIES_S }).catch(() => null);
        if (found && !ended) hold(found.series);
      }
      if (!ended) timer = setTimeout(read, SERIES_MS);
    };
    read();
    return () => { ended = true; clearTimeout(timer); };
  }, [names.join()]);
  return series;
}
