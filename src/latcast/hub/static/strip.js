// Takes the weights out of a model file before it is sent: latency depends on shapes. What is no model comes back as it is, for
// the server to say what it is.

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

// onnx.proto: numbers of fields.
const MODEL_GRAPH = 7;
const MODEL_FUNCTION = 25;
const MODEL_DROPPED = new Set([2, 3, 6, 14, 20]); // producer, documentation, metadata, training
const FUNCTION_NODE = 7;
const GRAPH_NODE = 1;
const GRAPH_TENSOR = 5;
const GRAPH_DROPPED = new Set([10, 13, 14, 16]); // documentation, recorded shapes, annotations, metadata
const NODE_ATTRIBUTE = 5;
const NODE_DROPPED = new Set([6, 9]); // documentation, metadata
const ATTRIBUTE_TENSORS = new Set([5, 10]);
const ATTRIBUTE_GRAPHS = new Set([6, 11]);
const TENSOR_TYPE = 2;
const TENSOR_KEPT = new Set([1, 2, 8, 13, 14]); // sizes, type, name, where external data lies
const INTEGERS = new Set([2, 3, 4, 5, 6, 7, 9, 12, 13]);

const KEPT_INTEGER_BYTES = 16384; // sizes, axes, indices
const KEPT_BYTES = 256; // scales of a resize, limits of a clip, padding's value

class Damaged extends Error {}

function varint(data, at) {
  let value = 0;
  for (let factor = 1; ; factor *= 128) {
    if (at >= data.length || factor > 2 ** 63) throw new Damaged();
    const byte = data[at];
    at += 1;
    value += (byte & 127) * factor;
    if (byte < 128) return [value, at];
  }
}

// [number, where the field begins, where its content begins, where it ends, kind]
function* fields(data, at, end) {
  while (at < end) {
    const start = at;
    let key;
    [key, at] = varint(data, at);
    const kind = key % 8;
    let size;
    if (kind === BYTES) [size, at] = varint(data, at);
    else if (kind === VARINT) size = varint(data, at)[1] - at;
    else if (kind === FIXED32) size = 4;
    else if (kind === FIXED64) size = 8;
    else throw new Damaged();
    if (at + size > end) throw new Damaged();
    yield [Math.floor(key / 8), start, at, at + size, kind];
    at += size;
  }
}

function encoded(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  bytes.push(value);
  return bytes;
}

const length = (parts) => parts.reduce((sum, part) => sum + part.length, 0);
const message = (number, parts) => [Uint8Array.from([...encoded(number * 8 + BYTES), ...encoded(length(parts))]), ...parts];

function joined(parts) {
  const found = new Uint8Array(length(parts));
  let at = 0;
  for (const part of parts) {
    found.set(part, at);
    at += part.length;
  }
  return found;
}

// The parts of a message, some fields changed: `change` gives the parts that take a field's place, or null for the field as it is.
function rewritten(data, at, end, change) {
  const parts = [];
  for (const [number, start, body, stop, kind] of fields(data, at, end)) {
    parts.push(...(change(number, body, stop, kind) ?? [data.subarray(start, stop)]));
  }
  return parts;
}

function tensor(data, at, end) {
  let type = 0;
  for (const [number, , body, , kind] of fields(data, at, end)) if (number === TENSOR_TYPE && kind === VARINT) [type] = varint(data, body);
  if (end - at <= (INTEGERS.has(type) ? KEPT_INTEGER_BYTES : KEPT_BYTES)) return [data.subarray(at, end)];
  return rewritten(data, at, end, (number) => (TENSOR_KEPT.has(number) ? null : []));
}

const attribute = (data, at, end) =>
  rewritten(data, at, end, (number, body, stop, kind) => {
    if (kind !== BYTES) return null;
    if (ATTRIBUTE_TENSORS.has(number)) return message(number, tensor(data, body, stop));
    return ATTRIBUTE_GRAPHS.has(number) ? message(number, graph(data, body, stop)) : null;
  });

const node = (data, at, end) =>
  rewritten(data, at, end, (number, body, stop, kind) => {
    if (NODE_DROPPED.has(number)) return [];
    return number === NODE_ATTRIBUTE && kind === BYTES ? message(number, attribute(data, body, stop)) : null;
  });

const graph = (data, at, end) =>
  rewritten(data, at, end, (number, body, stop, kind) => {
    if (GRAPH_DROPPED.has(number)) return [];
    if (kind !== BYTES) return null;
    if (number === GRAPH_NODE) return message(number, node(data, body, stop));
    return number === GRAPH_TENSOR ? message(number, tensor(data, body, stop)) : null;
  });

const definition = (data, at, end) =>
  rewritten(data, at, end, (number, body, stop, kind) =>
    number === FUNCTION_NODE && kind === BYTES ? message(number, node(data, body, stop)) : null,
  );

function strippedOnnx(data) {
  const parts = rewritten(data, 0, data.length, (number, body, stop, kind) => {
    if (MODEL_DROPPED.has(number)) return [];
    if (kind !== BYTES) return null;
    if (number === MODEL_GRAPH) return message(number, graph(data, body, stop));
    return number === MODEL_FUNCTION ? message(number, definition(data, body, stop)) : null;
  });
  return joined(parts);
}

// schema.fbs: the buffers of a model are its fourth field, the data of a buffer its first. Weights become zeros, which pack to
// nothing: a file whose parts point at each other cannot be cut.
const MODEL_BUFFERS = 4;
const BUFFER_DATA = 0;
const KEPT_BUFFER_BYTES = 1024;

function zeroedTflite(data) {
  const copy = data.slice();
  const view = new DataView(copy.buffer);
  const field = (table, index) => {
    const entries = table - view.getInt32(table, true);
    const at = 4 + 2 * index;
    const offset = at < view.getUint16(entries, true) ? view.getUint16(entries + at, true) : 0;
    return offset ? table + offset : 0;
  };
  const follow = (at) => at + view.getUint32(at, true);
  const buffers = field(view.getUint32(0, true), MODEL_BUFFERS);
  if (!buffers) throw new Damaged();
  const list = follow(buffers);
  const count = view.getUint32(list, true);
  for (let index = 0; index < count; index += 1) {
    const found = field(follow(list + 4 + 4 * index), BUFFER_DATA);
    if (!found) continue;
    const bytes = follow(found);
    const size = view.getUint32(bytes, true);
    if (size > KEPT_BUFFER_BYTES) copy.fill(0, bytes + 4, bytes + 4 + size);
  }
  return copy;
}

export function stripped(data) {
  const tflite = data.length > 8 && String.fromCharCode(...data.subarray(4, 8)) === "TFL3";
  try {
    return tflite ? zeroedTflite(data) : strippedOnnx(data);
  } catch (problem) {
    if (problem instanceof Damaged || problem instanceof RangeError) return data;
    throw problem;
  }
}
