// Try an operator: a form from its parameters, one call, its outputs as heat maps, or the rule that it breaks.
import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { call, get, key, useLoad } from "./data.js";
import { count, many, seconds, short } from "./format.js";
import { callFrom, fieldsOf, Fields } from "./form.js";
import { readNpz, writeNpz } from "./npz.js";
import { Badge, Copyable, Empty, Facts, Failure, Foreign, Section, save } from "./parts.js";
import { heatMap, VALUES } from "./shared/maps.js";
import { cppText, curlText, pythonText } from "./snippets.js";

const EXAMPLES = 60;
const EDGE = 48, PANELS = 8;
const ORIGINS = { both: "the vendor's page and source", opserve: "opserve: the vendor's result would be undefined", page: "the vendor's page", source: "the vendor's source", contradicted: "the vendor's page, which its source contradicts" };

export function Explorer({ live, rest: [name] }) {
  const { value, problem } = useLoad(() => get("/v1/operators"), []);
  if (!value) return html`<${Section} title="Operators">${problem ? html`<${Failure} problem=${problem} />` : html`<${Empty}>Reading the operators …<//>`}<//>`;
  const operator = value.operators.find((one) => one.name === name) ?? value.operators[0];
  const change = (event) => { location.hash = `#/operators/${event.target.value}`; };
  const profiles = [...new Set([...live.devices.values()].map((device) => device.profile))].filter((profile) => operator.support.some((row) => row.profile === profile));
  return html`<${Section} title="Operators"><label>Operator <select value=${operator.name} onChange=${change}>
      ${value.operators.map((one) => html`<option value=${one.name}>${one.call}</option>`)}</select></label>
      ${!profiles.length && html`<${Empty}>No device of this service has ${operator.call}. Profiles that have it: ${operator.support.map((row) => row.profile).join(", ")}.<//>`}<//>
    ${profiles.length > 0 && html`<${Try} key=${operator.name} operator=${operator} profiles=${profiles} />`}`;
}

function Try({ operator, profiles }) {
  const cases = useLoad(() => get("/v1/conformance/suites/smoke/cases", { operator: operator.name, limit: EXAMPLES }), []);
  const [terms, setTerms] = useState({ profile: profiles[0], accuracy: "direct", documented_rules: "error" });
  const [fields, setFields] = useState({});
  const [ended, end] = useState(null);
  const examples = (cases.value?.cases ?? []).filter((one) => profiles.includes(one.profile));
  const [chosen, choose] = useState("");
  const example = chosen || (examples.find((one) => one.expect === "PASS") ?? examples[0])?.id;
  const loaded = useLoad(() => example && get(`/v1/conformance/suites/smoke/cases/${encodeURIComponent(example)}`), [example]);
  useEffect(() => {
    if (!loaded.value) return;
    const { definition } = loaded.value;
    setFields(fieldsOf(definition));
    setTerms((held) => ({ ...held, profile: definition.profile }));
  }, [loaded.value]);
  let made = null, unfit = null;
  try { made = callFrom(operator.parameters, fields); } catch (error) { unfit = error; }
  const args = made && { ...terms, arguments: made.arguments };
  const run = async () => {
    end({ running: true });
    const form = new FormData(), begun = performance.now();
    form.append("args", JSON.stringify(args));
    if (Object.keys(made.arrays).length) form.append("tensors", writeNpz(made.arrays), "in.npz");
    try {
      const answer = await call(`/v1/operators/${operator.call}:run`, { method: "POST", body: form });
      const outputs = readNpz(await answer.arrayBuffer(), JSON.parse(answer.headers.get("X-Opserve-Dtypes") ?? "{}"));
      end({ outputs, passed: (performance.now() - begun) / 1000, warnings: JSON.parse(answer.headers.get("X-Opserve-Warnings") ?? "[]") });
    } catch (problem) {
      end({ problem });
    }
  };
  const term = (name, options) => html`<label>${name.replace("_", " ")}<select value=${terms[name]} onChange=${(event) => setTerms({ ...terms, [name]: event.target.value })}>
    ${options.map((option) => html`<option value=${option}>${option}</option>`)}</select></label>`;
  return html`<${Section} title="The call">
      <div class="row">${examples.length > 0 && html`<label>begin with a case of smoke <select onChange=${(event) => choose(event.target.value)}>
        ${examples.map((one) => html`<option value=${one.id} selected=${one.id === example}>${one.profile}: ${one.tags.slice(0, 3).join(", ") || one.id} ${one.expect === "PASS" ? "" : `(${one.expect})`}</option>`)}</select></label>`}
      ${term("profile", profiles)}${term("accuracy", ["direct", "fast"])}${term("documented_rules", ["error", "warn"])}</div>
      <${Failure} problem=${cases.problem ?? loaded.problem} />
      <div class="fields"><${Fields} parameters=${operator.parameters} fields=${fields} set=${(path, value) => setFields((held) => ({ ...held, [path]: value }))} /></div>
      <p class="row"><button type="button" disabled=${!made || ended?.running} onClick=${run}>Run on ${terms.profile}</button>
      ${made && Object.keys(made.arrays).length > 0 && html`<button type="button" onClick=${async () => save("in.npz", "application/octet-stream", writeNpz(made.arrays))}>Download in.npz</button>`}</p>
      ${unfit && html`<${Failure} problem=${unfit} />`}<//>
    <div class="live" aria-live="polite">${ended?.running ? html`<${Empty}>The call runs …<//>` : ended?.problem ? html`<${Broken} operator=${operator} problem=${ended.problem} profile=${terms.profile} />`
      : ended?.outputs && html`<${Outputs} ended=${ended} operator=${operator} />`}</div>
    ${made && html`<${Texts} given=${{ operator, args, arrays: made.arrays, outputs: ended?.outputs, keyed: Boolean(key()) }} />`}`;
}

/** The rules of the error table that an answer can be of. */
function Broken({ operator, problem, profile }) {
  const rules = operator.errors.filter((rule) => rule.code === problem.code && rule.parameter === problem.parameter && (!rule.profiles.length || rule.profiles.includes(profile)));
  return html`<${Section} title="Rejected"><p><${Badge} kind="bad">${problem.code ?? ""} ${problem.reason ?? "Failed"}<//> ${problem.message}</p>
    <${Facts} of=${[["Argument", problem.parameter], ["Given", problem.given], ["Allowed", problem.allowed]]} />
    ${rules.length > 0 && html`<h3>${rules.length === 1 ? "The rule" : `One of ${many(rules.length, "rule")}`}</h3>
      ${rules.map((rule) => html`<div class="rule"><b>${rule.parameter}</b> ${rule.broken} <small>by ${ORIGINS[rule.origin]}</small>
        ${rule.sentence && html`<q lang="zh">${rule.sentence}</q>`}</div>`)}`}<//>`;
}

