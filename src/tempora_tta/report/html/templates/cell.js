// One cell: who got how much, how accuracy became utility, and what the pipeline did.

const WINDOW = 16; // batches drawn at once

class CellView {
  constructor(run) {
    this.run = run;
    fill(byId("cell-shift"), run.shifts.map((shift, place) => [place, shift.title]));
    fill(byId("cell-scenario"), run.scenarios.map((scenario, place) => [place, scenario.title]));
    fill(byId("cell-method"), run.methods.map((method, place) => [place, method.label]));
    fill(byId("cell-seed"), run.seeds.map((seed, place) => [place, seed]));
    for (const name of ["shift", "scenario", "method", "seed"]) {
      byId(`cell-${name}`).addEventListener("change", () => this.open(this.chosen()));
    }
    byId("window").addEventListener("input", () => this.drawTimeline());
    window.addEventListener("hashchange", () => this.follow());
    if (!this.follow()) this.open(this.first());
  }

  chosen() {
    return ["shift", "scenario", "method", "seed"].map((name) => Number(byId(`cell-${name}`).value));
  }

  // Before anybody chose: the best method of the strictest scenario.
  first() {
    const strict = Math.max(0, this.run.scenarios.findIndex((scenario) => !scenario.reference));
    const best = this.run.methods.findIndex((_, method) => {
      const row = this.run.row(method, 0, 0, strict);
      return row !== undefined && this.run.cells.rank[row] === 1;
    });
    return [0, strict, Math.max(0, best), 0];
  }

  // Open the cell that the address names: #cell-SHIFT-SCENARIO-METHOD, as positions.
  follow() {
    const found = /^#cell-(\d+)-(\d+)-(\d+)$/.exec(location.hash);
    if (!found) return false;
    const [shift, scenario, method] = found.slice(1).map(Number);
    if (!this.run.shifts[shift] || !this.run.scenarios[scenario] || !this.run.methods[method]) return false;
    this.open([shift, scenario, method, this.chosen()[3] || 0]);
    byId("cell").scrollIntoView();
    byId("cell-title").focus({ preventScroll: true });
    return true;
  }

  open([shift, scenario, method, seed]) {
    Object.assign(this, { shift, scenario, method, seed });
    for (const [name, value] of Object.entries({ shift, scenario, method, seed })) byId(`cell-${name}`).value = value;
    this.row = this.run.row(method, shift, seed, scenario);
    this.cell = this.row === undefined ? { status: "not run yet", timing: "", verdict: "" } : this.run.cell(this.row);
    byId("cell-title").textContent = `${this.run.shifts[shift].title}, ${this.run.scenarios[scenario].title}`;
    document.querySelectorAll(".square[aria-current]").forEach((square) => square.removeAttribute("aria-current"));
    document.querySelector(`.square[href^="#cell-${shift}-${scenario}-"]`)?.setAttribute("aria-current", "true");
    this.showFacts();
    this.showRanking();
    this.showTerms();
    byId("window").value = 0;
    this.drawTimeline();
  }

  showFacts() {
    const { status, origin, timing, verdict, sample_lo, sample_hi, served_batches, batches, response_ms, utility, utility_lo, utility_hi, rank, spent_ms, waitspan_ms, fallback_fraction, fallback_accuracy } = this.cell;
    const place = byId("cell-facts"), name = methodName(this.run, this.method);
    if (status !== "ok") { place.replaceChildren(name, " ", make("span", { className: "problem" }, status)); return; }
    const sentences = [
      ` ranks ${rank} with a utility of ${percent(utility, 2)}${utility_hi > utility_lo ? ` (${rangeText(utility_lo, utility_hi)} within timing)` : ""}${sample_hi > sample_lo ? `, ${rangeText(sample_lo, sample_hi)} with other batches` : ""}.`,
      rank === 1 ? { holds: "Its lead holds.", equal: "Another method is equal within half a point.", undecided: "Whether it is the best is undecided." }[verdict] ?? "" : "",
      `It served ${served_batches} of ${batches} batches${Number.isFinite(response_ms) ? `, ${response_ms.toFixed(1)} ms from arrival to answer` : ""}.`,
      fallback_fraction > 0 ? `The fallback answered ${percent(fallback_fraction)} of all batches, those that were lost, ${percent(fallback_accuracy)} of them right.` : "",
      waitspan_ms > 0 ? `It idled ${(waitspan_ms / 1000).toFixed(2)} s because of dropped arrivals.` : "",
      this.run.scenarios[this.scenario].budgeted ? `It spent ${(spent_ms / 1000).toFixed(2)} s of overhead.` : "",
      { live: "A pass of its own.", derived: "Scored from a shared pass that would have gone the same way.", replayed: "Its offline times, replayed on this clock." }[origin] ?? "",
      timing === "VALID" ? "" : `Its timing was judged ${timing}.`,
    ];
    place.replaceChildren(name, sentences.filter(Boolean).join(" "));
  }

