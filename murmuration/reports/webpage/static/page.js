"use strict";
const report = JSON.parse(document.getElementById("report-data").textContent);
const config = { displayModeBar: false, responsive: true };
const dashes = { solid: "", dash: "7,3", dot: "2,3", dashdot: "7,3,2,3" };

for (const place of document.querySelectorAll("[data-chart]")) {
  const chart = report.charts[place.dataset.chart];
  Plotly.newPlot(place, chart.data, chart.layout, config);
}

for (const button of document.querySelectorAll("[data-scheduler]")) {
  const name = button.dataset.scheduler;
  const style = report.styles[name];
  button.querySelector("svg").innerHTML =
    `<line x1="0" y1="6" x2="26" y2="6" stroke="${style.colour}" stroke-width="3" stroke-dasharray="${dashes[style.dash]}"/>`;
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    for (const place of document.querySelectorAll("[data-chart]")) {
      const traces = place.data.flatMap((trace, index) => (trace.meta === name ? [index] : []));
      if (traces.length) Plotly.restyle(place, { visible: shown }, traces);
    }
  });
}

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
