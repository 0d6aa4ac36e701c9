// The service itself: its state, and what it did in the last ten minutes.
import { html } from "./vendor/htm-preact.js";
import { useSeries } from "./data.js";
import { ago, bytes, count, many, moment, percent, rate } from "./format.js";
import { Badge, Facts, Line, Section } from "./parts.js";

const LINES = [
  ["device_busy_share", "Busy", percent], ["device_calls_per_s", "Calls", rate], ["device_queued_entries", "Queued entries", count],
  ["device_sessions", "Sessions", count], ["device_used_memory_bytes", "Memory", bytes], ["waiting_requests", "Waiting requests", count],
];

export function Service({ live }) {
  const series = useSeries(LINES.map(([name]) => name));
  const state = live.service.get("state") ?? {};
  const [kind, word] = state.drains ? ["warn", "Drains: no new work"] : state.ready ? ["good", "Ready"] : ["bad", "Not ready"];
  return html`<${Section} title="Service"><p><${Badge} kind=${kind}>${word}<//></p>
      <${Facts} of=${[["Version", state.version], ["Running since", state.started_at && `${moment(state.started_at)} (${ago(state.started_at)})`],
        ["Devices", many(live.devices.size, "device")], ["Waiting requests", state.your_requests === undefined ? null : `yours: ${count(state.your_requests)}, others: ${count(state.other_requests)}`],
        ["REST", html`<a href="/docs">every route</a>`]]} /><//>
    ${LINES.map(([name, title, format]) => html`<${Section} title=${title} hint="the last ten minutes"><div class="cards">
      ${Object.entries(series[name] ?? {}).map(([label, values]) => html`<${Line} key=${label} label=${label} values=${values} format=${format} top=${format === percent ? 1 : null} />`)}</div><//>`)}`;
}