  showRanking() {
    const rows = this.run.methods.map((_, method) => ({ method, row: this.run.row(method, this.shift, this.seed, this.scenario) }));
    const value = ({ row }) => (row === undefined ? NaN : this.run.cells.utility[row]);
    const known = rows.filter((one) => !Number.isNaN(value(one))).sort((a, b) => value(b) - value(a));
    const standard = known.find((one) => this.run.methods[one.method].standard);
    const longest = Math.max(...known.map((one) => Math.max(value(one), this.run.cells.sample_hi[one.row] || 0)), 1e-9);
    const items = known.map((one) => {
      const sure = { lo: this.run.cells.sample_lo[one.row], hi: this.run.cells.sample_hi[one.row] }, top = longest;
      const item = rankingRow(this.run, one.method, percent(value(one), 2), reachText(sure), value(one) / top, standard && value(one) < value(standard), [sure.lo / top, sure.hi / top]);
      return this.selectable(item, one.method);
    });
    const others = rows.filter((one) => Number.isNaN(value(one))).map((one) => {
      const reason = one.row === undefined ? "not run yet" : this.run.cells.status[one.row];
      return this.selectable(make("li", {}, make("button", { type: "button", className: "none" }, methodName(this.run, one.method), make("span", { className: "value" }, "–"), make("span", { className: "reason" }, reason))), one.method);
    });
    keepFocus(byId("cell-ranking"), () => byId("cell-ranking").replaceChildren(...items, ...others));
  }

  selectable(item, method) {
    item.firstChild.setAttribute("aria-pressed", String(method === this.method));
    item.firstChild.addEventListener("click", () => this.open([this.shift, this.scenario, method, this.seed]));
    return item;
  }

