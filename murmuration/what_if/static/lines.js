"use strict";
// Lines over time on a canvas: drag to zoom, double-click for the whole span, a click on a name hides its line.
const answer = JSON.parse(document.getElementById("answer-data").textContent);
const hidden = new Set();
const whole = [0, answer.times.length - 1];
let shown = [...whole];
const colours = ["#777", "#0b5cad", "#d1495b", "#2e7d32", "#b8860b", "#6a3d9a", "#00838f", "#ad5c0b", "#5d4037", "#c2185b"];
const style = getComputedStyle(document.documentElement);

function draw(canvas, name, cursor) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const [left, right, top, bottom] = [64, width - 12, 10, height - 26];
  const [first, last] = shown;
  const series = answer.labels.flatMap((label, place) => (hidden.has(label) ? [] : [[place, answer.series[label][name]]]));
  const most = Math.max(1, ...series.map(([, values]) => values.slice(first, last + 1).reduce((a, b) => Math.max(a, b), 0)));
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const every = power * [1, 2, 2.5, 5, 10].find((each) => each * power >= rough);
  const highest = every * Math.ceil(most / every);
  const x = (place) => left + ((right - left) * (place - first)) / Math.max(last - first, 1);
  const y = (value) => bottom - ((bottom - top) * value) / highest;
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = style.getPropertyValue("--soft");
  pen.strokeStyle = style.getPropertyValue("--line");
  for (let value = 0; value <= highest; value += every) {
    pen.textAlign = "right";
    pen.fillText(value.toLocaleString("en"), left - 6, y(value) + 4);
    pen.beginPath();
    pen.moveTo(left, y(value));
    pen.lineTo(right, y(value));
    pen.stroke();
  }
  const marks = Math.max(2, Math.min(8, Math.floor((right - left) / 180)));
  for (let mark = 0; mark <= marks; mark++) {
    const place = Math.round(first + ((last - first) * mark) / marks);
    pen.textAlign = mark === 0 ? "left" : mark === marks ? "right" : "center";
    pen.fillText(answer.times[place], x(place), height - 8);
  }
  for (const [place, values] of series) {
    pen.strokeStyle = colours[place % colours.length];
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (let at = first; at <= last; at++) pen.lineTo(x(at), y(values[at]));
    pen.stroke();
  }
  if (cursor !== undefined) {
    pen.fillStyle = "rgba(11, 92, 173, 0.12)";
    pen.fillRect(Math.min(...cursor), top, Math.max(Math.abs(cursor[1] - cursor[0]), 1), bottom - top);
  }
  return (pixels) => Math.round(first + ((last - first) * Math.min(Math.max(pixels - left, 0), right - left)) / (right - left));
}

const canvases = [...document.querySelectorAll("canvas[data-lines]")];
const redraw = () => canvases.forEach((canvas) => draw(canvas, canvas.dataset.lines));
for (const canvas of canvases) {
  let begun = null;
  const said = canvas.nextElementSibling;
  canvas.addEventListener("pointerdown", (event) => {
    begun = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const place = draw(canvas, canvas.dataset.lines, [begun ?? event.offsetX, event.offsetX])(event.offsetX);
    const values = answer.labels.filter((label) => !hidden.has(label));
    said.textContent = `${answer.times[place]}: ` + values
      .map((label) => `${label} ${Math.round(answer.series[label][canvas.dataset.lines][place]).toLocaleString("en")}`).join(", ");
  });
  canvas.addEventListener("pointerup", (event) => {
    const place = draw(canvas, canvas.dataset.lines);
    const ends = [place(begun ?? event.offsetX), place(event.offsetX)].sort((a, b) => a - b);
    if (begun !== null && Math.abs(event.offsetX - begun) > 5 && ends[1] - ends[0] > 1) shown = ends;
    begun = null;
    redraw();
  });
  canvas.addEventListener("dblclick", () => {
    shown = [...whole];
    redraw();
  });
}
for (const button of document.querySelectorAll("button[data-label]")) {
  const place = answer.labels.indexOf(button.dataset.label);
  button.querySelector("i").style.background = colours[place % colours.length];
  button.addEventListener("click", () => {
    const label = button.dataset.label;
    if (!hidden.delete(label)) hidden.add(label);
    button.setAttribute("aria-pressed", String(!hidden.has(label)));
    redraw();
  });
}
const choice = document.getElementById("grouping");
if (choice) {
  const show = () => document.querySelectorAll("[data-grouping]").forEach((each) => {
    each.hidden = each.dataset.grouping !== choice.value;
  });
  choice.addEventListener("change", show);
  show();
}
window.addEventListener("resize", redraw);
redraw();
