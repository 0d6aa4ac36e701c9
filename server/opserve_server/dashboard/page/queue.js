// Where am I in the queue, and for how long?
import { html } from "./vendor/htm-preact.js";
import { post } from "./data.js";
import { count, many, seconds } from "./format.js";
import { Badge, Confirm, Empty, Section, Table, useSecond } from "./parts.js";

const TITLES = ["Place", "Asked for", "Priority", "Waited", "Times out in", "Waits for", "Tenant", "Request", ""];

export function Queue({ live }) {
  const now = useSecond(), tenant = live.service.get("usage")?.tenant;
  const requests = [...live.waiting.values()].toSorted((one, other) => one.position - other.position || other.waited_s - one.waited_s);
  if (!requests.length) {
    return html`<${Section} title="Queue"><${Empty}>None of your requests waits for a device.
      A request waits when no device can take one more session: <code>client.open_session("ascend910b", wait_s=600)</code>.<//><//>`;
  }
  return html`<${Section} title="Queue" hint=${many(requests.length, "request")}>
    <${Table} label="Waiting requests" titles=${TITLES} numbers=${[2, 3, 4]} rows=${requests.map((request) => rowOf(request, now, request.tenant === tenant))} /><//>`;
}

function rowOf(request, now, own) {
  const passed = (now - request.read) / 1000;
  const terms = [request.profile, request.tags.length ? `tags ${request.tags.join(", ")}` : "", request.exclusive ? "exclusive" : ""];
  const ahead = request.position - 1;
  return {
    id: request.id,
    cells: [
      html`<b>${count(request.position)}</b> <${Badge} kind=${ahead ? "warn" : "good"}>${ahead ? `${count(ahead)} ahead` : "next"}<//>`,
      terms.filter(Boolean).join(", "), count(request.priority), seconds(request.waited_s + passed),
      seconds(Math.max(0, request.left_s - passed)), request.waits_for, request.tenant, html`<code>${request.request_id || request.id}</code>`,
      own && html`<${Confirm} label="Cancel" question="Cancel the request?"
        act=${() => post("/v1/waiting:cancel", { id: request.id })} />`,
    ],
  };
}
