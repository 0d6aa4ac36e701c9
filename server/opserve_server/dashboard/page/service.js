// The service itself: its state, its calls, changed settings, and what it did in the last ten minutes.
import { html } from "./vendor/htm-preact.js";
import { post, useSeries } from "./data.js";
import { ago, bytes, count, many, moment, percent, rate, seconds } from "./format.js";
import { Badge, Confirm, Empty, Facts, Line, Section, Table } from "./parts.js";

const LINES = [
  ["device_busy_share", "Busy", percent], ["device_calls_per_s", "Calls at devices", rate], ["device_queued_entries", "Queued entries", count],
  ["device_sessions", "Sessions", count], ["device_used_memory_bytes", "Memory", bytes], ["waiting_requests", "Waiting requests", count],
];
const API_LINES = [
  ["calls_per_s", "Calls by API", rate], ["call_p50_s", "Median time of a call", seconds], ["call_p99_s", "Slowest hundredth of calls, from", seconds],
  ["copied_bytes_per_s", "Bytes by direction and transport", (value) => `${bytes(value)}/s`],
];

export function Service({ live }) {
  const state = live.service.get("state") ?? {}, { scopes = [] } = state;
  const lines = scopes.some((scope) => scope === "metrics" || scope === "admin") ? [...API_LINES, ...LINES] : LINES;
  const series = useSeries(lines.map(([name]) => name));
  const [kind, word] = state.drains ? ["warn", "Drains: no new work"] : state.ready ? ["good", "Ready"] : ["bad", "Not ready"];
  return html`<${Section} title="Service"><p><${Badge} kind=${kind}>${word}<//></p>
      <${Facts} of=${[["Version", state.version], ["Running since", state.started_at && `${moment(state.started_at)} (${ago(state.started_at)})`],
        ["Devices", many(live.devices.size, "device")], ["Waiting requests", state.your_requests === undefined ? null : `yours: ${count(state.your_requests)}, others: ${count(state.other_requests)}`],
        ["REST", html`<a href="/docs">every route</a>`]]} />
      ${scopes.includes("admin") && !state.drains && html`<p class="row"><${Confirm} label="Drain the service" question="Accept no new work, and end after the work that runs?"
        act=${() => post("/v1/admin/drain", {})} /><span class="hint">The process ends when every session has ended. It starts again as it was started before.</span></p>`}<//>
    <${Calls} calls=${live.service.get("calls")} />
    ${lines.map(([name, title, format]) => html`<${Section} title=${title} hint="the last ten minutes"><div class="cards">
      ${Object.entries(series[name] ?? {}).map(([label, values]) => html`<${Line} key=${label} label=${label} values=${values} format=${format} top=${format === percent ? 1 : null} />`)}
      ${!Object.keys(series[name] ?? {}).length && html`<${Empty}>Nothing yet.<//>`}</div><//>`)}
    <${Settings} settings=${live.service.get("settings")} />`;
}

/** Calls by method since the start, the most frequent first. */
function Calls({ calls }) {
  if (!calls) return html`<${Section} title="Calls by method"><${Empty}>A key with the scope metrics shows calls, their times and changed settings.<//><//>`;
  const rows = calls.methods.map((one) => ({ ...one, calls: Object.values(one.outcomes).reduce((sum, number) => sum + number, 0) })).toSorted((one, other) => other.calls - one.calls);
  return html`<${Section} title="Calls by method" hint="since the start of the service"><${Table} label="Calls by method" numbers=${[2, 4, 5]}
      titles=${["Method", "API", "Calls", "Outcomes", "Median", "99th percentile"]} rows=${rows.map((one) => ({ id: `${one.api} ${one.method}`, cells: [
        one.method, one.api, count(one.calls), Object.entries(one.outcomes).map(([outcome, number]) => `${outcome} ${count(number)}`).join(", "), seconds(one.p50_s), seconds(one.p99_s)] }))} />
    <${Facts} of=${Object.entries(calls.bytes).map(([label, amount]) => [`Bytes ${label}`, bytes(amount)])} /><//>`;
}

function Settings({ settings }) {
  if (!settings) return null;
  return html`<${Section} title="Changed settings">${settings.changed.length ? html`<${Table} label="Changed settings" titles=${["Variable", "Value", "Default"]}
      rows=${settings.changed.map(({ name, value, default: usual }) => ({ id: name, cells: [html`<code>${name}</code>`, value, usual] }))} />`
    : html`<${Empty}>Every setting has its default.<//>`}<//>`;
}
