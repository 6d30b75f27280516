// The timing rules of tempora_tta.scenarios, for replays in the page. Same order of operations, so same numbers.

// Which batches a pipeline serves when one arrives every `interval`, and when each starts. `service` by batch.
function servePeriodic(service, interval, queue) {
  const count = service.length, served = [], start = [], evicted = [], waiting = [];
  const admit = (batch) => {
    if (!queue) { evicted.push(batch); return; }
    if (waiting.length === queue) evicted.push(waiting.shift());
    waiting.push(batch);
  };
  let next = 0, finish = -Infinity;
  for (;;) {
    while (next < count && next * interval < finish) admit(next++);
    // Arrivals of the instant in which the pipeline becomes free are queued before it picks; without a queue
    // it takes the first of them instead.
    if (queue) while (next < count && next * interval === finish) admit(next++);
    let batch, begin;
    if (waiting.length) {
      batch = waiting.shift();
      begin = finish;
    } else if (next < count) {
      batch = next++;
      begin = batch * interval;
    } else {
      return { served, start, evicted };
    }
    served.push(batch);
    start.push(begin);
    finish = begin + service[batch];
  }
}

// Value left of an answer: 1 up to the baseline, one half where the response reaches the threshold.
function decay(response, threshold, baseline) {
  return 1 / (1 + Math.max(0, response - baseline) / (threshold - baseline));
}

// Utility under a greedy user with patience `threshold`; `pace` scales all times.
function patienceUtility(stream, threshold, baseline, pace = 1) {
  let sum = 0, before = 0;
  for (let batch = 0; batch < stream.count; batch++) {
    const response = pace * (before + stream.predict_ms[batch]);
    sum += stream.accuracy[batch] * decay(response, threshold, baseline);
    before = stream.adapt_ms[batch];
  }
  return sum / stream.count;
}

function scheduleUtility(stream, interval, queue, pace = 1) {
  const service = pace === 1 ? stream.service_ms : stream.service_ms.map((time) => pace * time);
  const course = servePeriodic(service, interval, queue);
  const sum = course.served.reduce((total, batch) => total + stream.accuracy[batch], 0);
  return { utility: sum / stream.count, evicted: course.evicted.length };
}

// How many batches adapt before the budget freezes the model.
function budgetCutoff(stream, baseline, budget, rule, pace = 1) {
  let spent = 0;
  for (let batch = 0; batch < stream.count; batch++) {
    const charged = stream.phase[batch] === 1 ? Math.max(0, pace * stream.service_ms[batch] - baseline) : 0;
    if (rule === "strict" ? spent + charged > budget : spent >= budget) return batch;
    spent += charged;
  }
  return stream.count;
}
