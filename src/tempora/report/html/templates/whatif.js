// The what-if panel: a limit moves, the ranking and the recommendation follow.

const VARIANTS = { interval_ms: "Queue", budget_ms: "Rule" };
const BETWEEN = { threshold_ms: 40, interval_ms: 18 }; // points of a curve besides those that were evaluated
const STEPS = 1000;
const SNAP = 7; // slider steps within which it falls onto an evaluated point

class WhatIf {
  constructor(run) {
    this.run = run;
    this.picked = null;
    const present = run.protocols.filter(({ protocol }) => scenariosOf(run, protocol).some((scenario) => this.typicalValue(scenario) > 0));
    if (!present.length) { byId("what-if").hidden = true; return; }
    const tabs = present.map((card) => this.tab(card));
    byId("protocols").append(...tabs);
    fill(byId("whatif-shift"), [...(run.shifts.length > 1 ? [["all", "All shifts"]] : []), ...run.shifts.map((shift, place) => [place, shift.title])]);
    byId("whatif-shift").addEventListener("change", () => this.redraw());
    byId("whatif-variant").addEventListener("change", () => this.choose(this.card));
    byId("slider").addEventListener("input", () => this.slid());
    byId("exact").addEventListener("change", () => this.typed());
    const start = Math.max(0, present.findIndex((card) => card.limit === "threshold_ms")); // any patience has an answer
    tabs[start].firstChild.checked = true;
    this.choose(present[start]);
  }

  tab(card) {
    const input = make("input", { type: "radio", name: "protocol", value: card.protocol });
    input.addEventListener("change", () => { byId("whatif-variant").replaceChildren(); this.choose(card); });
    return make("label", {}, input, make("span", {}, card.situation));
  }

  // Show a protocol: its slider, with a tick for every point that was evaluated.
  choose(card) {
    this.card = card;
    this.chooseVariant();
    this.points = scenariosOf(this.run, card.protocol, this.variant).map((scenario) => ({ scenario, x: this.typicalValue(scenario), label: this.run.scenarios[scenario].label }))
      .filter((point) => point.x > 0).sort((a, b) => a.x - b.x);
    const values = this.points.map((point) => point.x);
    const least = card.limit === "threshold_ms" ? this.run.baseline_ms * 1.02 : values[0] / 1.5;
    this.reach = [Math.log(least), Math.log(1.5 * values.at(-1))];
    byId("slider-name").textContent = card.knob;
    byId("exact-unit").textContent = card.unit;
    byId("exact").setAttribute("aria-label", `Exact value in ${unitName(card.unit)}`);
    byId("ticks").replaceChildren(...this.points.map((point) => {
      const tick = make("span", {}, card.symbol && point.label.startsWith(`${card.symbol} `) ? point.label.slice(card.symbol.length + 1) : point.label);
      tick.style.left = `${this.step(point.x) / STEPS * 100}%`;
      return tick;
    }));
    this.move(this.points[Math.floor((this.points.length - 1) / 2)].x);
    this.drawCurves();
  }

  chooseVariant() {
    const variants = [...new Set(scenariosOf(this.run, this.card.protocol).map((place) => this.run.scenarios[place].variant))];
    const field = byId("variant-field"), select = byId("whatif-variant");
    field.hidden = variants.length < 2;
    if (!field.hidden && !select.options.length) fill(select, variants.map((variant, place) => [place, String(variant)]));
    field.querySelector("span").textContent = VARIANTS[this.card.limit] ?? "Variant";
    this.variant = variants[field.hidden ? 0 : select.selectedIndex];
  }

  // A relative budget has other milliseconds on every shift; the slider shows their mean.
  typicalValue(scenario) {
    const { cells } = this.run, found = [];
    for (let row = 0; row < cells.scenario.length; row++) {
      if (cells.scenario[row] === scenario && !Number.isNaN(cells.value[row])) found.push(cells.value[row]);
    }
    return found.length ? (found.every((value) => value === found[0]) ? found[0] : mean(found)) : NaN;
  }

  get shifts() {
    const choice = byId("whatif-shift").value;
    return choice === "all" ? this.run.allShifts : [Number(choice)];
  }

  step(x) { return STEPS * (Math.log(x) - this.reach[0]) / (this.reach[1] - this.reach[0]); }

  slid() {
    const step = Number(byId("slider").value);
    const near = this.points.find((point) => Math.abs(this.step(point.x) - step) < SNAP);
    const free = Math.exp(this.reach[0] + step / STEPS * (this.reach[1] - this.reach[0]));
    this.move(near ? near.x : Number(free.toPrecision(4)));
  }

  typed() {
    const value = Number(byId("exact").value);
    if (value > 0) this.move(value);
  }

  move(x) {
    this.x = x;
    const slider = byId("slider"), { knob, unit } = this.card;
    slider.value = Math.round(this.step(x));
    slider.setAttribute("aria-valuetext", `${knob} ${Number(x.toPrecision(5))} ${unitName(unit)}`);
    byId("exact").value = String(Number(x.toPrecision(12)));
    this.show();
  }

  get limit() {
    const point = this.points.find((candidate) => close(candidate.x, this.x));
    return { protocol: this.card.protocol, kind: this.card.limit, variant: this.variant, value: this.x, scenario: point?.scenario };
  }

  show() {
    const answers = answer(this.run, this.shifts, this.limit);
    const best = ranked(answers);
    this.recommend(best, answers.length);
    this.rank(best, answers.filter((one) => one.why));
    if (this.view) feed(this.view, { here: [{ x: this.x }] });
  }

  redraw() { this.show(); this.drawCurves(); }

