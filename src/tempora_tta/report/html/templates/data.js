// The run, as the page holds it: names once, cells as columns, the batches of every offline pass.

const ARRAYS = { Uint8: Uint8Array, Uint16: Uint16Array, Uint32: Uint32Array, Int32: Int32Array, Float32: Float32Array, Float64: Float64Array };

// Loops, because `from` with a function takes ten times as long, and a page may hold millions of numbers.
function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  return bytes;
}

function numbers(count, at) {
  const values = new Float64Array(count);
  for (let place = 0; place < count; place++) values[place] = at(place);
  return values;
}

function unpack({ type, data, per }) {
  const values = new ARRAYS[type](bytesOf(data).buffer);
  return per ? numbers(values.length, (place) => values[place] / per) : values;
}

function unpackWords({ words, index }) {
  return Array.from(unpack(index), (place) => words[place]);
}

function unpackAll(packed) {
  return Object.fromEntries(Object.entries(packed).map(([name, value]) =>
    [name, value && value.words ? unpackWords(value) : value && value.data !== undefined ? unpack(value) : value]));
}

async function readPayload(base64) {
  const unzipped = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(unzipped).text());
}

class Run {
  constructor(payload) {
    Object.assign(this, payload);
    this.cells = unpackAll(payload.cells);
    this.rows = new Map();
    for (let row = 0; row < this.cells.method.length; row++) {
      const { method, shift, seed, scenario } = this.cells;
      this.rows.set([method[row], shift[row], seed[row], scenario[row]].join(), row);
    }
    this.packedStreams = new Map(payload.streams.map((stream) => [[stream.method, stream.shift, stream.seed].join(), stream]));
    this.unpackedStreams = new Map();
    this.intervals = unpackAll(payload.intervals);
  }

  // The row of a cell in the columns of `cells`, or undefined.
  row(method, shift, seed, scenario) {
    return this.rows.get([method, shift, seed, scenario].join());
  }

  // One cell as an object: every column, by name.
  cell(row) {
    return Object.fromEntries(Object.entries(this.cells).map(([name, column]) => [name, column[row]]));
  }

  // The offline pass of a method over a stream, unpacked when first asked for; undefined if there is none.
  stream(method, shift, seed) {
    const key = [method, shift, seed].join();
    if (!this.unpackedStreams.has(key)) {
      const packed = this.packedStreams.get(key);
      this.unpackedStreams.set(key, packed && withAccuracy(unpackAll(packed)));
    }
    return this.unpackedStreams.get(key);
  }

  // The 95 % interval of a method's utility over other batches, and how likely it is best: on a shift, or on all
  // shifts together (null). Python worked it out; undefined where it cannot be said.
  interval(method, shift, scenario) {
    const place = ((shift === null ? 0 : 1 + shift) * this.scenarios.length + scenario) * this.methods.length + method;
    const { sample_lo, sample_hi, p_best } = this.intervals;
    return Number.isNaN(sample_lo[place]) ? undefined : { lo: sample_lo[place], hi: sample_hi[place], best: p_best[place] };
  }

  timeline(row) {
    return this.timelines[row] && unpackAll(this.timelines[row]);
  }
}

function withAccuracy(stream) {
  stream.count = stream.correct.length;
  stream.accuracy = numbers(stream.count, (batch) => stream.correct[batch] / stream.total[batch]);
  stream.service_ms = numbers(stream.count, (batch) => stream.predict_ms[batch] + stream.adapt_ms[batch]);
  return stream;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const close = (a, b) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));
