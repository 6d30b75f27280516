// The what-if panel: a limit moves from stop to stop; what each stop says was worked out beforehand.

class WhatIf {
  constructor(run) {
    this.run = run;
    this.picked = null;
    this.place = 0;
    if (!run.sliders.length) return;
    this.tabs = [...new Map(run.sliders.map((slider) => [slider.protocol, slider])).values()].map((slider) => this.tab(slider));
    byId("protocols").append(...this.tabs);
    fill(byId("whatif-shift"), [...(run.shifts.length > 1 ? [[0, run.counted.length < run.shifts.length ? "All shifts, clean apart" : "All shifts"]] : []), ...run.shifts.map((shift, at) => [at + 1, shift.title])]);
    this.place = Number(byId("whatif-shift").value);
    byId("whatif-shift").addEventListener("change", (event) => { this.touched = true; this.place = Number(event.target.value); this.redraw(); });
    byId("whatif-variant").addEventListener("change", (event) => { this.touched = true; this.choose(run.sliders[event.target.value]); });
    byId("slider").addEventListener("input", (event) => { this.touched = true; this.move(Number(event.target.value)); });
    window.addEventListener("hashchange", () => this.follow());
    if (!this.follow()) this.choose(run.sliders[run.first_slider]);
  }

  tab(slider) {
    const input = make("input", { type: "radio", name: "protocol", value: slider.protocol });
    input.addEventListener("change", () => { this.touched = true; this.choose(slider); });
    return make("label", {}, input, make("span", {}, slider.situation));
  }

  // Show what the address names: #what-if/PROTOCOL/VALUE/SHIFT/VARIANT. Shift 0 is all of them; variants are positions.
  follow() {
    const [section, protocol, value, shift, variant] = location.hash.slice(1).split("/").map(decoded);
    const members = this.run.sliders.filter((slider) => slider.protocol === protocol);
    if (section !== "what-if" || !members.length) return false;
    if ([...byId("whatif-shift").options].some((option) => option.value === shift)) byId("whatif-shift").value = shift;
    this.place = Number(byId("whatif-shift").value);
    this.choose(members[variant] ?? members[0], Number(value));
    byId("what-if").scrollIntoView();
    this.touched = true;
    return true;
  }

  // Keep the state in the address, so that it can be sent to others.
  remember() {
    if (!this.touched) return;
    const variant = this.run.sliders.filter((other) => other.protocol === this.slider.protocol).indexOf(this.slider);
    const state = [this.slider.protocol, this.x, this.place, variant];
    try {
      history.replaceState(null, "", `#what-if/${state.map(encodeURIComponent).join("/")}`);
    } catch { /* some places forbid it, and nothing depends on it */ }
  }

  // Show a slider, at the stop nearest to a value or in its middle.
  choose(slider, value = NaN) {
    this.slider = slider;
    this.tabs.find((tab) => tab.firstChild.value === slider.protocol).firstChild.checked = true;
    const variants = this.run.sliders.flatMap((other, place) => (other.protocol === slider.protocol ? [[place, other.variant]] : []));
    fill(byId("whatif-variant"), variants);
    byId("whatif-variant").value = this.run.sliders.indexOf(slider);
    byId("variant-field").hidden = variants.length < 2;
    byId("slider-name").textContent = slider.knob;
    byId("slider").max = slider.values.length - 1;
    const points = slider.values.map((_, stop) => stop).filter((stop) => slider.evaluated[stop] !== null);
    byId("ticks").replaceChildren(...points.map((stop) => {
      const tick = make("span", {}, slider.labels[stop].replace(/^\S (?=\d)/, ""));
      tick.style.left = `${100 * stop / Math.max(1, slider.values.length - 1)}%`;
      return tick;
    }));
    const far = (stop) => Math.abs(Math.log(slider.values[stop] / value));
    const stops = slider.values.map((_, stop) => stop);
    this.move(value > 0 ? stops.reduce((best, stop) => (far(stop) < far(best) ? stop : best)) : points[Math.floor((points.length - 1) / 2)]);
    this.drawCurves();
  }

  move(stop) {
    this.stop = stop;
    byId("slider").value = stop;
    byId("slider").setAttribute("aria-valuetext", `${this.slider.knob} ${this.text}`);
    byId("slider-value").textContent = this.text;
    this.show();
  }

  get x() { return this.slider.values[this.stop]; }
  get text() { return `${Number(this.x.toPrecision(4))} ${this.slider.unit}${this.slider.labels[this.stop] && ` (${this.slider.labels[this.stop]})`}`; }

