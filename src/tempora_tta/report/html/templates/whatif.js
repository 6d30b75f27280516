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
    fill(byId("whatif-shift"), [...(run.shifts.length > 1 ? [["all", run.counted.length < run.shifts.length ? "All shifts, clean apart" : "All shifts"]] : []), ...run.shifts.map((shift, place) => [place, shift.title])]);
    byId("whatif-shift").addEventListener("change", () => { this.touched = true; this.redraw(); });
    byId("whatif-variant").addEventListener("change", () => { this.touched = true; this.choose(this.card); });
    byId("slider").addEventListener("input", () => this.slid());
    byId("exact").addEventListener("change", () => this.typed());
    this.present = present;
    this.tabs = tabs;
    window.addEventListener("hashchange", () => this.follow());
    if (this.follow()) return;
    const start = Math.max(0, present.findIndex((card) => card.limit === "threshold_ms")); // any patience has an answer
    tabs[start].firstChild.checked = true;
    this.choose(present[start]);
  }

  // Show what the address names: #what-if/PROTOCOL/VALUE/SHIFT/VARIANT. Shifts and variants are positions.
  follow() {
    const [section, protocol, value, shift, variant] = location.hash.slice(1).split("/").map(decoded);
    const at = section === "what-if" && this.present ? this.present.findIndex((card) => card.protocol === protocol) : -1;
    if (at < 0) return false;
    this.tabs[at].firstChild.checked = true;
    if ([...byId("whatif-shift").options].some((option) => option.value === shift)) byId("whatif-shift").value = shift;
    byId("whatif-variant").replaceChildren();
    this.choose(this.present[at]);
    const select = byId("whatif-variant");
    if (select.options[variant]) { select.selectedIndex = Number(variant); this.choose(this.present[at]); }
    if (Number(value) > 0) this.move(Number(value));
    byId("what-if").scrollIntoView();
    this.touched = true;
    return true;
  }

  // Keep the address up to date once the reader has changed something, so that it can be sent to others.
  remember() {
    if (!this.touched) return;
    const state = [this.card.protocol, String(Number(this.x.toPrecision(12))), byId("whatif-shift").value, Math.max(0, byId("whatif-variant").selectedIndex)];
    try {
      history.replaceState(null, "", `#what-if/${state.map(encodeURIComponent).join("/")}`);
    } catch { /* some places forbid it, and nothing depends on it */ }
  }

  tab(card) {
    const input = make("input", { type: "radio", name: "protocol", value: card.protocol });
    input.addEventListener("change", () => { this.touched = true; byId("whatif-variant").replaceChildren(); this.choose(card); });
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
    return choice === "all" ? this.run.counted : [Number(choice)];
  }

  step(x) { return STEPS * (Math.log(x) - this.reach[0]) / (this.reach[1] - this.reach[0]); }

  slid() {
    this.touched = true;
    const step = Number(byId("slider").value);
    const near = this.points.find((point) => Math.abs(this.step(point.x) - step) < SNAP);
    const free = Math.exp(this.reach[0] + step / STEPS * (this.reach[1] - this.reach[0]));
    this.move(near ? near.x : Number(free.toPrecision(4)));
  }

  typed() {
    this.touched = true;
    const text = byId("exact").value, value = Number(text);
    const meant = this.points.find((point) => this.rounded(point.x) === value); // what the box shows of an evaluated point
    if (value > 0) this.move(meant ? meant.x : value, text);
  }

  rounded(x) { return Number(x.toPrecision(5)); }

  // The box shows the value rounded, or as the reader typed it; what is worked out with is the value itself.
  move(x, shown = String(this.rounded(x))) {
    this.x = x;
    const slider = byId("slider"), { knob, unit } = this.card;
    slider.value = Math.round(this.step(x));
    slider.setAttribute("aria-valuetext", `${knob} ${this.rounded(x)} ${unitName(unit)}`);
    byId("exact").value = shown;
    this.show();
  }

  get limit() {
    const point = this.points.find((candidate) => close(candidate.x, this.x));
    return { protocol: this.card.protocol, kind: this.card.limit, variant: this.variant, value: this.x, scenario: point?.scenario };
  }

  show() {
    const answers = answer(this.run, this.shifts, this.limit);
    const best = ranked(answers), unknown = answers.filter((one) => one.why);
    unknown.forEach((one) => { one.near = this.near(one.method); });
    this.recommend(best, unknown);
    this.rank(best, unknown);
    this.remember();
    if (this.view) feed(this.view, { here: [{ x: this.x }] });
  }

  // The evaluated points on either side of the limit; the point itself where it is one.
  get beside() {
    const here = this.points.filter((point) => close(point.x, this.x));
    if (here.length) return here;
    return [this.points.filter((point) => point.x < this.x).at(-1), this.points.find((point) => point.x > this.x)].filter(Boolean);
  }

  // What a method without an answer here got at its evaluated neighbours, if it was evaluated there.
  near(method) {
    const found = this.beside.map((point) => ({ ...answerMethod(this.run, method, this.shifts, { ...this.limit, value: point.x, scenario: point.scenario }), x: point.x, label: point.label })).filter((one) => !one.why);
    if (!found.length) return null;
    const utilities = found.map((one) => one.utility);
    // Below the strictest that was measured a method may lose everything at once: nothing bounds it from there.
    const bounded = found.some(({ x }) => (this.card.rising ? x >= this.x : x <= this.x));
    const lo = Math.min(...utilities);
    return { lo, hi: Math.max(...utilities), labels: found.map((one) => one.label), bounded, least: bounded ? lo : 0 };
  }

  redraw() { this.show(); this.drawCurves(); }

  recommend(best, unknown) {
    const place = byId("recommendation"), count = best.length + unknown.filter((one) => !one.why.startsWith("failed")).length;
    if (!best.length) { place.textContent = "No method has an exact answer here; the reasons are below."; return; }
    const [first] = best, rivals = unknown.filter((one) => one.near && one.near.hi > first.utility).sort((a, b) => b.near.hi - a.near.hi);
    // Whoever was better at every neighbour leads, as in tempora_tta.analysis.neighbours.favourite.
    const [favourite] = rivals.filter((one) => one.near.least > first.utility).sort((a, b) => b.near.least - a.near.least);
    const others = rivals.filter((one) => one !== favourite).map((one) => `${this.run.methods[one.method].label}, ${nearText(one.near)}`);
    const words = [this.ahead(best), others.length ? `, unless ${others.join(", or ")}` : "", "."];
    const among = best.length < count ? `the ${best.length} of ${count} methods with an exact answer` : "";
    const sure = this.certainty();
    if (sure) words.push(` ${sure}`);
    if (favourite) {
      place.replaceChildren("Probably ", methodName(this.run, favourite.method), `, ${nearText(favourite.near)}; it was not measured here. Of ${among}, `, methodName(this.run, first.method), " is best", words.join(""));
    } else place.replaceChildren("Use ", methodName(this.run, first.method), among ? `, best of ${among}` : "", words.join(""));
  }

  // How far the first is ahead, in words that follow its name.
  ahead([first, ...rest]) {
    const standard = [first, ...rest].find((one) => this.run.methods[one.method].standard);
    const equal = rest.filter((one) => one.rank === 1).map((one) => this.run.methods[one.method].label);
    const words = [standard === first ? `: no adaptation that has an answer pays here. Utility ${percent(first.utility)}` : `: utility ${percent(first.utility)}`];
    if (standard && standard !== first) words.push(`, ${points(first.utility - standard.utility)} above standard inference`);
    if (equal.length) words.push(`. Equal with ${equal.join(", ")}`);
    else if (rest.length && rest[0] !== standard) words.push(`, ${points(first.utility - rest[0].utility)} ahead of ${this.run.methods[rest[0].method].label}`);
    return words.join("");
  }

  // How sure an evaluated point is, on all shifts or one of them; Python worked it out.
  certainty() {
    const { everywhere, shifts } = this.run.certainty;
    const known = this.shift === null ? everywhere : shifts[this.shift];
    const points = this.beside.filter(({ scenario }) => known[scenario]);
    if (this.limit.scenario !== undefined) return points.length ? known[points[0].scenario] : "";
    return points.map(({ scenario, label }) => `At ${label}: ${known[scenario]}`).join(" ");
  }

  // The chosen shift, null for all of them together.
  get shift() {
    return byId("whatif-shift").value === "all" ? null : Number(byId("whatif-shift").value);
  }

  interval(method) {
    const { scenario } = this.limit;
    return scenario === undefined ? undefined : this.run.interval(method, this.shift, scenario);
  }

  rank(best, unknown) {
    const top = Math.max(...best.map((one) => Math.max(one.utility, this.interval(one.method)?.hi ?? 0)), 1e-9);
    const standard = best.find((one) => this.run.methods[one.method].standard);
    const known = best.map((one) => {
      const below = standard && one.utility < standard.utility;
      const sure = this.interval(one.method);
      const row = rankingRow(this.run, one.method, percent(one.utility, 2), reachText(sure), one.utility / top, below, sure && [sure.lo / top, sure.hi / top]);
      row.dataset.utility = one.utility;
      row.dataset.method = this.run.methods[one.method].name;
      const button = row.firstChild;
      button.title = [one.how, one.hi > one.lo ? `${rangeText(one.lo, one.hi)} within timing` : "", sure && sure.hi > sure.lo ? `${rangeText(sure.lo, sure.hi)} with other batches` : "",
        sure && !Number.isNaN(sure.best) ? `best with probability ${percent(sure.best, 0)}` : "", `wins ${this.run.methods[one.method].wins} cells of the run`].filter(Boolean).join(", ");
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
        make("span", { className: "reason" }, one.near ? `${one.why}; ${nearText(one.near)}` : one.why));
      const item = make("li", {}, row);
      item.dataset.method = this.run.methods[one.method].name;
      return item;
    });
    keepFocus(byId("ranking"), () => byId("ranking").replaceChildren(...known, ...others));
    const spec = { ...this.card.spec, [this.card.parameter]: Number(this.x.toPrecision(12)) };
    const measurable = unknown.some((one) => !one.why.startsWith("failed")) && !(this.card.limit === "threshold_ms" && this.x <= this.run.baseline_ms);
    byId("unanswered").textContent = measurable
      ? `To measure what is missing: add --set 'scenarios=[{${Object.entries(spec).map(([name, value]) => `${name}: ${yaml(value)}`).join(", ")}}]' to the command of this run.` : "";
  }

  single(method) {
    const name = method === null ? "" : this.run.methods[method].name;
    if (this.view) { this.view.signal("picked", name); this.view.runAsync(); }
  }

  async drawCurves() {
    const rows = this.curves();
    this.view = await draw(this.run, "curves", `curves_${this.card.protocol}`, { rows, here: [{ x: this.x }] }, this.finding(rows));
    feed(this.view, { here: [{ x: this.x }] }); // the slider may have moved while a new chart was made
  }

  // What the curves show, for whoever does not see them.
  finding(rows) {
    const leads = rows.filter((row) => row.best).map((row) => `${row.label} at ${row.scenario} with ${percent(row.utility)}`);
    return `Utility against ${this.card.knob.toLowerCase()}, one line per method. Best: ${leads.join("; ")}.`;
  }

  // Evaluated points of everybody; between them only what is exact.
  curves() {
    const shifts = this.shifts, rows = [];
    for (const { x, scenario, label } of this.points) {
      const best = ranked(answer(this.run, shifts, { ...this.limit, value: x, scenario }));
      best.forEach((one) => rows.push({ ...this.dot(one, x, label, true, one.rank === 1), ...this.whisker(one.method, scenario) }));
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

  whisker(method, scenario) {
    const sure = this.run.interval(method, this.shift, scenario);
    return sure && sure.hi > sure.lo ? { lo: sure.lo, hi: sure.hi, sample: rangeText(sure.lo, sure.hi) } : { sample: "–" };
  }

  dot(one, x, scenario, evaluated, best) {
    const { name, label, history_free, time_aware } = this.run.methods[one.method];
    const guide = time_aware || !(BETWEEN[this.card.limit] && (this.card.limit === "threshold_ms" || history_free)); // a line that only joins dots
    return { x, utility: one.utility, method: name, label, guide, scenario, evaluated, best, colour: methodColour(this.run, one.method), range: rangeText(one.lo, one.hi), rank: one.rank ? String(one.rank) : "", how: one.how };
  }
}

// The words of tempora_tta.analysis.neighbours.
const nearText = ({ lo, hi, labels, bounded }) => `${labels.length > 1 ? `between ${percent(lo)} and ${percent(hi)}` : percent(hi)} at ${labels.join(" and ")}${bounded ? "" : ", which is more relaxed"}`;
// An address that somebody cut off in the middle of a letter says nothing, and breaks nothing.
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return ""; }
}
const unitName = (unit) => (unit === "ms" ? "milliseconds" : unit);
const yaml = (value) => (typeof value === "string" && /^\w+$/.test(value) ? value : JSON.stringify(value));
const points = (difference) => `${hundredths(difference, 1)} points`;
