// Where a batch's time goes, and what overhead buys.

function drawCosts(run) {
  const place = new Map(run.methods.map((method, index) => [method.name, index]));
  const label = (name) => run.methods[place.get(name)].label;
  const rows = run.latency.flatMap((row) => {
    const usual = Math.min(row.predict_ms, run.baseline_ms);
    const parts = { baseline: [0, usual], intrinsic: [usual, row.predict_ms], extrinsic: [row.predict_ms, row.predict_ms + row.adapt_ms] };
    return Object.entries(parts).filter(([, [from, to]]) => to > from)
      .map(([part, [from, to]]) => ({ label: label(row.method), part, from, to, length: to - from, slowdown: row.slowdown }));
  });
  const slowest = run.latency.reduce((worst, row) => (row.slowdown > worst.slowdown ? row : worst), run.latency[0]);
  draw(run, "latency", "latency", { rows, baseline: [{ x: run.baseline_ms }] },
    slowest ? `Mean time of a batch by method and part. Slowest: ${label(slowest.method)}, ${slowest.slowdown.toFixed(2)} times λ.` : "No batch was timed.");

  byId("pareto-part").hidden = !run.budgets.length;
  if (!run.budgets.length) return;
  const point = (row) => ({ method: row.method, label: label(row.method), scenario: row.label, utility: row.utility, overhead_s: row.overhead_ms / 1000, colour: methodColour(run, place.get(row.method)), gain: row.gain_per_s === null ? "–" : `${points(row.gain_per_s)} per second` });
  draw(run, "pareto", "pareto", { rows: run.budgets.map(point), front: run.front.map(point) },
    `Utility against overhead spent. Nobody beats ${run.front.map((row) => `${label(row.method)} at ${row.label} with ${percent(row.utility)}`).join("; ")}.`);
  const turn = run.front.find((row) => row.diminishing);
  byId("pareto-note").textContent = "One line per method, budget by budget, over all shifts; the broad band is the front that nobody beats."
    + (turn ? ` Returns diminish from ${(turn.overhead_ms / 1000).toPrecision(3)} s on, reached by ${label(turn.method)} at ${turn.label}.` : "");
}