function Outputs({ ended, operator }) {
  return html`<${Section} title="Outputs" hint="after ${seconds(ended.passed)}, with the time of the network">
    ${ended.warnings.map((warning) => html`<p class="rule"><${Badge} kind="warn">${warning.name}<//> ${warning.parameter} has ${warning.given}, and the vendor's page allows ${warning.allowed}.
      ${warning.sentence && html`<q lang="zh">${warning.sentence}</q>`}</p>`)}
    ${Object.entries(ended.outputs).map(([name, output]) => html`<h3>${name}</h3>
      <div class="panes"><${Foreign} make=${() => heatMap(mapOf(output), VALUES)} inputs=${[output]} /></div>`)}
    ${!Object.keys(ended.outputs).length && html`<${Empty}>${operator.call} wrote no output: its mask selects none.<//>`}<//>`;
}

/** The first panels of an output, cut to a size that can be seen. */
function mapOf({ dtype, shape, numbers }) {
  const down = shape.at(-2) ?? 1, across = shape.at(-1) ?? 1;
  const panels = shape.slice(0, -2).reduce((product, size) => product * size, 1);
  const kept = [Math.min(panels, PANELS), Math.min(down, EDGE), Math.min(across, EDGE)];
  const values = [];
  for (let panel = 0; panel < kept[0]; panel++) {
    for (let row = 0; row < kept[1]; row++) {
      for (let column = 0; column < kept[2]; column++) values.push(numbers[(panel * down + row) * across + column]);
    }
  }
  const most = numbers.reduce((one, other) => Number.isFinite(other) ? Math.max(one, Math.abs(other)) : one, 0);
  const least = numbers.reduce((one, other) => Math.min(one, other), Infinity), greatest = numbers.reduce((one, other) => Math.max(one, other), -Infinity);
  const whole = values.length === numbers.length ? "" : `, the first ${count(values.length)} of them are shown`;
  const form = kept[0] > 1 ? kept : kept.slice(1);
  return {
    title: `${dtype}, ${shape.join(" × ") || "scalar"}`, values, most, shape: form, sizes: form, steps: form.map(() => 1), axes: ["plane", "row", "column"].slice(-form.length),
    summary: numbers.length ? `${many(numbers.length, "number")} from ${short(least)} to ${short(greatest)}${whole}; blue is positive, orange negative` : "no elements",
  };
}

function Texts({ given }) {
  const [chosen, choose] = useState("curl");
  const texts = { curl: curlText, Python: pythonText, "C++": cppText };
  return html`<${Section} title="The same call as text"><div class="row" role="group" aria-label="Language">
    ${Object.keys(texts).map((name) => html`<button type="button" class="tile" aria-pressed=${String(name === chosen)} onClick=${() => choose(name)}>${name}</button>`)}</div>
    <${Copyable} id="call-text" text=${texts[chosen](given)} />
    <p class="hint">in.npz has the tensors of the form; download it above.</p><//>`;
}