  recommend(best, count) {
    const place = byId("recommendation");
    if (!best.length) { place.textContent = "No method has an exact answer here; the reasons are below."; return; }
    const [first, second] = best, standard = best.find((one) => this.run.methods[one.method].standard);
    const equal = best.filter((one) => one !== first && Math.abs(one.utility - first.utility) < 1e-12).map((one) => this.run.methods[one.method].label);
    const ties = best.filter((one) => one.tied && one !== first).map((one) => this.run.methods[one.method].label);
    const words = [];
    if (standard === first) words.push(`: no adaptation pays here. Utility ${percent(first.utility)}`);
    else words.push(`: utility ${percent(first.utility)}`, standard ? `, ${points(first.utility - standard.utility)} above standard inference` : "");
    if (equal.length) words.push(`. Equal with ${equal.join(", ")}`);
    else if (ties.length) words.push(`. Times are not known well enough to tell it from ${ties.join(", ")}`);
    else if (second && second !== standard) words.push(`, ${points(first.utility - second.utility)} ahead of ${this.run.methods[second.method].label}`);
    words.push(".");
    if (best.length < count) words.push(` Among the ${best.length} of ${count} methods that have an exact answer here.`);
    const sure = this.certainty();
    if (sure) words.push(` ${sure}`);
    place.replaceChildren("Use ", methodName(this.run, first.method), words.join(""));
  }

  // How sure an evaluated point is, on all shifts or one of them; Python worked it out.
  certainty() {
    const { scenario } = this.limit, { everywhere, shifts } = this.run.certainty;
    if (scenario === undefined) return "";
    if (this.shifts.length === this.run.shifts.length) return everywhere[scenario];
    return this.shifts.length === 1 ? shifts[this.shifts[0]][scenario] : "";
  }

  rank(best, unknown) {
    const top = best.length ? best[0].utility : 1;
    const standard = best.find((one) => this.run.methods[one.method].standard);
    const known = best.map((one) => {
      const below = standard && one.utility < standard.utility;
      const notes = [one.hi > one.lo ? `± ${(50 * (one.hi - one.lo)).toFixed(1)} ` : ""].join("");
      const row = rankingRow(this.run, one.method, percent(one.utility, 2), notes, one.utility / top, below);
      row.dataset.utility = one.utility;
      row.dataset.method = this.run.methods[one.method].name;
      const button = row.firstChild;
      button.title = `${one.how}${one.hi > one.lo ? `, ${rangeText(one.lo, one.hi)} within timing` : ""}`;
      button.setAttribute("aria-pressed", String(this.picked === one.method));
      button.addEventListener("mouseenter", () => this.single(one.method));
      button.addEventListener("focus", () => this.single(one.method));
      button.addEventListener("mouseleave", () => this.single(this.picked));
      button.addEventListener("blur", () => this.single(this.picked));
      button.addEventListener("click", () => { this.picked = this.picked === one.method ? null : one.method; this.show(); this.single(this.picked); });
      return row;
    });
    const others = unknown.map((one) => {
      const row = make("div", { className: "row none" }, methodName(this.run, one.method), make("span", { className: "value" }, "–"),
        make("span", { className: "reason" }, one.why));
      const item = make("li", {}, row);
      item.dataset.method = this.run.methods[one.method].name;
      return item;
    });
    keepFocus(byId("ranking"), () => byId("ranking").replaceChildren(...known, ...others));
    const spec = { ...this.card.spec, [this.card.parameter]: Number(this.x.toPrecision(12)) };
    byId("unanswered").textContent = unknown.length && this.card.limit !== "threshold_ms"
      ? `To measure what is missing: add --set 'scenarios=[{${Object.entries(spec).map(([name, value]) => `${name}: ${yaml(value)}`).join(", ")}}]' to the command of this run.` : "";
  }

  single(method) {
    const name = method === null ? "" : this.run.methods[method].name;
    if (this.view) { this.view.signal("picked", name); this.view.runAsync(); }
  }

  async drawCurves() {
    const rows = this.curves();
    this.view = await draw(this.run, "curves", `curves_${this.card.protocol}`, { rows, here: [{ x: this.x }] });
    feed(this.view, { here: [{ x: this.x }] }); // the slider may have moved while a new chart was made
  }

  // Evaluated points of everybody; between them only what is exact.
  curves() {
    const shifts = this.shifts, rows = [];
    for (const { x, scenario, label } of this.points) {
      const best = ranked(answer(this.run, shifts, { ...this.limit, value: x, scenario }));
      best.forEach((one) => rows.push(this.dot(one, x, label, true, one.rank === 1)));
    }
    const between = BETWEEN[this.card.limit] ?? 0;
    for (let part = 0; part < between; part++) {
      const x = Math.exp(this.reach[0] + (part + 0.5) / between * (this.reach[1] - this.reach[0]));
      this.run.methods.forEach((method, place) => {
        if (this.card.limit === "interval_ms" && !method.history_free) return;
        const one = answerMethod(this.run, place, shifts, { protocol: this.card.protocol, kind: this.card.limit, variant: this.variant, value: x });
        if (!one.why) rows.push(this.dot(one, x, "", false, false));
      });
    }
    return rows.sort((a, b) => a.x - b.x);
  }

  dot(one, x, scenario, evaluated, best) {
    const { name, label, standard } = this.run.methods[one.method];
    return { x, utility: one.utility, method: name, label, standard, scenario, evaluated, best, colour: methodColour(this.run, one.method), range: rangeText(one.lo, one.hi), rank: one.rank ? String(one.rank) : "", how: one.how };
  }
}

const unitName = (unit) => (unit === "ms" ? "milliseconds" : unit);
const yaml = (value) => (typeof value === "string" && /^\w+$/.test(value) ? value : JSON.stringify(value));
const points = (difference) => `${(100 * difference).toFixed(1)} points`;