  showTerms() {
    const cell = this.cell, ok = cell.status === "ok";
    for (const id of ["decomposition", "terms", "equation"]) byId(id).hidden = !ok;
    if (!ok) return;
    const accuracy = cell.served_accuracy, kept = accuracy * cell.responsiveness + cell.covariance;
    const signed = (value) => Math.abs(value) < 5e-7 ? "0" : `${value < 0 ? "−" : "+"}${percent(Math.abs(value), 2)}`;
    const step = (name, from, to, colour) => ({ step: name, from, to, end: Math.max(from, to), colour, text: signed(to - from) });
    const soft = getComputedStyle(document.documentElement).getPropertyValue("--faint").trim(), own = methodColour(this.run, this.method);
    const whole = (name, value, colour) => ({ step: name, from: 0, to: value, end: value, colour, text: percent(value, 2) });
    const rows = [
      whole("Accuracy on what it serves", accuracy, soft),
      step("Late answers", accuracy, accuracy * cell.responsiveness, "#c8404f"),
      step("Covariance", accuracy * cell.responsiveness, kept, "#8a9099"),
      step("Skipped batches", kept, cell.availability * kept, "#c8404f"),
      whole("Utility", cell.utility, own),
    ];
    draw(this.run, "decomposition", "decomposition", { rows }, `${this.run.methods[this.method].label}: ${rows.map((row) => `${row.step.toLowerCase()} ${row.text}`).join(", ")}.`);
    const part = (value, digits = 1) => (Number.isNaN(value) ? "–" : percent(value, digits));
    byId("equation").textContent = `${percent(cell.utility, 2)} = ${part(cell.availability)} × ((${part(cell.adapted_fraction)} × ${part(cell.adapt_accuracy)} + ${part(1 - cell.adapted_fraction)} × ${part(cell.frozen_accuracy)}) × ${part(cell.responsiveness)} ${cell.covariance < 0 ? "−" : "+"} ${percent(Math.abs(cell.covariance), 2)})`;
    const terms = { "Availability": part(cell.availability), "Adapted fraction": part(cell.adapted_fraction), "Adapt accuracy": part(cell.adapt_accuracy, 2), "Frozen accuracy": part(cell.frozen_accuracy, 2), "Responsiveness": part(cell.responsiveness), "Covariance": cell.covariance.toFixed(4) };
    if (!Number.isNaN(cell.ece)) terms["Calibration error"] = part(cell.ece);
    if (cell.fallback_fraction > 0) Object.assign(terms, { "Fallback fraction": part(cell.fallback_fraction), "Fallback accuracy": part(cell.fallback_accuracy, 2) });
    byId("terms").replaceChildren(...Object.entries(terms).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  }

  drawTimeline() {
    const course = this.cell.status === "ok" ? this.course() : null;
    byId("timeline").hidden = byId("window-field").hidden = !course;
    byId("timeline-note").textContent = course ? course.note : "No timeline: this cell has no trace.";
    if (!course) return;
    const width = window.innerWidth < 760 ? WINDOW / 2 : WINDOW;
    byId("window").max = Math.max(0, course.batches.length - width);
    const from = Number(byId("window").value);
    byId("window-number").textContent = from;
    byId("window-field").hidden = course.batches.length <= width;
    const shown = course.batches.slice(from, from + width);
    const lost = shown.filter((one) => !one.phase).length;
    draw(this.run, "timeline", "timeline", { blocks: blocksOf(shown, this.run.baseline_ms, this.run.scenarios[this.scenario].fallback), arrivals: arrivalsOf(shown) },
      `Batches ${from} to ${from + shown.length - 1} of ${this.run.methods[this.method].label}: ${shown.length - lost} served, ${lost} skipped.`);
  }

  // What happened to every batch, in stream order: from the cell's own pass, or from the offline pass it shares.
  course() {
    const own = this.run.timeline(this.row);
    if (own) {
      const batches = Array.from(own.phase, (phase, batch) => ({
        batch, phase, arrived: own.arrived_ms[batch], start: own.start_ms[batch],
        predict: own.predict_ms[batch], adapt: own.adapt_ms[batch], accuracy: own.correct[batch] / own.total[batch],
      }));
      return { batches, note: this.cell.origin === "live" ? `The first ${batches.length} batches of this cell’s own pass.` : `The first ${batches.length} batches.` };
    }
    const stream = this.run.stream(this.method, this.shift, this.seed);
    return stream ? sharedCourse(stream, this.cell, this.run.scenarios[this.scenario], this.run.baseline_ms) : null;
  }
}

// A cell that shares the offline pass, placed on its own clock.
function sharedCourse(stream, cell, scenario, baseline) {
  const one = (batch, phase, arrived, start) => ({ batch, phase, arrived, start, predict: stream.predict_ms[batch], adapt: stream.adapt_ms[batch], accuracy: stream.accuracy[batch] });
  if (scenario.limit === "interval_ms") {
    const course = servePeriodic(stream.service_ms, cell.value, scenario.queue);
    const start = new Map(course.served.map((batch, place) => [batch, course.start[place]]));
    const batches = Array.from(stream.phase, (phase, batch) => one(batch, start.has(batch) ? phase : 0, batch * cell.value, start.get(batch)));
    return { batches, note: "" };
  }
  let free = 0, emitted = 0;
  const frozenFrom = scenario.limit === "budget_ms" && cell.adapted_fraction < 1 ? cell.cutoff : Infinity;
  const batches = Array.from(stream.phase, (phase, batch) => {
    const frozen = batch >= frozenFrom;
    const placed = one(batch, frozen ? 2 : phase, scenario.limit === "threshold_ms" ? emitted : free, free);
    if (frozen) Object.assign(placed, { predict: baseline, adapt: 0, accuracy: undefined });
    emitted = placed.start + placed.predict;
    free = emitted + placed.adapt;
    return placed;
  });
  return { batches, note: Number.isFinite(frozenFrom) ? `Frozen after ${frozenFrom} batches; nobody waits for frozen batches, so they are untimed and drawn λ long.` : "" };
}

// `fallback`: free or charged, where there is one. A free one works beside the pipeline, which does not notice.
function blocksOf(batches, baseline, fallback) {
  const blocks = [];
  const served = batches.filter((one) => one.phase && Number.isFinite(one.start)).sort((a, b) => a.start - b.start);
  const beside = (one) => one.phase === 3 && fallback === "free";
  // Times are drawn in single precision: a gap below a microsecond is none.
  let free = served.find((one) => !beside(one))?.start ?? 0;
  for (const one of served) {
    const { batch, phase, arrived, start, predict, adapt, accuracy } = one;
    const block = (part, from, to, first = false) => {
      if (to > from) blocks.push({ lane: beside(one) ? "fallback" : "pipeline", part, from, to, length: to - from, batch, accuracy, response: start + predict - arrived, first });
    };
    if (beside(one)) { block("fallback", start, start + predict, true); continue; }
    if (start > free + 1e-3) blocks.push({ lane: "pipeline", part: "idle", from: free, to: start, length: start - free });
    const usual = phase > 1 ? predict : Math.min(predict, baseline);
    block(["", "baseline", "frozen", "fallback"][phase], start, start + usual, true);
    block("intrinsic", start + usual, start + predict);
    block("extrinsic", start + predict, start + predict + adapt);
    free = start + predict + adapt;
  }
  return blocks;
}

function arrivalsOf(batches) {
  return batches.filter((one) => Number.isFinite(one.arrived))
    .map((one) => ({ lane: "arrivals", batch: one.batch, from: one.arrived, fate: one.phase === 3 ? "fallback" : one.phase ? "served" : "skipped" }));
}
