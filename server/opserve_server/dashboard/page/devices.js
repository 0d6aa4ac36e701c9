// Is my device up, and which sessions have it? A card for each device.
import { html } from "./vendor/htm-preact.js";
import { useSeries } from "./data.js";
import { ago, bytes, count, many, moment, percent, rate } from "./format.js";
import { Badge, Bar, Empty, Facts, Line, Table } from "./parts.js";

export function Devices({ live }) {
  const series = useSeries(["device_busy_share", "device_calls_per_s"]);
  const devices = [...live.devices.values()];
  if (!devices.length) return html`<${Empty}>This service has no device. Start it with one: <code>opserve serve --device ascend910b</code>.<//>`;
  const down = devices.filter((device) => !device.ready).length;
  return html`<section><h2>Devices</h2><p>${down ? html`<b class="bad">${count(down)} of ${many(devices.length, "device")} not ready.</b>`
    : `${devices.length === 1 ? "The device is" : `All ${count(devices.length)} devices are`} ready.`}</p></section>
    <div class="cards">${devices.map((device) => html`<${Device} key=${device.name} device=${device} live=${live} series=${series} />`)}</div>`;
}

/** "yours: 1 session, 2 other sessions", or "free". */
function holders({ your_sessions: yours, other_sessions: others, ...device }) {
  const parts = [yours ? `yours: ${many(yours, "session")}` : "", others ? many(others, "other session") : ""].filter(Boolean);
  return `${parts.join(", ") || "free"}${device.exclusive ? ", exclusive" : ""}`;
}

function requests({ your_requests: yours, other_requests: others }) {
  if (!yours) return others ? many(others, "other request") : "none";
  return html`<a href="#/queue">yours: ${many(yours, "request")}</a>${others ? `, ${many(others, "other request")}` : ""}`;
}

function Device({ device, live, series }) {
  const sessions = [...live.sessions.values()].filter((session) => session.device === device.name);
  const used = device.memory_bytes - device.free_memory_bytes;
  const busy = series.device_busy_share?.[device.name] ?? [], calls = series.device_calls_per_s?.[device.name] ?? [];
  return html`<article class="card ${device.ready ? "" : "bad"}" aria-label=${device.name}>
    <h2>${device.name} <${Badge} kind=${device.ready ? "good" : "bad"}>${device.ready ? "Ready" : "Not ready"}<//></h2>
    <p>${device.products || device.profile}</p>
    <${Facts} of=${[
      [device.ready ? "Ready since" : "Not ready since", `${moment(device.since)} (${ago(device.since)})`],
      ["Sessions", holders(device)],
      ["Requests that wait", requests(device)],
      ["Queued entries", count(device.queued_entries)],
      ["Worker restarts", count(device.restarts)],
      ["Memory", `${bytes(used)} of ${bytes(device.memory_bytes)} used`],
    ]} />
    <${Bar} share=${used / device.memory_bytes} label="Memory: ${percent(used / device.memory_bytes)} used" />
    <div class="lines"><${Line} label="Busy" values=${busy} format=${percent} top=${1} />
      <${Line} label="Calls" values=${calls} format=${rate} /></div>
    <details><summary>Details</summary>
      <${Facts} of=${[["Profile", device.profile], ["Tags", device.tags.join(", ") || "none"],
        ["Kernel variant", device.kernel_variant || "float64 reference"], ["Operators", device.operators.join(", ")]]} />
      ${sessions.length > 0 && html`<${Table} label="Your sessions on ${device.name}" titles=${["Session", "Memory", "Work"]}
        rows=${sessions.map((one) => ({ id: one.id, cells: [html`<a href="#/sessions/${one.id}">${one.id}</a>`, bytes(one.memory_bytes), one.working ? "working" : "idle"] }))} />`}
    </details></article>`;
}
