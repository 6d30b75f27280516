// Accuracy over the course of a stream of many shifts; pages of single shifts have no place for it.

function drawStream(run) {
  if (!run.over_time) return;
  const { parts, lines } = run.over_time, at = unpack(run.over_time.batch);
  const segmentOf = (batch) => parts.find((part) => batch < part.first + part.batches)?.name;
  const rows = lines.flatMap((line) => {
    const accuracy = unpack(line.accuracy), reach = unpack(line.reach);
    const { name, label } = run.methods[line.method];
    return Array.from(at, (batch, place) => ({
      method: name, label, colour: methodColour(run, line.method), batch, segment: segmentOf(batch), accuracy: accuracy[place],
      low: Math.max(0, accuracy[place] - reach[place]), high: Math.min(1, accuracy[place] + reach[place]),
    }));
  });
  const shaded = parts.filter((_, place) => place % 2)
    .map((part) => ({ name: part.name, from: part.first - 0.5, to: part.first + part.batches - 0.5 }));
  const last = rows.filter((row) => row.batch === at[at.length - 1]).sort((a, b) => b.accuracy - a.accuracy);
  draw(run, "stream", "stream", { rows, parts: shaded },
    `Accuracy over ${parts.length} segments of the stream. At its end: ${last.map((row) => `${row.label} ${percent(row.accuracy)}`).join(", ")}.`);
}
