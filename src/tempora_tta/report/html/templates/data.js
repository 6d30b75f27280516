// The run, as the page holds it: names once, cells as columns, every stop of the what-if panel.

const ARRAYS = { Uint8: Uint8Array, Uint16: Uint16Array, Uint32: Uint32Array, Int32: Int32Array, Float32: Float32Array, Float64: Float64Array };

// A loop, because `from` with a function takes ten times as long, and a page may hold millions of numbers.
function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place++) bytes[place] = text.charCodeAt(place);
  return bytes;
}

function unpack({ type, data, per }) {
  const values = new ARRAYS[type](bytesOf(data).buffer);
  return per ? Float64Array.from(values).map((value) => value / per) : values;
}

function unpackAll(packed) {
  return Object.fromEntries(Object.entries(packed).map(([name, value]) => {
    if (value?.words) return [name, Array.from(unpack(value.index), (place) => value.words[place])];
    return [name, value?.data === undefined ? value : unpack(value)];
  }));
}

async function readPayload(base64) {
  const unzipped = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(unzipped).text());
}

class Run {
  constructor(payload) {
    Object.assign(this, payload);
    for (const name of ["cells", "intervals", "timelines"]) this[name] = unpackAll(payload[name]);
    this.sliders = payload.sliders.map(unpackAll);
    const { method, shift, seed, scenario } = this.cells;
    this.rows = new Map(Array.from(method, (_, row) => [[method[row], shift[row], seed[row], scenario[row]].join(), row]));
  }

  // The row of a cell in the columns of `cells`, or undefined.
  row(method, shift, seed, scenario) {
    return this.rows.get([method, shift, seed, scenario].join());
  }

  // One cell as an object: every column, by name.
  cell(row) {
    return Object.fromEntries(Object.entries(this.cells).map(([name, column]) => [name, column[row]]));
  }

  // The 95 % interval of a method's utility over other batches, and the probability that it is best: on all shifts
  // together (place 0) or on one. Undefined where neither is known.
  interval(method, place, scenario) {
    const at = (place * this.scenarios.length + scenario) * this.methods.length + method;
    const { sample_lo, sample_hi, p_best } = this.intervals;
    return Number.isNaN(sample_lo[at]) ? undefined : { lo: sample_lo[at], hi: sample_hi[at], best: p_best[at] };
  }

  // The first batches of a cell, on its own clock; none where it has no trace.
  timeline(row) {
    const { batches, phase, correct, total, arrived_ms, start_ms, predict_ms, adapt_ms } = this.timelines;
    const found = [];
    for (let batch = 0; batch < batches && total[row * batches + batch]; batch++) {
      const at = row * batches + batch;
      found.push({ batch, phase: phase[at], accuracy: correct[at] / total[at], arrived: arrived_ms[at], start: start_ms[at], predict: predict_ms[at], adapt: adapt_ms[at] });
    }
    return found;
  }
}
