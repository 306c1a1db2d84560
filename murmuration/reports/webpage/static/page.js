"use strict";
const report = JSON.parse(document.getElementById("report-data").textContent);
const config = { displayModeBar: false, responsive: true };
const dashes = { solid: "", dash: "7,3", dot: "2,3", dashdot: "7,3,2,3" };

// Charts are described in the colours of a light page.
function darken({ layout }) {
  const lines = { gridcolor: "#3a3d42", linecolor: "#777" };
  Object.assign(layout, { paper_bgcolor: "#17191c", plot_bgcolor: "#17191c" });
  layout.font = { ...layout.font, color: "#ddd" };
  for (const name of Object.keys(layout).filter((each) => /^[xy]axis/.test(each))) Object.assign(layout[name], lines);
}
if (matchMedia("(prefers-color-scheme: dark)").matches) Object.values(report.charts).forEach(darken);

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
