// The board: filters, sorting, winners by device, one method across devices. Names only ever enter as text.

const ALL = "";
const percent = (value, digits = 1) => value === null ? "–" : (100 * value).toFixed(digits);
const unique = (values) => [...new Set(values)];
const MARKS = { undecided: " ~", equal: " =", unknown: " ?" };

const ALWAYS = ["network", "device", "stream"];
const SOMETIMES = ["dataset", "severity", "shifts", "batch_size", "batches", "seeds"];
const titled = (name) => name.replace("_", " ");
const linked = (run) => run.report ? make("a", { href: run.report }, run.name) : run.name;

class Board {
  constructor(data) {
    Object.assign(this, data);
    this.names = Object.keys(data.methods);
    for (const row of this.rows) {
      row.of = this.runs[row.run];
      row.full = `${row.protocol}: ${row.scenario}`;
    }
    this.scenarios = unique(this.rows.map((row) => row.full));
    this.sorted = { column: "utility", falling: true };
    // What tells runs apart: always the first three, the others where runs differ in them.
    this.varying = [...ALWAYS, ...SOMETIMES.filter((name) => unique(this.runs.map((run) => run[name])).length > 1)];
    this.columns = COLUMNS.filter((column) => !SOMETIMES.includes(column.id) || this.varying.includes(column.id));
  }

  method(name) {
    return make("span", { className: `method m${this.names.indexOf(name)}` }, this.methods[name].label);
  }
}

// What the leaderboard shows: a title, the value that it sorts by, and what stands in the cell.
const COLUMNS = [
  { id: "method", title: "method", text: true, value: (row, board) => board.methods[row.method].label, cell: (row, board) => board.method(row.method) },
  { id: "report", title: "run", text: true, value: (row) => row.of.name, cell: (row) => linked(row.of) },
  { id: "utility", title: "utility %", value: (row) => row.utility, cell: (row) => percent(row.utility) },
  { id: "interval", title: "95 % interval", value: (row) => row.sample_lo, cell: (row) => row.sample_lo === null ? "–" : `${percent(row.sample_lo)} – ${percent(row.sample_hi)}` },
  { id: "rank", title: "rank", value: (row) => row.rank, cell: (row) => row.rank === null ? "–" : `${row.rank}${MARKS[row.verdict] ?? ""}` },
  { id: "served_accuracy", title: "right %", value: (row) => row.served_accuracy, cell: (row) => percent(row.served_accuracy) },
  { id: "availability", title: "available %", value: (row) => row.availability, cell: (row) => percent(row.availability) },
  { id: "responsiveness", title: "responsive %", value: (row) => row.responsiveness, cell: (row) => percent(row.responsiveness) },
  ...[...ALWAYS, ...SOMETIMES].map((id) => ({ id, title: titled(id), text: true, value: (row) => row.of[id], cell: (row) => row.of[id] })),
  { id: "suite", title: "suite", text: true, value: (row) => row.of.suite ?? "", cell: (row) => row.of.suite ?? "–" },
  { id: "commit", title: "commit", text: true, value: (row) => row.of.commit_date || row.of.commit, cell: (row) => row.of.commit || "–" },
];

function compare(left, right) {
  if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1;
  return typeof left === "string" ? left.localeCompare(right) : left - right;
}

function sortedRows(rows, board) {
  const column = COLUMNS.find((one) => one.id === board.sorted.column);
  const sign = board.sorted.falling ? -1 : 1;
  return rows.toSorted((a, b) => {
    const [left, right] = [column.value(a, board), column.value(b, board)];
    return left === null || right === null ? compare(left, right) : sign * compare(left, right);
  });
}

function drawLeaderboard(board) {
  const chosen = Object.fromEntries(board.varying.map((name) => [name, byId(`f-${name}`).value]));
  const scenario = byId("f-scenario").value;
  const rows = board.rows.filter((row) => row.full === scenario &&
    Object.entries(chosen).every(([name, value]) => value === ALL || row.of[name] === value));
  byId("count").textContent = `${rows.length} results`;
  byId("board").tBodies[0].replaceChildren(...sortedRows(rows, board).map((row) =>
    make("tr", {}, ...board.columns.map((column) => make("td", { className: column.text ? "text" : "" }, column.cell(row, board))))));
  for (const heading of byId("board").tHead.rows[0].cells) {
    const mine = heading.dataset.column === board.sorted.column;
    heading.setAttribute("aria-sort", !mine ? "none" : board.sorted.falling ? "descending" : "ascending");
  }
}

