// Putting it together.

function methodName(run, method) {
  return make("span", { className: `method m${method}` }, run.methods[method].label);
}

// A line of a ranking: name, value with a small note before it, and a bar in the method's colour.
function rankingRow(run, method, value, note, share, below) {
  const bar = make("i");
  bar.style.width = `${100 * Math.max(0, share)}%`;
  const button = make("button", { type: "button", className: `m${method} ${below ? "below" : ""}` },
    methodName(run, method), make("span", { className: "value" }, make("small", {}, note), value), make("span", { className: "bar" }, bar));
  return make("li", {}, button);
}

// Replace a list's items without taking the keyboard away from its reader.
function keepFocus(list, replace) {
  const at = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  replace();
  if (at >= 0) list.querySelectorAll("button")[at]?.focus({ preventScroll: true });
}

async function start() {
  setUpTables();
  const run = new Run(await readPayload(byId("payload").textContent));
  const whatIf = new WhatIf(run), cellView = new CellView(run);
  drawCosts(run);
  drawStream(run);
  darkMode.addEventListener("change", () => { whatIf.redraw(); cellView.open(cellView.chosen()); drawCosts(run); drawStream(run); });
  await Promise.all([...drawn.values()].map((chart) => chart.view));
  document.documentElement.dataset.ready = "true";
}

start();
