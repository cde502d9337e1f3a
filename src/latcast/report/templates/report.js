"use strict";
// Sorting and searching of the tables, and opening what a link leads to; all else stands without scripts.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = head.dataset.kind === "number";
      const now = head.getAttribute("aria-sort");
      const sign = now === (numeric ? "descending" : "ascending") ? -1 : 1;
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = numeric ? (a, b) => value(b) - value(a) : (a, b) => value(a).localeCompare(value(b), "en", { numeric: true });
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", (sign > 0) === numeric ? "descending" : "ascending");
      body.append(...[...body.rows].sort((a, b) => sign * order(a, b)));
    });
  });
}
for (const field of document.querySelectorAll("input[type=search]")) {
  const rows = [...document.getElementById(field.dataset.table).tBodies[0].rows];
  const shown = field.parentElement.querySelector("output");
  field.parentElement.hidden = false;
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = `${count} of ${rows.length}`;
  };
  field.addEventListener("input", search);
  search();
}
const reveal = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
};
addEventListener("hashchange", reveal);
reveal();
