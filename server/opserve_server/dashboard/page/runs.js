// Why did my run fail, and what changed since yesterday? Runs, their cases beside those of earlier runs, and one case.
import { html, useState } from "./vendor/htm-preact.js";
import { get, getAll, post, useLoad } from "./data.js";
import { ago, count, many, moment, percent } from "./format.js";
import { Badge, Bar, Confirm, Empty, Facts, Failure, Foreign, Section, Table } from "./parts.js";
import { callOf, verdictParts } from "./shared/case.js";
import { SIGNS } from "./shared/elements.js";

const COLUMNS = 8; // runs in the grid
const CASES = 20000;
const INFINITE = 1e9; // how the history keeps an infinite share
const STATES = { RUNNING: "", ENDED: "good", CANCELLED: "warn", FAILED: "bad", INTERRUPTED: "warn" };
const RIGHT = new Set(["PASSED", "UNIMPLEMENTED", "SKIPPED"]);

export function Runs({ live, rest: [id, caseId] }) {
  const runs = [...live.runs.values()].toSorted((one, other) => other.created_at - one.created_at);
  const run = live.runs.get(id);
  if (!runs.length) {
    return html`<${Section} title="Runs"><${Empty}>The history of your tenant has no run yet. Run a suite on this service:
      <code>client.conformance.run_suite("smoke", target="devices")</code>.<//><//>`;
  }
  return html`<${Section} title="Runs" hint=${many(runs.length, "run")}><${Table} label="Runs" rows=${runs.map((one) => rowOf(one, one.id === id))}
      titles=${["Run", "State", "Results", "Begun", "Suite", "Target", "Progress", ""]} /><//>
    ${run && html`<${Grid} key=${run.id} run=${run} earlier=${runs.filter((one) => one.suite === run.suite && one.target === run.target && one.created_at < run.created_at)} caseId=${caseId} />`}`;
}

function rowOf(run, chosen) {
  const running = run.state === "RUNNING";
  return {
    id: run.id, mark: chosen ? "chosen" : "",
    cells: [
      html`<a href="#/runs/${run.id}"><code>${run.id}</code></a>`,
      html`<${Badge} kind=${STATES[run.state]}>${run.state}<//> ${run.reason}${running && run.stage ? ` ${run.stage.toLowerCase().replace("_", " ")}` : ""}`,
      html`<${Tallies} counts=${run.counts} />`, html`<span title=${moment(run.created_at)}>${ago(run.created_at)}</span>`,
      `${run.suite}, seed ${run.seed}`, run.target,
      html`<${Bar} share=${run.cases ? run.judged / run.cases : 0} label="Judged" />${count(run.judged)} of ${many(run.cases, "case")}`,
      running && html`<${Confirm} label="Cancel" question="Cancel the run?" act=${() => post(`/v1/conformance/runs/${run.id}:cancel`, {})} />`,
    ],
  };
}

const Tallies = ({ counts }) => html`<span class="tallies">${counts.map(({ status, cases }) => html`<span class="badge ${status}">${SIGNS[status]} ${count(cases)} ${status}</span>`)}</span>`;

/** Results of a run by case; those of a run that has ended are read once. */
const kept = new Map();
async function resultsOf(run) {
  if (kept.has(run.id)) return kept.get(run.id);
  const results = await getAll(`/v1/conformance/runs/${run.id}/results`, { limit: 1000 }, "results", CASES);
  const byCase = new Map(results.map((result) => [result.case, result]));
  if (run.state !== "RUNNING") kept.set(run.id, byCase);
  return byCase;
}

function Grid({ run, earlier, caseId }) {
  const [all, showAll] = useState(false);
  const [text, setText] = useState("");
  const shown = [run, ...earlier.slice(0, COLUMNS - 1)];
  const { value, problem } = useLoad(() => Promise.all(shown.map(resultsOf)), [run.id, run.state, run.judged]);
  if (!value) return html`<${Section} title="Cases">${problem ? html`<${Failure} problem=${problem} />` : html`<${Empty}>Reading the results …<//>`}<//>`;
  const [now, before] = value;
  const isNews = (id) => !RIGHT.has(now.get(id).status) || (before && before.get(id)?.status !== now.get(id).status);
  const cases = [...now.keys()].filter((id) => (all || isNews(id)) && id.includes(text));
  const rows = cases.map((id) => ({
    id, mark: id === caseId ? "chosen" : "",
    cells: [html`<a href="#/runs/${run.id}/${encodeURIComponent(id)}" title=${id}>${id}</a>`, ...value.map((results) => cellOf(results.get(id))),
      html`<div class="why">${now.get(id).reason}</div>`],
  }));
  const title = (one) => html`<a href="#/runs/${one.id}">${one.id.slice(0, 6)}</a><br /><small>${ago(one.created_at)}</small>`;
  return html`<${Compare} run=${run} />
    ${caseId && now.has(caseId) && html`<${Case} key=${caseId} run=${run} result=${now.get(caseId)} />`}
    <${Section} title="Cases of run ${run.id}" hint="beside earlier runs of ${run.suite} on ${run.target}">
      <div class="row"><label>Text <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="part of a case's id" /></label>
      <label class="tick"><input type="checkbox" checked=${all} onChange=${(event) => showAll(event.target.checked)} />All cases, also those that passed as before</label>
      <b>${count(cases.length)} of ${many(now.size, "case")}</b></div>
      ${rows.length ? html`<div class="grid-of-cases"><${Table} label="Cases by run" titles=${["Case", ...shown.map(title), "Reason"]} rows=${rows} /></div>`
        : html`<${Empty}>${now.size ? "No case failed or changed. Choose “All cases” to see those that passed." : "No case is judged yet."}<//>`}<//>`;
}

