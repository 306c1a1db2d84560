// A click on a heading sorts its table by that column, a second click the other way round; bounds stay below.
for (const heading of document.querySelectorAll("thead th")) {
  const sort = () => {
    const rows = [...heading.closest("table").tBodies[0].rows];
    const column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    const value = (row) => {
      const number = parseFloat(row.cells[column].textContent.replaceAll(",", ""));
      return Number.isNaN(number) ? (column ? Infinity : row.cells[column].textContent) : number;
    };
    const fixed = (row) => Number(row.className === "bound");
    rows.sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      return fixed(one) - fixed(other) || (a < b ? -1 : a > b ? 1 : 0) * (down && a !== Infinity && b !== Infinity ? -1 : 1);
    });
    for (const each of heading.parentNode.cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    heading.closest("table").tBodies[0].append(...rows);
  };
  heading.tabIndex = 0;
  heading.addEventListener("click", sort);
  heading.addEventListener("keydown", (event) => event.key === "Enter" && sort());
}
