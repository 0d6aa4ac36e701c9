// Who uses how much? For administrators: use against quota, refusals, device seconds by day, audit.
import { html } from "./vendor/htm-preact.js";
import { get, useLoad } from "./data.js";
import { bytes, count, moment, percent, rate, seconds } from "./format.js";
import { Badge, Bar, Empty, Failure, Section, Table } from "./parts.js";

const WORDS = { device_memory_bytes: "Device memory", bytes_in_flight: "Bytes in flight", calls_per_s: "Call rate", device_seconds_per_day: "Device time today",
  queued_entries: "Queued entries" };
const FORMATS = { device_memory_bytes: bytes, bytes_in_flight: bytes, calls_per_s: rate, device_seconds_per_day: seconds };
const AUDIT_ROWS = 50;

export function Tenants({ live }) {
  const { scopes = [] } = live.service.get("state") ?? {}, usage = live.service.get("usage");
  if (scopes.includes("admin")) return html`<${All} />`;
  return html`${usage && html`<${Section} title="Your tenant: ${usage.tenant}"><${Uses} label="Your use" uses=${usage.uses} /><//>`}
    <${Section} title="All tenants"><${Empty}>Only administrators see other tenants: use a key with the scope admin.<//><//>`;
}

function All() {
  const activity = useLoad(() => get("/v1/admin/activity"), []);
  if (!activity.value) return html`<${Section} title="All tenants">${activity.problem ? html`<${Failure} problem=${activity.problem} />` : html`<${Empty}>Reading the tenants …<//>`}<//>`;
  return html`<${Section} title="All tenants" hint="read at ${moment(activity.value.at)}"><p><button type="button" onClick=${activity.again}>Read again</button>
      <span class="hint"> The audit records each reading.</span></p>
    <${Overview} tenants=${activity.value.tenants} />
    ${activity.value.tenants.map((one) => html`<details key=${one.tenant}><summary>All resources of ${one.tenant}</summary>
      <${Uses} label="Use of ${one.tenant}" uses=${one.uses} /></details>`)}<//>
    <${Days} /><${Audit} />`;
}

/** A row for each tenant, the one with most device time of today first. */
function Overview({ tenants }) {
  const useOf = (one, name) => one.uses.find(({ resource }) => resource === name) ?? { use: 0, limit: null };
  const timeOf = (one) => useOf(one, "device_seconds_per_day").use;
  const ordered = tenants.toSorted((one, other) => timeOf(other) - timeOf(one)), most = Math.max(timeOf(ordered[0]), 1e-9);
  const ofLimit = (one, name) => {
    const { use, limit } = useOf(one, name), format = FORMATS[name] ?? count;
    return limit === null ? format(use) : `${format(use)} of ${format(limit)}`;
  };
  return html`<${Table} label="Use by tenant" numbers=${[2, 3, 4, 5, 6]} titles=${["Tenant", "", "Device time today", "Sessions", "Device memory", "Calls since the start", "Calls refused", "Weight"]}
    rows=${ordered.map((one) => ({ id: one.tenant, cells: [
      html`<b>${one.tenant}</b>`, html`<${Bar} share=${timeOf(one) / most} label="${percent(timeOf(one) / most)} of the greatest" />`, ofLimit(one, "device_seconds_per_day"), ofLimit(one, "sessions"), ofLimit(one, "device_memory_bytes"),
      count(one.calls), count(one.uses.reduce((sum, { refusals }) => sum + refusals, 0)), count(one.weight)] }))} />`;
}

function Uses({ label, uses }) {
  const rows = uses.map(({ resource, limit, use, refusals }) => {
    const format = FORMATS[resource] ?? count;
    const share = limit ? use / limit : 0;
    return { id: resource, cells: [
      WORDS[resource] ?? `${resource[0].toUpperCase()}${resource.slice(1).replaceAll("_", " ")}`, format(use), limit === null ? "none" : format(limit),
      limit === null ? "" : html`<${Bar} share=${share} label="${percent(share)} of the limit" kind=${share >= 0.9 ? "bad" : ""} /> ${percent(share)}`,
      refusals ? html`<b>${count(refusals)}</b>` : "0",
    ] };
  });
  return html`<${Table} label=${label} numbers=${[1, 2, 4]} titles=${["Resource", "In use", "Limit", "Share", "Calls refused"]} rows=${rows} />`;
}

function Days() {
  const { value, problem } = useLoad(() => get("/v1/admin/usage"), []);
  if (!value) return html`<${Section} title="Device time by day">${problem ? html`<${Failure} problem=${problem} />` : html`<${Empty}>Reading the days …<//>`}<//>`;
  const rows = value.rows.toSorted((one, other) => other.day.localeCompare(one.day) || other.device_s - one.device_s);
  const most = Math.max(...rows.map((row) => row.device_s), 1e-9);
  return html`<${Section} title="Device time by day" hint="days in UTC">${rows.length ? html`<${Table} label="Device time by day" numbers=${[3, 5]}
    titles=${["Day", "Tenant", "Profile", "Device time", "", "Calls"]} rows=${rows.map((row) => ({ id: `${row.day} ${row.tenant} ${row.profile}`, cells: [
      row.day, row.tenant, row.profile, seconds(row.device_s), html`<${Bar} share=${row.device_s / most} label="${percent(row.device_s / most)} of the greatest" />`, count(row.calls)] }))} />`
    : html`<${Empty}>No device time is recorded yet. It appears after the first calls.<//>`}<//>`;
}

function Audit() {
  const { value, problem } = useLoad(() => get("/v1/admin/audit", { limit: AUDIT_ROWS }), []);
  if (!value) return html`<${Section} title="Audit">${problem ? html`<${Failure} problem=${problem} />` : html`<${Empty}>Reading the audit …<//>`}<//>`;
  return html`<${Section} title="Audit" hint="the newest ${count(AUDIT_ROWS)} entries; all of them: opserve audit">
    <${Table} label="Audit" titles=${["When", "Outcome", "Call", "Over", "Caller", "Reason", "Calls"]} rows=${value.entries.map((entry, place) => ({ id: place, cells: [
      moment(entry.at), html`<${Badge} kind=${entry.outcome === "OK" ? "good" : "bad"}>${entry.outcome}<//>`, entry.method, entry.face, [entry.tenant, entry.principal].filter(Boolean).join(" / ") || "unknown",
      [entry.reason, entry.detail].filter(Boolean).join("; "), count(entry.count)] }))} /><//>`;
}
