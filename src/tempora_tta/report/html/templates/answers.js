// What each method gets out of a limit that the reader chooses: exactly, or not at all.
//
// The same reasons as in tempora_tta.analysis.replays: any patience, any schedule that skips nothing, any schedule
// of a method without history, any budget that lasts or whose frozen tail is known.

// A limit: { protocol, kind (the knob that the page may move, else null), value, variant (queue or rule),
// scenario (position, if the run evaluated it) }
function answerStream(run, method, shift, seed, limit) {
  const evaluated = evaluatedRow(run, method, shift, seed, limit);
  if (evaluated !== undefined) {
    const { status, utility, utility_lo, utility_hi, batches } = run.cell(evaluated);
    if (status !== "ok") return { why: status };
    return { utility, lo: utility_lo, hi: utility_hi, batches, how: "evaluated" };
  }
  const stream = run.stream(method, shift, seed);
  if (!stream) return { why: "it has no offline pass to replay" };
  if (run.methods[method].time_aware) return { why: "it looks at the clock: every limit is a run of its own" };
  if (!REPLAYS[limit.kind]) return { why: "only evaluated points have an answer here" };
  const found = REPLAYS[limit.kind](run, method, shift, seed, stream, limit);
  return found.why ? found : { ...found, batches: stream.count };
}

const REPLAYS = {
  threshold_ms(run, method, shift, seed, stream, { value }) {
    if (!(value > run.baseline_ms)) return { why: "T must be above λ: standard inference itself would be late" };
    return ranged(stream, "recomputed", (pace) => patienceUtility(stream, value, run.baseline_ms, pace));
  },

  interval_ms(run, method, shift, seed, stream, { value, variant }) {
    const { evicted } = scheduleUtility(stream, value, variant);
    if (evicted && !run.methods[method].history_free) {
      return { why: `would skip batches here (${evicted} or so of ${stream.count}), which was not measured` };
    }
    return ranged(stream, "replayed", (pace) => scheduleUtility(stream, value, variant, pace).utility);
  },

  budget_ms(run, method, shift, seed, stream, { value, variant }) {
    const cutoff = budgetCutoff(stream, run.baseline_ms, value, variant);
    if (cutoff === stream.count) return ranged(stream, "replayed", () => mean(stream.accuracy));
    const frozen = frozenHere(run, method, shift, seed, cutoff);
    if (frozen !== undefined) {
      const { utility, utility_lo, utility_hi } = run.cell(frozen);
      return { utility, lo: utility_lo, hi: utility_hi, how: "replayed" };
    }
    const standard = run.methods.findIndex((one) => one.standard);
    const tail = run.methods[method].stateless && run.stream(standard, shift, seed);
    if (!tail) return { why: `would freeze after ${cutoff} batches, and its frozen model there was not measured` };
    return ranged(stream, "replayed", (pace) => {
      const frozenFrom = budgetCutoff(stream, run.baseline_ms, value, variant, pace);
      return mean(stream.accuracy.map((accuracy, batch) => (batch < frozenFrom ? accuracy : tail.accuracy[batch])));
    });
  },
};

// Utility with the range that the timing uncertainty of the pass leaves.
function ranged(stream, how, score) {
  const utility = score(1), reach = stream.uncertainty;
  const all = reach ? [utility, score(1 - reach), score(1 + reach)] : [utility];
  return { utility, lo: Math.min(...all), hi: Math.max(...all), how };
}

function evaluatedRow(run, method, shift, seed, limit) {
  if (limit.scenario !== undefined) return run.row(method, shift, seed, limit.scenario);
  for (const scenario of scenariosOf(run, limit.protocol, limit.variant)) {
    const row = run.row(method, shift, seed, scenario);
    if (row !== undefined && close(run.cells.value[row], limit.value)) return row;
  }
  return undefined;
}

// An evaluated budget that froze the same stream at the same batch.
function frozenHere(run, method, shift, seed, cutoff) {
  return run.scenarios.flatMap((scenario, place) => (scenario.limit === "budget_ms" ? [place] : []))
    .map((scenario) => run.row(method, shift, seed, scenario))
    .find((row) => row !== undefined && run.cells.status[row] === "ok" && run.cells.cutoff[row] === cutoff);
}

function scenariosOf(run, protocol, variant) {
  return run.scenarios.flatMap((scenario, place) =>
    scenario.protocol === protocol && (variant === undefined || scenario.variant === variant) ? [place] : []);
}

// One answer per method over several shifts and all seeds, weighted by batches as tempora_tta.analysis.pool does.
function answer(run, shifts, limit) {
  return run.methods.map((_, method) => answerMethod(run, method, shifts, limit));
}

function answerMethod(run, method, shifts, limit) {
  const parts = shifts.flatMap((shift) => run.seeds.map((_, seed) => answerStream(run, method, shift, seed, limit)));
  const missing = parts.find((part) => part.why);
  if (missing) return { method, why: missing.why };
  const batches = parts.reduce((sum, part) => sum + part.batches, 0);
  const pooled = (name) => parts.reduce((sum, part) => sum + part[name] * part.batches, 0) / batches;
  const how = [...new Set(parts.map((part) => part.how))].join(" and ");
  return { method, utility: pooled("utility"), lo: pooled("lo"), hi: pooled("hi"), how };
}

// Best first; equal ones, to twelve digits, share the better rank, as in tempora_tta.analysis.ranks. How sure that is,
// tempora_tta.analysis.doubt says for what was evaluated.
function ranked(answers) {
  const rounded = ({ utility }) => Number(utility.toFixed(12));
  const known = answers.filter((one) => !one.why).sort((a, b) => rounded(b) - rounded(a));
  known.forEach((one, place) => {
    const before = known[place - 1];
    one.rank = before && rounded(before) === rounded(one) ? before.rank : place + 1;
  });
  return known;
}
