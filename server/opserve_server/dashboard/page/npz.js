// NumPy's .npz files: a zip of .npy files, not compressed. Arrays have a dtype, a shape and numbers; BF16 travels as its bits.
const TYPES = {
  FLOAT: ["<f4", Float32Array], FLOAT16: ["<f2", Uint16Array], BF16: ["<u2", Uint16Array], DOUBLE: ["<f8", Float64Array],
  INT8: ["|i1", Int8Array], UINT8: ["|u1", Uint8Array], INT16: ["<i2", Int16Array], INT32: ["<i4", Int32Array], INT64: ["<i8", BigInt64Array],
};
const OTHER = { "<f4": Float32Array, "<f8": Float64Array, "<f2": Uint16Array, "<u2": Uint16Array, "|i1": Int8Array, "|u1": Uint8Array,
  "<i2": Int16Array, "<i4": Int32Array, "<i8": BigInt64Array };
const LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50, MAGIC = "\x93NUMPY\x01\x00";
const scratch = new DataView(new ArrayBuffer(8));

export const DTYPES = Object.keys(TYPES);

/** Bits of a float in 16 bits with some exponent and mantissa bits, rounded to nearest even. */
function bits16(number, exponentBits) {
  scratch.setFloat64(0, number);
  const sign = scratch.getUint8(0) >> 7 << 15, mantissaBits = 15 - exponentBits, bias = 2 ** (exponentBits - 1) - 1;
  const size = Math.abs(number), top = (2 ** exponentBits - 1) << mantissaBits;
  if (Number.isNaN(number)) return sign | top | 1 << (mantissaBits - 1);
  if (size === 0) return sign;
  const exponent = Math.max(Math.floor(Math.log2(size)), 1 - bias);
  const steps = size / 2 ** (exponent - mantissaBits), whole = Math.floor(steps), rest = steps - whole;
  const even = rest > 0.5 || (rest === 0.5 && whole % 2) ? whole + 1 : whole;
  return sign | Math.min(even + ((exponent + bias - 1) << mantissaBits), top);
}

function from16(bits, exponentBits) {
  const mantissaBits = 15 - exponentBits, bias = 2 ** (exponentBits - 1) - 1;
  const exponent = (bits & 0x7fff) >> mantissaBits, fraction = (bits & (1 << mantissaBits) - 1) / 2 ** mantissaBits;
  const size = exponent === 2 ** exponentBits - 1 ? (fraction ? NaN : Infinity) : exponent ? (1 + fraction) * 2 ** (exponent - bias) : fraction * 2 ** (1 - bias);
  return bits >> 15 ? -size : size;
}

function encoded(dtype, numbers) {
  const [, Kind] = TYPES[dtype];
  if (dtype === "FLOAT16") return Kind.from(numbers, (number) => bits16(number, 5));
  if (dtype === "BF16") return Kind.from(numbers, (number) => bits16(number, 8));
  return dtype === "INT64" ? Kind.from(numbers, (number) => BigInt(Math.trunc(number))) : Kind.from(numbers);
}

const crcs = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? byte >>> 1 ^ 0xedb88320 : byte >>> 1;
  return byte;
});
const crc32 = (data) => (data.reduce((held, byte) => held >>> 8 ^ crcs[(held ^ byte) & 255], -1) ^ -1) >>> 0;

function npy({ dtype, shape, numbers }) {
  const text = `{'descr': '${TYPES[dtype][0]}', 'fortran_order': False, 'shape': (${shape.join(", ")}${shape.length === 1 ? "," : ""}), }`;
  const length = Math.ceil((MAGIC.length + 2 + text.length + 1) / 64) * 64;
  const header = `${MAGIC}\0\0${text.padEnd(length - MAGIC.length - 3)}\n`;
  const data = new Uint8Array(encoded(dtype, numbers).buffer);
  const file = new Uint8Array(length + data.length);
  file.set(Uint8Array.from(header, (letter) => letter.charCodeAt(0)));
  new DataView(file.buffer).setUint16(MAGIC.length, length - MAGIC.length - 2, true);
  file.set(data, length);
  return file;
}

/** An .npz file of arrays by name. */
export function writeNpz(arrays) {
  const parts = [], directory = [];
  let offset = 0;
  for (const [name, array] of Object.entries(arrays)) {
    const file = npy(array), path = new TextEncoder().encode(`${name}.npy`), crc = crc32(file);
    const entry = (magic, fixed) => {
      const head = new DataView(new ArrayBuffer(fixed)), at = magic === LOCAL ? 4 : 6;
      head.setUint32(0, magic, true);
      if (magic === CENTRAL) head.setUint16(4, 20, true);
      head.setUint16(at, 20, true);
      head.setUint16(at + 8, 0x21, true); // 1980-01-01
      head.setUint32(at + 10, crc, true);
      head.setUint32(at + 14, file.length, true);
      head.setUint32(at + 18, file.length, true);
      head.setUint16(at + 22, path.length, true);
      if (magic === CENTRAL) head.setUint32(42, offset, true);
      return [head, path];
    };
    parts.push(...entry(LOCAL, 30), file);
    directory.push(...entry(CENTRAL, 46));
    offset += 30 + path.length + file.length;
  }
  const size = directory.reduce((sum, part) => sum + part.byteLength, 0), end = new DataView(new ArrayBuffer(22)), files = Object.keys(arrays).length;
  end.setUint32(0, END, true);
  end.setUint16(8, files, true);
  end.setUint16(10, files, true);
  end.setUint32(12, size, true);
  end.setUint32(16, offset, true);
  return new Blob([...parts, ...directory, end]);
}

/** The arrays of an .npz file that is not compressed; `dtypes` names those of the outputs. */
export function readNpz(buffer, dtypes = {}) {
  const view = new DataView(buffer), arrays = {}, texts = new TextDecoder("latin1");
  let end = buffer.byteLength - 22;
  while (view.getUint32(end, true) !== END) end--;
  for (let at = view.getUint32(end + 16, true), left = view.getUint16(end + 10, true); left > 0; left--) {
    const length = view.getUint16(at + 28, true), extra = view.getUint16(at + 30, true), local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(new Uint8Array(buffer, at + 46, length)).replace(/\.npy$/, "");
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    const header = view.getUint16(start + 8, true), text = texts.decode(new Uint8Array(buffer, start + 10, header));
    const [, descr] = text.match(/'descr': '([^']+)'/), shape = (text.match(/'shape': \(([^)]*)\)/)[1].match(/\d+/g) ?? []).map(Number);
    const Kind = OTHER[descr], elements = shape.reduce((product, size) => product * size, 1), first = start + 10 + header;
    const held = new Kind(buffer.slice(first, first + elements * Kind.BYTES_PER_ELEMENT));
    const dtype = dtypes[name] ?? Object.keys(TYPES).find((known) => TYPES[known][0] === descr);
    const numbers = dtype === "BF16" ? Float64Array.from(held, (bits) => from16(bits, 8)) : dtype === "FLOAT16" ? Float64Array.from(held, (bits) => from16(bits, 5)) : Float64Array.from(held, Number);
    arrays[name] = { dtype, shape, numbers };
    at += 46 + length + extra + view.getUint16(at + 32, true);
  }
  return arrays;
}
