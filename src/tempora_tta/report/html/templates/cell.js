// One cell: who got how much, the terms behind it, and what the pipeline did.

class CellView {
  constructor(run) {
    this.run = run;
    const options = { shift: run.shifts.map(({ title }) => title), scenario: run.scenarios.map(({ title }) => title), method: run.methods.map(({ label }) => label), seed: run.seeds };
    for (const [name, titles] of Object.entries(options)) {
      fill(byId(`cell-${name}`), titles.map((title, place) => [place, title]));
      byId(`cell-${name}`).addEventListener("change", () => this.open(this.chosen()));
    }
    window.addEventListener("hashchange", () => this.follow());
    if (!this.follow()) this.open(run.first_cell);
  }

  chosen() {
    return ["shift", "scenario", "method", "seed"].map((name) => Number(byId(`cell-${name}`).value));
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
    this.drawTimeline();
  }

  showFacts() {
    const { status, timing, sample_lo, sample_hi, served_batches, batches, response_ms, utility, rank, spent_ms, waitspan_ms, fallback_fraction, fallback_accuracy } = this.cell;
    const place = byId("cell-facts"), name = methodName(this.run, this.method);
    if (status !== "ok") { place.replaceChildren(name, " ", make("span", { className: "problem" }, status)); return; }
    const sentences = [
      ` ranks ${rank} with a utility of ${percent(utility, 2)}${sample_hi > sample_lo ? ` (${rangeText(sample_lo, sample_hi)} with other batches)` : ""}.`,
      `It served ${served_batches} of ${batches} batches${Number.isFinite(response_ms) ? `, ${response_ms.toFixed(1)} ms from arrival to answer` : ""}.`,
      fallback_fraction > 0 ? `The fallback answered ${percent(fallback_fraction)} of all batches, ${percent(fallback_accuracy)} of them right.` : "",
      waitspan_ms > 0 ? `It idled ${(waitspan_ms / 1000).toFixed(2)} s because of dropped arrivals.` : "",
      this.run.scenarios[this.scenario].budgeted ? `It spent ${(spent_ms / 1000).toFixed(2)} s of overhead.` : "",
      timing === "VALID" ? "" : `Its timing was judged ${timing}.`,
    ];
    place.replaceChildren(name, sentences.filter(Boolean).join(" "));
  }

  showRanking() {
    const { utility, sample_lo, sample_hi, status } = this.run.cells;
    const rows = this.run.methods.map((_, method) => ({ method, row: this.run.row(method, this.shift, this.seed, this.scenario) }));
    const missing = ({ row }) => row === undefined || Number.isNaN(utility[row]);
    const known = rows.filter((one) => !missing(one)).sort((a, b) => utility[b.row] - utility[a.row]);
    const standard = known.find((one) => this.run.methods[one.method].standard);
    const top = Math.max(...known.map(({ row }) => Math.max(utility[row], sample_hi[row] || 0)), 1e-9);
    const items = known.map(({ method, row }) => {
      const [value, lo, hi] = [utility[row], sample_lo[row], sample_hi[row]];
      return this.selectable(rankingRow(this.run, method, percent(value, 2), reachText({ lo, hi }), value / top, standard && value < utility[standard.row], [lo / top, hi / top]), method);
    });
    const others = rows.filter(missing).map(({ method, row }) => this.selectable(make("li", {}, make("button", { type: "button", className: "none" },
      methodName(this.run, method), make("span", { className: "value" }, "–"), make("span", { className: "reason" }, row === undefined ? "not run yet" : status[row]))), method));
    keepFocus(byId("cell-ranking"), () => byId("cell-ranking").replaceChildren(...items, ...others));
  }

  selectable(item, method) {
    item.firstChild.setAttribute("aria-pressed", String(method === this.method));
    item.firstChild.addEventListener("click", () => this.open([this.shift, this.scenario, method, this.seed]));
    return item;
  }

  showTerms() {
    const cell = this.cell, part = (value, digits = 1) => (Number.isNaN(value) ? "–" : percent(value, digits));
    byId("terms").hidden = cell.status !== "ok";
    if (cell.status !== "ok") return;
    const terms = { "Availability": part(cell.availability), "Adapted fraction": part(cell.adapted_fraction), "Adapt accuracy": part(cell.adapt_accuracy, 2), "Frozen accuracy": part(cell.frozen_accuracy, 2), "Responsiveness": part(cell.responsiveness), "Covariance": cell.covariance.toFixed(4) };
    if (!Number.isNaN(cell.ece)) terms["Calibration error"] = part(cell.ece);
    if (cell.fallback_fraction > 0) Object.assign(terms, { "Fallback fraction": part(cell.fallback_fraction), "Fallback accuracy": part(cell.fallback_accuracy, 2) });
    byId("terms").replaceChildren(...Object.entries(terms).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  }

  // The chosen method, and the offline favourite under the same pressure.
  drawTimeline() {
    const rival = this.method === this.run.favourite ? null : this.run.row(this.run.favourite, this.shift, this.seed, this.scenario);
    this.drawCourse("timeline", this.row, this.method);
    this.drawCourse("timeline-favourite", rival, this.run.favourite);
  }

  drawCourse(id, row, method) {
    const batches = row === undefined || row === null ? [] : this.run.timeline(row).slice(0, window.innerWidth < 760 ? 8 : 16);
    byId(id).parentElement.hidden = !batches.length;
    if (!batches.length) return;
    const { label } = this.run.methods[method], { fallback } = this.run.scenarios[this.scenario];
    byId(`${id}-title`).textContent = `${label}, the first ${batches.length} batches`;
    const blocks = blocksOf(batches, this.run.baseline_ms, fallback), served = batches.filter((one) => one.phase).length;
    const finding = `${label}: of the first ${batches.length} batches ${served} are served, ${batches.length - served} skipped.`;
    draw(this.run, id, "timeline", { blocks, arrivals: arrivalsOf(batches) }, finding);
  }
}

// `fallback`: free or charged, where there is one. A free one works in parallel to the pipeline.
function blocksOf(batches, baseline, fallback) {
  const blocks = [], apart = (one) => one.phase === 3 && fallback === "free";
  const served = batches.filter((one) => one.phase).sort((a, b) => a.start - b.start);
  let free = served.find((one) => !apart(one))?.start ?? 0;
  for (const one of served) {
    const { batch, phase, arrived, start, predict, adapt, accuracy } = one;
    const block = (part, from, to, first = false) => {
      if (to > from) blocks.push({ lane: apart(one) ? "fallback" : "pipeline", part, from, to, length: to - from, batch, accuracy, response: start + predict - arrived, first });
    };
    if (apart(one)) { block("fallback", start, start + predict, true); continue; }
    if (start > free + 2e-3) blocks.push({ lane: "pipeline", part: "idle", from: free, to: start, length: start - free }); // times are in microseconds
    const usual = phase > 1 ? predict : Math.min(predict, baseline);
    block(["", "baseline", "frozen", "fallback"][phase], start, start + usual, true);
    block("intrinsic", start + usual, start + predict);
    block("extrinsic", start + predict, start + predict + adapt);
    free = start + predict + adapt;
  }
  return blocks;
}

function arrivalsOf(batches) {
  return batches.map((one) => ({ lane: "arrivals", batch: one.batch, from: one.arrived, fate: one.phase === 3 ? "fallback" : one.phase ? "served" : "skipped" }));
}