function setUpLeaderboard(board) {
  fill(byId("f-scenario"), board.scenarios.map((name) => [name, name]));
  byId("filters").replaceChildren(...board.varying.map((name) =>
    make("label", {}, `${titled(name).replace(/^./, (first) => first.toUpperCase())} `, make("select", { id: `f-${name}` }))));
  for (const name of board.varying) {
    fill(byId(`f-${name}`), [[ALL, "all"], ...unique(board.runs.map((run) => run[name])).map((value) => [value, value])]);
  }
  byId("board").tHead.rows[0].replaceChildren(...board.columns.map((column) => {
    const button = make("button", { type: "button" }, column.title);
    button.addEventListener("click", () => {
      const again = board.sorted.column === column.id;
      board.sorted = { column: column.id, falling: again ? !board.sorted.falling : !column.text && column.id !== "rank" };
      drawLeaderboard(board);
    });
    const heading = make("th", { className: column.text ? "text" : "" }, button);
    heading.dataset.column = column.id;
    return heading;
  }));
  for (const name of ["scenario", ...board.varying]) byId(`f-${name}`).addEventListener("change", () => drawLeaderboard(board));
  drawLeaderboard(board);
}

// The newest run of a configuration speaks for it, alone: no column mixes runs.
function placesOf(board, network) {
  const newest = new Map();
  for (const run of board.runs) {
    const before = newest.get(run.configuration);
    if (run.network === network && (!before || run.commit_date >= before.commit_date)) newest.set(run.configuration, run);
  }
  return [...newest.values()];
}

// What a column is called: its device, and whatever else tells it from the others; at last the run's own name.
function headingsOf(places, board) {
  const more = board.varying.filter((name) => !["network", "device"].includes(name) && unique(places.map((run) => run[name])).length > 1);
  const told = (run, name) => SOMETIMES.includes(name) && name !== "shifts" ? `${titled(name)} ${run[name]}` : run[name]; // "5 shifts" says so itself
  const called = places.map((run) => unique([run.device, ...more.map((name) => told(run, name))]).join(", "));
  return called.map((text, place) => called.filter((other) => other === text).length > 1 ? `${text} (${places[place].name})` : text);
}

function winnerSquare(board, row) {
  if (!row) return make("span", { className: "square none" }, "–");
  const mark = MARKS[row.verdict] ?? "";
  return make("span", { className: `square m${board.names.indexOf(row.method)} ${mark === " ~" ? "undecided" : ""}`, title: `${percent(row.utility)} %, ${row.of.name}` },
    make("span", {}, board.methods[row.method].label + mark));
}

function drawWinners(board) {
  const places = placesOf(board, byId("w-network").value), headings = headingsOf(places, board);
  const firsts = board.rows.filter((row) => row.rank === 1 && places.includes(row.of));
  const scenarios = board.scenarios.filter((name) => firsts.some((row) => row.full === name));
  const grid = byId("winner-grid");
  grid.tHead.rows[0].replaceChildren(make("th"), ...headings.map((text) => make("th", {}, text)));
  grid.tBodies[0].replaceChildren(...scenarios.map((name) => make("tr", {}, make("th", { scope: "row" }, name),
    ...places.map((run) => make("td", {}, winnerSquare(board, firsts.find((row) => row.of === run && row.full === name)))))));
}

function drawAcross(board) {
  const method = byId("a-method").value, scenario = byId("a-scenario").value;
  const rows = board.rows.filter((row) => row.method === method && row.full === scenario).toSorted((a, b) => compare(b.utility, a.utility));
  const where = ["device", "network", ...board.varying.filter((name) => !["device", "network"].includes(name))];
  const columns = [
    ...where.map((name) => ({ title: titled(name), text: true, cell: (row) => row.of[name] })),
    { title: "utility %", cell: (row) => percent(row.utility) },
    { title: "rank", cell: (row) => String(row.rank ?? "–") },
    { title: "best there", text: true, cell: (row) => bestBeside(board, row) },
    { title: "run", text: true, cell: (row) => linked(row.of) },
  ];
  const kind = (column) => ({ className: column.text ? "text" : "" });
  const table = byId("across-table");
  table.tHead.rows[0].replaceChildren(...columns.map((column) => make("th", kind(column), column.title)));
  table.tBodies[0].replaceChildren(...rows.map((row) => make("tr", {}, ...columns.map((column) => make("td", kind(column), column.cell(row))))));
}

function bestBeside(board, row) {
  const best = board.rows.find((other) => other.run === row.run && other.full === row.full && other.rank === 1);
  return best ? board.method(best.method) : "–";
}

async function start() {
  const board = new Board(await readPayload(byId("payload").textContent));
  setUpLeaderboard(board);
  fill(byId("w-network"), unique(board.runs.map((run) => run.network)).map((name) => [name, name]));
  byId("w-network").addEventListener("change", () => drawWinners(board));
  drawWinners(board);
  fill(byId("a-method"), board.names.map((name) => [name, board.methods[name].label]));
  fill(byId("a-scenario"), board.scenarios.map((name) => [name, name]));
  for (const id of ["a-method", "a-scenario"]) byId(id).addEventListener("change", () => drawAcross(board));
  drawAcross(board);
  document.documentElement.dataset.ready = "true";
}

start();
