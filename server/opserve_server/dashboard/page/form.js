// The arguments of an operator as a form: made from its parameters, read into the `arguments` of a one-shot call.
import { html } from "./vendor/htm-preact.js";
import { DTYPES } from "./npz.js";

export const FILLS = { random: "random, -1 to 1", integers: "random integers, -2 to 2", counting: "0, 1, 2, …", ones: "ones", zeros: "zeros", pasted: "pasted numbers" };
const ELEMENTS = 2 ** 22;
const FORMATS = ["", "ND", "NCL", "NCHW", "NHWC", "NCDHW", "NDHWC", "NC1HWC0", "FRACTAL_Z"];

/** The fields of a case's definition: texts by the path of an argument, tensors as objects. An absent path is a null pointer. */
export function fieldsOf(definition) {
  const fields = {};
  const put = (value, path) => {
    if (value === null) return;
    if (Array.isArray(value)) fields[path] = value.join(", ");
    else if (typeof value === "object") for (const [name, held] of Object.entries(value)) put(held, `${path}.${name}`);
    else fields[path] = String(value);
  };
  for (const [name, value] of Object.entries(definition.arguments)) put(value, name);
  for (const [name, tensor] of Object.entries(definition.tensors)) {
    if (tensor.fill) fields[name] = { shape: tensor.shape.join(", "), dtype: tensor.dtype, format: tensor.format ?? "", fill: "integers", text: "" };
  }
  return fields;
}

const numbersIn = (text) => text.split(/[\s,;[\]()]+/).filter(Boolean).map(Number);

function valueOf(kind, text) {
  switch (kind) {
    case "integers": return numbersIn(text);
    case "booleans": return text.split(/[\s,]+/).filter(Boolean).map((word) => word === "true");
    case "integer": return Number(text);
    case "boolean": return text === "true";
    default: return text;
  }
}

/** Arguments and arrays of a call; raises Error with a sentence for numbers that do not fit. */
export function callFrom(parameters, fields) {
  const arrays = {};
  const read = (list, prefix) => Object.fromEntries(list.flatMap((parameter) => {
    const path = prefix + parameter.name, field = fields[path];
    if (parameter.kind === "members") {
      const held = read(parameter.members, `${path}.`);
      return Object.keys(held).length ? [[parameter.name, held]] : [];
    }
    if (parameter.written || field === undefined || field === "" || field.shape === "") return [];
    if (parameter.kind !== "tensor") return [[parameter.name, valueOf(parameter.kind, field)]];
    arrays[parameter.name] = arrayOf(parameter.name, field);
    return [[parameter.name, { array: parameter.name, dtype: field.dtype, ...(field.format && { format: field.format }) }]];
  }));
  return { arguments: read(parameters, ""), arrays };
}

function arrayOf(name, { shape: text, dtype, fill, text: pasted }) {
  const shape = numbersIn(text), elements = shape.reduce((product, size) => product * size, 1);
  if (!(elements >= 0 && elements <= ELEMENTS)) throw new Error(`${name} has the shape ${text}: give sizes whose product is at most ${ELEMENTS}.`);
  if (fill === "pasted") {
    const numbers = numbersIn(pasted);
    if (numbers.length !== elements) throw new Error(`${name} has ${numbers.length} pasted numbers: its shape needs ${elements}.`);
    return { dtype, shape, numbers };
  }
  let state = 1; // a small generator, so that the same form gives the same numbers
  const random = () => { state = Math.imul(state, 1664525) + 1013904223 >>> 0; return state / 2 ** 32; };
  const makers = { random: () => 2 * random() - 1, integers: () => Math.floor(5 * random()) - 2, counting: (place) => place, ones: () => 1, zeros: () => 0 };
  return { dtype, shape, numbers: Array.from({ length: elements }, (_, place) => makers[fill](place)) };
}

/** The fields of parameters; `set(path, value)` changes one. */
export function Fields({ parameters, fields, set, prefix = "" }) {
  return parameters.filter((parameter) => !parameter.written).map((parameter) => {
    const path = prefix + parameter.name;
    if (parameter.kind === "members") {
      return html`<fieldset key=${path}><legend>${parameter.name}</legend><p class="hint">${parameter.description}</p>
        <div class="fields"><${Fields} parameters=${parameter.members} fields=${fields} set=${set} prefix="${path}." /></div></fieldset>`;
    }
    if (parameter.kind === "tensor") return html`<${Tensor} key=${path} parameter=${parameter} field=${fields[path]} set=${(value) => set(path, value)} />`;
    return html`<label key=${path} title=${parameter.description}>${parameter.name}: ${parameter.kind}
      <${Value} kind=${parameter.kind} value=${fields[path] ?? ""} set=${(value) => set(path, value)} /></label>`;
  });
}

function Value({ kind, value, set }) {
  if (kind === "boolean") {
    return html`<select value=${value} onChange=${(event) => set(event.target.value)}><option value="">absent</option><option value="true">true</option><option value="false">false</option></select>`;
  }
  return html`<input value=${value} placeholder="absent" spellcheck="false" onInput=${(event) => set(event.target.value)} />`;
}

function Tensor({ parameter, field, set }) {
  const held = field ?? { shape: "", dtype: "FLOAT", format: "", fill: "random", text: "" };
  const part = (name) => (event) => set({ ...held, [name]: event.target.value });
  const choice = (name, options, texts = options) => html`<label>${name}<select value=${held[name]} onChange=${part(name)}>
    ${options.map((option, place) => html`<option value=${option}>${texts[place] || "by its rank"}</option>`)}</select></label>`;
  return html`<fieldset><legend>${parameter.name}: tensor</legend><p class="hint">${parameter.description}</p>
    <div class="row"><label>shape <input value=${held.shape} placeholder="absent" spellcheck="false" onInput=${part("shape")} /></label>
    ${choice("dtype", DTYPES)}${choice("format", FORMATS)}${choice("fill", Object.keys(FILLS), Object.values(FILLS))}</div>
    ${held.fill === "pasted" && html`<label>Numbers, row by row <textarea rows="4" value=${held.text} onInput=${part("text")}></textarea></label>`}</fieldset>`;
}
