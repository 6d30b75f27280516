// Putting it together.

function methodName(run, method) {
  return make("span", { className: `method m${method}` }, run.methods[method].label);
}

// A line of a ranking: name, value with a small note before it, and a bar in the method's colour, on it the interval
// of the value, as shares of the bar's whole length.
function rankingRow(run, method, value, note, share, below, interval) {
  const bar = make("i");
  bar.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  const whisker = make("u");
  if (interval && interval[1] > interval[0]) {
    const [lo, hi] = interval.map((end) => 100 * Math.min(1, Math.max(0, end)));
    Object.assign(whisker.style, { left: `${lo}%`, width: `${hi - lo}%` });
  }
  const button = make("button", { type: "button", className: `m${method} ${below ? "below" : ""}` },
    methodName(run, method), make("span", { className: "value" }, make("small", {}, note), value), make("span", { className: "bar" }, bar, whisker));
  return make("li", {}, button);
}

const reachText = (interval) => (interval && interval.hi > interval.lo ? `± ${(50 * (interval.hi - interval.lo)).toFixed(1)} ` : "");

// Replace a list's items without taking the keyboard away from its reader.
function keepFocus(list, replace) {
  const at = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  replace();
  if (at >= 0) list.querySelectorAll("button")[at]?.focus({ preventScroll: true });
}

// One stop of the Tab key in the grid; arrows go from cell to cell.
function setUpGrid() {
  const rows = [...document.querySelectorAll(".grid tbody tr")].map((row) => [...row.querySelectorAll(".square")]);
  const all = rows.flat();
  all.forEach((square, place) => { square.tabIndex = place ? -1 : 0; });
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.querySelector(".grid")?.addEventListener("keydown", (event) => {
    const step = steps[event.key], row = rows.findIndex((line) => line.includes(event.target));
    if (!step || row < 0) return;
    event.preventDefault();
    const next = rows[row + step[0]]?.[rows[row].indexOf(event.target) + step[1]];
    if (!next) return;
    all.forEach((square) => { square.tabIndex = square === next ? 0 : -1; });
    next.focus();
  });
}

// Say so where something is wider than its window.
function tellWide() {
  document.querySelectorAll(".scroll").forEach((box) => {
    const hint = box.previousElementSibling?.classList.contains("more") ? box.previousElementSibling : make("p", { className: "more" }, "Wider than the window: scroll sideways for the rest →");
    hint.hidden = box.hidden || box.scrollWidth <= box.clientWidth + 1;
    if (!hint.isConnected) box.before(hint);
  });
}

// Utility against pressure, one kind of deployment at a time.
function drawPressure(run) {
  const kind = document.querySelector("#pressures :checked")?.value;
  if (kind) draw(run, "pressure", `pressure_${kind}`, {}, run.findings[kind]);
}

async function start() {
  setUpTables();
  setUpGrid();
  tellWide();
  window.addEventListener("resize", tellWide);
  byId("table-choice").addEventListener("change", tellWide);
  const run = new Run(await readPayload(byId("payload").textContent));
  byId("pressures")?.addEventListener("change", () => drawPressure(run));
  drawPressure(run);
  const whatIf = new WhatIf(run), cellView = new CellView(run);
  drawWhole(run);
  darkMode.addEventListener("change", () => { whatIf.redraw(); cellView.open(cellView.chosen()); drawWhole(run); drawPressure(run); });
  await Promise.all([...drawn.values()].map((chart) => chart.view));
  document.documentElement.dataset.ready = "true";
}

start();
