// Tables that sort by any column and copy as tab-separated text; and copying in general.

function setUpTables() {
  const tables = [...document.querySelectorAll("[data-table]")];
  const choice = byId("table-choice");
  choice.addEventListener("change", () => tables.forEach((table) => { table.hidden = table.dataset.table !== choice.value; }));
  document.querySelectorAll(".table thead button").forEach((button) => button.addEventListener("click", () => sortBy(button.parentElement)));
  const chosen = () => tables.find((table) => !table.hidden);
  byId("copy-table").addEventListener("click", () => copy(asText(chosen()), "table-copied"));
  byId("download-table").addEventListener("click", () => download(`${chosen().dataset.name}.csv`, asCsv(chosen())));
  byId("copy-command")?.addEventListener("click", () => copy(byId("command").textContent, "command-copied"));
}

function sortBy(heading) {
  const column = heading.cellIndex, body = heading.closest("table").tBodies[0];
  const falling = heading.getAttribute("aria-sort") === "descending" || (heading.classList.contains("text") && heading.getAttribute("aria-sort") === "none");
  const rows = [...body.rows];
  const key = (row) => row.cells[column].dataset.value;
  const compare = (a, b) => {
    const [left, right] = [key(a), key(b)];
    if (left === "" || right === "") {
      return left === right ? a.cells[column].textContent.localeCompare(b.cells[column].textContent) : left === "" ? 1 : -1;
    }
    return left - right;
  };
  rows.sort(falling ? compare : (a, b) => compare(b, a));
  rows.forEach((row) => row.classList.remove("rule"));
  body.append(...rows);
  heading.parentElement.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", "none"));
  heading.setAttribute("aria-sort", falling ? "ascending" : "descending");
}

function asText(table) {
  const text = (cell) => [...cell.childNodes].filter((node) => !["SUP", "SMALL"].includes(node.nodeName)).map((node) => node.textContent).join("").trim();
  return [...table.querySelectorAll("tr:not(.groups)")].map((row) => [...row.cells].map(text).join("\t")).join("\n");
}

// What is seen, one line per row. A name that a spreadsheet would calculate gets a quote before it.
function asCsv(table) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const safe = (text) => (/^[=+@\t\r]|^-(?![\d.]+$)/.test(text) ? `'${text}` : text);
  return asText(table).split("\n").map((line) => line.split("\t").map((text) => quoted(safe(text))).join(",")).join("\n") + "\n";
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
