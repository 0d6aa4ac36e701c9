// Numbers as texts, each with its unit.

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];
const LONG = [[86400, "d"], [3600, "h"], [60, "min"]];
const SHORT = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

export const count = (number) => plain.format(number);

/** Three digits. */
export function short(number) {
  return Math.abs(number) >= 100 || Number.isInteger(number) ? plain.format(number) : String(Number(number.toPrecision(3)));
}

/** "2 sessions", "1 session". */
export const many = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export function bytes(number) {
  const power = number < 1024 ? 0 : Math.min(BYTES.length - 1, Math.floor(Math.log2(number) / 10));
  return `${short(number / 1024 ** power)} ${BYTES[power]}`;
}

export function seconds(number) {
  const [size, unit] = LONG.find(([least]) => number >= 2 * least) ?? SHORT.find(([least]) => number >= least) ?? SHORT.at(-1);
  return number === 0 ? "0 s" : `${short(size >= 60 ? Math.floor(number / size) : number / size)} ${unit}`;
}

export const percent = (share) => `${share > 0 && share < 0.01 ? "< 1" : Math.round(100 * share)} %`;

export const rate = (number) => `${short(number)} /s`;

/** A moment, seconds since 1970, in the reader's time zone. */
export const moment = (since) => new Date(1000 * since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

export const ago = (since) => `${seconds(Math.max(0, Math.floor(Date.now() / 1000 - since)))} ago`;
