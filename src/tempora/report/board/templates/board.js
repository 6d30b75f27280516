// The board: filters, sorting, winners by device, one method across devices. Names only ever enter as text.

const ALL = "";
const percent = (value, digits = 1) => value === null ? "–" : (100 * value).toFixed(digits);
const unique = (values) => [...new Set(values)];
const MARKS = { undecided: " ~", equal: " =", unknown: " ?" };

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
  }

  method(name) {
    return make("span", { className: `method m${this.names.indexOf(name)}` }, this.methods[name].label);
  }
}

// What the leaderboard shows: a title, the value that it sorts by, and what stands in the cell.
const COLUMNS = [
  { id: "method", title: "method", text: true, value: (row, board) => board.methods[row.method].label, cell: (row, board) => board.method(row.method) },
  { id: "utility", title: "utility %", value: (row) => row.utility, cell: (row) => percent(row.utility) },
  { id: "interval", title: "95 % interval", value: (row) => row.sample_lo, cell: (row) => row.sample_lo === null ? "–" : `${percent(row.sample_lo)} – ${percent(row.sample_hi)}` },
  { id: "rank", title: "rank", value: (row) => row.rank, cell: (row) => row.rank === null ? "–" : `${row.rank}${MARKS[row.verdict] ?? ""}` },
  { id: "served_accuracy", title: "right %", value: (row) => row.served_accuracy, cell: (row) => percent(row.served_accuracy) },
  { id: "availability", title: "available %", value: (row) => row.availability, cell: (row) => percent(row.availability) },
  { id: "responsiveness", title: "responsive %", value: (row) => row.responsiveness, cell: (row) => percent(row.responsiveness) },
  ...["network", "device", "stream"].map((id) => ({ id, title: id, text: true, value: (row) => row.of[id], cell: (row) => row.of[id] })),
  { id: "suite", title: "suite", text: true, value: (row) => row.of.suite ?? "", cell: (row) => row.of.suite ?? "–" },
  { id: "commit", title: "commit", text: true, value: (row) => row.of.commit_date || row.of.commit, cell: (row) => row.of.commit || "–" },
  { id: "report", title: "run", text: true, value: (row) => row.of.name, cell: (row) => row.of.report ? make("a", { href: row.of.report }, row.of.name) : row.of.name },
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
  const chosen = Object.fromEntries(["network", "device", "stream"].map((name) => [name, byId(`f-${name}`).value]));
  const scenario = byId("f-scenario").value;
  const rows = board.rows.filter((row) => row.full === scenario &&
    Object.entries(chosen).every(([name, value]) => value === ALL || row.of[name] === value));
  byId("count").textContent = `${rows.length} results`;
  byId("board").tBodies[0].replaceChildren(...sortedRows(rows, board).map((row) =>
    make("tr", {}, ...COLUMNS.map((column) => make("td", { className: column.text ? "text" : "" }, column.cell(row, board))))));
  for (const heading of byId("board").tHead.rows[0].cells) {
    const mine = heading.dataset.column === board.sorted.column;
    heading.setAttribute("aria-sort", !mine ? "none" : board.sorted.falling ? "descending" : "ascending");
  }
}

function setUpLeaderboard(board) {
  fill(byId("f-scenario"), board.scenarios.map((name) => [name, name]));
  for (const name of ["network", "device", "stream"]) {
    fill(byId(`f-${name}`), [[ALL, "all"], ...unique(board.runs.map((run) => run[name])).map((value) => [value, value])]);
  }
  byId("board").tHead.rows[0].replaceChildren(...COLUMNS.map((column) => {
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
  for (const name of ["scenario", "network", "device", "stream"]) byId(`f-${name}`).addEventListener("change", () => drawLeaderboard(board));
  drawLeaderboard(board);
}

// The newest run of a network on a device under a scenario speaks for the device.
function winnersOf(board, network) {
  const found = new Map();
  for (const row of board.rows) {
    if (row.of.network !== network || row.rank !== 1) continue;
    const key = JSON.stringify([row.full, row.of.device, row.of.stream]);
    const before = found.get(key);
    if (!before || row.of.commit_date > before.of.commit_date) found.set(key, row);
  }
  return found;
}

function drawWinners(board) {
  const network = byId("w-network").value, found = winnersOf(board, network);
  const places = unique([...found.keys()].map((key) => JSON.stringify(JSON.parse(key).slice(1)))).map((text) => JSON.parse(text));
  const scenarios = board.scenarios.filter((name) => [...found.keys()].some((key) => JSON.parse(key)[0] === name));
  const grid = byId("winner-grid");
  grid.tHead.rows[0].replaceChildren(make("th"), ...places.map(([device, stream]) => make("th", {}, stream === "single" ? device : `${device}, ${stream}`)));
  grid.tBodies[0].replaceChildren(...scenarios.map((name) => make("tr", {}, make("th", { scope: "row" }, name),
    ...places.map((place) => {
      const row = found.get(JSON.stringify([name, ...place]));
      if (!row) return make("td", {}, make("span", { className: "square none" }, "–"));
      const mark = MARKS[row.verdict] ?? "";
      const square = make("span", { className: `square m${board.names.indexOf(row.method)} ${mark === " ~" ? "undecided" : ""}`, title: `${percent(row.utility)} %` },
        make("span", {}, board.methods[row.method].label + mark));
      return make("td", {}, square);
    }))));
}

function drawAcross(board) {
  const method = byId("a-method").value, scenario = byId("a-scenario").value;
  const rows = board.rows.filter((row) => row.method === method && row.full === scenario).toSorted((a, b) => compare(b.utility, a.utility));
  const titles = ["device", "network", "stream", "utility %", "rank", "best there", "run"];
  const table = byId("across-table");
  table.tHead.rows[0].replaceChildren(...titles.map((title, place) => make("th", { className: place < 3 || place > 4 ? "text" : "" }, title)));
  table.tBodies[0].replaceChildren(...rows.map((row) => {
    const best = board.rows.find((other) => other.run === row.run && other.full === scenario && other.rank === 1);
    const text = (value) => make("td", { className: "text" }, value);
    return make("tr", {}, text(row.of.device), text(row.of.network), text(row.of.stream), make("td", {}, percent(row.utility)), make("td", {}, String(row.rank ?? "–")),
      text(best ? board.method(best.method) : "–"), text(row.of.report ? make("a", { href: row.of.report }, row.of.name) : row.of.name));
  }));
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
