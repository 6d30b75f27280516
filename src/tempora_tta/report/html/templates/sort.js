// Tables that sort by any column.

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

document.querySelectorAll(".table thead button").forEach((button) => button.addEventListener("click", () => sortBy(button.parentElement)));