  at(method, stop) { return (this.place * this.slider.values.length + stop) * this.run.methods.length + method; }
  utility(method, stop) { return this.slider.utility[this.at(method, stop)]; }
  interval(method, stop) {
    const number = this.slider.evaluated[stop];
    return number === null ? undefined : this.run.interval(method, this.place, this.run.scenarios.findIndex((one) => one.number === number));
  }

  // Methods with a utility at a stop, best first.
  ranked(stop) {
    const known = this.run.methods.flatMap((_, method) => (Number.isNaN(this.utility(method, stop)) ? [] : [method]));
    return known.sort((a, b) => this.utility(b, stop) - this.utility(a, stop));
  }

  show() {
    byId("recommendation").textContent = this.slider.sentences[this.place * this.slider.values.length + this.stop];
    byId("recommend-command").textContent = this.slider.commands[this.stop];
    this.rank();
    this.remember();
    if (this.view) feed(this.view, { here: [{ x: this.x }] });
  }

  redraw() {
    if (!this.slider) return;
    this.show();
    this.drawCurves();
  }

  rank() {
    const { run, stop } = this, best = this.ranked(stop);
    const sure = new Map(best.map((method) => [method, this.interval(method, stop)]));
    const top = Math.max(...best.map((method) => Math.max(this.utility(method, stop), sure.get(method)?.hi ?? 0)), 1e-9);
    const standard = best.find((method) => run.methods[method].standard);
    const known = best.map((method) => {
      const utility = this.utility(method, stop), interval = sure.get(method);
      const item = rankingRow(run, method, percent(utility, 2), reachText(interval), utility / top, utility < this.utility(standard, stop), interval && [interval.lo / top, interval.hi / top]);
      Object.assign(item.dataset, { utility, method: run.methods[method].name });
      const button = item.firstChild;
      if (interval) button.title = `${rangeText(interval.lo, interval.hi)} with other batches, best with probability ${percent(interval.best, 0)}`;
      button.setAttribute("aria-pressed", String(this.picked === method));
      for (const event of ["mouseenter", "focus"]) button.addEventListener(event, () => this.single(method));
      for (const event of ["mouseleave", "blur"]) button.addEventListener(event, () => this.single(this.picked));
      button.addEventListener("click", () => { this.picked = this.picked === method ? null : method; this.show(); this.single(this.picked); });
      return item;
    });
    const others = run.methods.flatMap((_, method) => (best.includes(method) ? [] : [make("li", {}, make("div", { className: "row none" },
      methodName(run, method), make("span", { className: "value" }, "–"), make("span", { className: "reason" }, this.slider.why[this.at(method, stop)])))]));
    keepFocus(byId("ranking"), () => byId("ranking").replaceChildren(...known, ...others));
  }

  single(method) {
    if (this.view) { this.view.signal("picked", method === null ? "" : this.run.methods[method].name); this.view.runAsync(); }
  }

  async drawCurves() {
    const rows = this.curves();
    const leads = rows.filter((row) => row.best).map((row) => `${row.label} at ${row.scenario} with ${percent(row.utility)}`);
    const finding = `Utility against ${this.slider.knob.toLowerCase()}, one line per method. Best: ${leads.join("; ")}.`;
    this.view = await draw(this.run, "curves", `curves_${this.slider.protocol}`, { rows, here: [{ x: this.x }] }, finding);
    feed(this.view, { here: [{ x: this.x }] }); // the slider may have moved while a new chart was made
  }

  // Every stop of every method; a line that only joins what was evaluated is dotted.
  curves() {
    const { run, slider } = this, best = slider.values.map((_, stop) => this.ranked(stop)[0]);
    return run.methods.flatMap(({ name, label }, method) => {
      const guide = slider.values.some((_, stop) => Number.isNaN(this.utility(method, stop)));
      return slider.values.flatMap((x, stop) => {
        const utility = this.utility(method, stop), evaluated = slider.evaluated[stop] !== null;
        if (Number.isNaN(utility) || (guide && !evaluated)) return [];
        const sure = this.interval(method, stop) ?? {};
        return [{ x, utility, method: name, label, guide, evaluated, scenario: slider.labels[stop], best: evaluated && best[stop] === method, colour: methodColour(run, method), lo: sure.lo, hi: sure.hi, sample: rangeText(sure.lo, sure.hi) }];
      });
    });
  }
}

// An address that was cut off in the middle of a letter says nothing, and breaks nothing.
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return ""; }
}
