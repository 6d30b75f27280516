// Tables that sort by any column, copy as tab-separated text and download as CSV; and copying in general.

function setUpTables() {
  const tables = [...document.querySelectorAll("[data-table]")];
  const choice = byId("table-choice");
  choice.addEventListener("change", () => tables.forEach((table) => { table.hidden = table.dataset.table !== choice.value; }));
  const chosen = () => tables.find((table) => !table.hidden);
  byId("copy-table").addEventListener("click", () => copy(asText(chosen()), "table-copied"));
  byId("download-table").addEventListener("click", () => download(`${chosen().dataset.name}.csv`, asCsv(chosen())));
  for (const what of ["command", "remedy"]) byId(`copy-${what}`)?.addEventListener("click", () => copy(byId(what).textContent, `${what}-copied`));
}

// The table as a spreadsheet wants it: a number alone in its cell; interval, rank and sign in columns of their own.
function asRows(table) {
  const whole = table.querySelector("table"), columns = [...whole.tHead.rows].at(-1).cells, lines = [...whole.tBodies[0].rows];
  const found = [...columns].flatMap((heading, place) => {
    const cells = lines.map((line) => line.cells[place]), title = heading.dataset.title;
    const parts = [
      [title, heading.classList.contains("text") ? ownText : number],
      [`${title} low`, (cell) => cell.dataset.lo ?? ""], [`${title} high`, (cell) => cell.dataset.hi ?? ""],
      [`${title} rank`, (cell) => textOf(cell, "sup")], [`${title} sign`, (cell) => textOf(cell, ".flag")],
    ];
    return parts.map(([name, text]) => [name, ...cells.map(text)]).filter((column, part) => part === 0 || column.slice(1).some(Boolean));
  });
  return found[0].map((_, line) => found.map((column) => column[line]));
}

const textOf = (cell, selector) => cell.querySelector(selector)?.textContent ?? "";
const ownText = (cell) => [...cell.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent).join("").trim();
// "1,234", "+0.5" and "3.00×" are for people; a dash is no number.
const number = (cell) => ownText(cell).replace(/[,+×]|^–$/g, "");

const asText = (table) => asRows(table).map((row) => row.join("\t")).join("\n");

// One line per row. A name that a spreadsheet would calculate gets a quote before it.
function asCsv(table) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const safe = (text) => (/^[=+@\t\r]|^-(?![\d.]+$)/.test(text) ? `'${text}` : text);
  return asRows(table).map((row) => row.map((text) => quoted(safe(text))).join(",")).join("\n") + "\n";
}

function download(name, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function copy(text, where) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages opened from disk may not have the clipboard; a selected text area always can be copied.
    const area = make("textarea", { value: text });
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  byId(where).textContent = done ? "copied" : "could not copy";
  setTimeout(() => { byId(where).textContent = ""; }, 2500);
}