const cellOf = (result) => result ? html`<span class="badge ${result.status}">${SIGNS[result.status]} ${result.status}</span>` : html`<span class="none">not in it</span>`;

/** The run beside a baseline. */
function Compare({ run }) {
  const baselines = useLoad(() => get("/v1/conformance/baselines"), []);
  const [name, choose] = useState("");
  const found = useLoad(() => name && get("/v1/conformance/runs:compare", { before: name, now: run.id }), [name, run.id, run.judged]);
  const names = baselines.value?.baselines ?? [];
  return html`<${Section} title="Compared with a baseline">
    ${names.length ? html`<label>Baseline <select value=${name} onChange=${(event) => choose(event.target.value)}>
      <option value="">choose one</option>${names.map((one) => html`<option value=${one.name}>${one.name}</option>`)}</select></label>`
    : html`<${Empty}>No run has a name. Name one to compare others with it: <code>opserve conform baseline NAME ${run.id} --server ADDRESS</code>.<//>`}
    <${Failure} problem=${found.problem} />${name && found.value && html`<${Changes} found=${found.value} run=${run} />`}<//>`;
}

function Changes({ found, run }) {
  const listed = (ids, word, kind) => ids.map((id) => [id, html`<${Badge} kind=${kind}>${word}<//>`]);
  const drifts = found.drifts.map((one) => [one.case, html`<${Badge} kind="warn">Drift<//> ${percent(one.before)} of the tolerance before, ${percent(one.now)} now`]);
  const changes = [...listed(found.new_failures, "New failure", "bad"), ...listed(found.fixed, "Fixed", "good"), ...listed(found.newly_skipped, "Newly skipped", "warn"), ...drifts];
  return html`${!found.same_suite && html`<p><${Badge} kind="warn">Another suite<//> The baseline has other cases; those in both are compared.</p>`}
    ${found.missing > 0 && html`<p>${many(found.missing, "case")} of the baseline ${found.missing === 1 ? "is" : "are"} not in this run.</p>`}
    ${changes.length ? html`<${Table} label="Changes" titles=${["Case", "Change"]} rows=${changes.map(([id, change]) => ({
      id, cells: [html`<a href="#/runs/${run.id}/${encodeURIComponent(id)}">${id}</a>`, change] }))} />`
    : html`<${Empty}>Nothing changed: no case fails anew, is fixed or uses much more of its tolerance.<//>`}`;
}

/** A case as the conformance report shows it. */
function Case({ run, result }) {
  const given = useLoad(() => get(`/v1/conformance/suites/${encodeURIComponent(run.suite)}/cases/${encodeURIComponent(result.case)}`, { seed: run.seed }), [run.id, result.case]);
  const verdict = result.verdict ? JSON.parse(result.verdict) : null;
  return html`<section aria-label="Case ${result.case}"><h2><span class="badge ${result.status}">${SIGNS[result.status]} ${result.status}</span> ${result.case}
      ${" "}<a href="#/runs/${run.id}">close</a></h2>
    <p><b>${result.reason}</b></p>
    <${Facts} of=${[["Worst used part of the tolerance", result.worst < INFINITE ? percent(result.worst) : "∞"], ["Time of the call", `${result.seconds.toPrecision(3)} s`]]} />
    <div class="panes">${verdict ? html`<${Foreign} make=${() => verdictParts(verdict)} inputs=${[result]} />`
      : html`<${Empty}>The history keeps no details of a case that passed. <code>opserve conform repro --case ${result.case}</code> shows them.<//>`}
    ${given.value && html`<${Foreign} make=${() => callOf(given.value.definition)} inputs=${[given.value]} />`}</div></section>`;
}
