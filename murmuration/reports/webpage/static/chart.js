"use strict";
// Charts as SVG: lines, marks, error bars and boxes on linear, logarithmic or named axes. What is pointed at is described.
// `charts.py` says what a chart is. A drag over an axis of time zooms all of them, a double click shows the whole span.
const symbols = {
  circle: "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
  square: "M-4,-4h8v8h-8z",
  diamond: "M0,-5.5L5.5,0L0,5.5L-5.5,0z",
  "triangle-up": "M0,-5L5,4H-5z",
};
const dashes = { solid: "", dash: "7,4", dot: "2,3", dashdot: "7,3,2,3" };
const reach = 30; // pixels between the pointer and what it describes
const pen = document.createElement("canvas").getContext("2d");
const tip = document.createElement("div");
const clocks = [60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000];
let zoomed = null; // range of all axes of time, in seconds

const width = (text) => pen.measureText(text).width;
const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
const dated = (axis, value) => new Date(Date.parse(axis.zero) + value * axis.unit * 1000).toISOString();

function make(tag, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

// Returns a function that writes a value as hovering and ticks show it.
function writerOf(axis) {
  if (axis.zero) return (value) => dated(axis, value).slice(0, 16).replace("T", " ");
  if (axis.percent) return (value) => value.toLocaleString("en", { style: "percent", maximumFractionDigits: 1 });
  return (value) => (typeof value === "number" ? short(value) : value);
}

function evenTicks(low, high, axis, most) {
  const rough = Math.max(high - low, 1e-12) / most;
  if (axis.zero) {
    const step = clocks.find((each) => each >= rough * axis.unit) ?? clocks.at(-1);
    const start = Date.parse(axis.zero) / 1000;
    const first = Math.ceil((start + low * axis.unit) / step) * step;
    const count = Math.floor((start + high * axis.unit - first) / step) + 1;
    const places = Array.from({ length: Math.max(count, 0) }, (_, i) => (first + i * step - start) / axis.unit);
    return places.map((value) => [value, step < 86400 ? writerOf(axis)(value).slice(5) : dated(axis, value).slice(0, 10)]);
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((each) => each * power >= rough * 0.999);
  const count = Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1;
  const places = Array.from({ length: count }, (_, i) => Number(((Math.ceil(low / step - 1e-9) + i) * step).toPrecision(12)));
  const text = axis.percent ? writerOf(axis) : (value) => value.toLocaleString("en", { maximumFractionDigits: 10 });
  return places.map((value) => [value, text(value)]);
}

function logTicks(low, high) {
  if (high - low < 0.5) return evenTicks(10 ** low, 10 ** high, {}, 4).filter(([value]) => value > 0);
  const every = Math.ceil((high - low) / 7);
  const steps = high - low > 3 ? [1] : high - low > 1 ? [1, 2, 5] : [1, 2, 3, 5, 7];
  const found = [];
  for (let power = Math.floor(low); power <= high; power += every)
    for (const step of steps) {
      const value = Number((step * 10 ** power).toPrecision(12));
      if (Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9) found.push([value, short(value)]);
    }
  return found;
}

// Returns {low, high, at, ticks} of an axis that shows values; `at` gives the share of its length.
function scaleOf(axis, values, most) {
  if (axis.names) {
    const places = new Map(axis.names.map((name, place) => [name, (place + 0.5) / axis.names.length]));
    return { at: (name) => places.get(name), ticks: axis.names.map((name) => [name, name]) };
  }
  const forward = axis.log ? Math.log10 : (value) => value;
  const known = values.filter((value) => value !== null && (!axis.log || value > 0)).map(forward);
  let [low, high] = (axis.time && zoomed?.map((each) => each / axis.unit)) || axis.range || [0, axis.log ? 0 : 1];
  if (!axis.range && known.length) {
    low = known.reduce((a, b) => Math.min(a, b), axis.tozero ? 0 : Infinity);
    high = known.reduce((a, b) => Math.max(a, b), axis.tozero ? 0 : -Infinity);
    const more = (high - low) * 0.05 || (axis.log ? 0.15 : 1);
    [low, high] = [axis.tozero && low === 0 ? 0 : low - more, high + more];
  }
  const ticks = axis.ticks ?? (axis.log ? logTicks(low, high) : evenTicks(Math.min(low, high), Math.max(low, high), axis, most));
  return { low, high, at: (value) => (forward(value) - low) / (high - low), ticks };
}

function drawChart(place, chart) {
  const { x: across, y: up, height } = chart.layout;
  const shown = chart.data.filter((trace) => trace.visible !== false);
  const wide = place.clientWidth;
  pen.font = "12px system-ui, sans-serif";
  const values = (name) => shown.flatMap((trace) => [...(trace[name] ?? []), ...(name === "y" ? trace.bar ?? [] : [])]);
  const vertical = scaleOf(up, values("y"), 5);
  const left = Math.max(...vertical.ticks.map(([, text]) => width(text)), 10) + (up.title ? 30 : 12);
  const right = wide - 14;
  const horizontal = scaleOf(across, values("x"), Math.max(2, Math.floor((right - left) / 110)));
  const x = (value) => left + horizontal.at(value) * (right - left);
  // Labels that would overlap stand upright.
  const ends = horizontal.ticks.map(([value, text]) => [x(value) - width(text) / 2 - 4, x(value) + width(text) / 2 + 4]);
  const upright = ends.some(([begin], i) => i && begin < ends[i - 1][1]);
  const bottom = height - (upright ? Math.max(...horizontal.ticks.map(([, text]) => width(text))) + 34 : 44);
  const top = 12;
  const y = (value) => bottom - vertical.at(value) * (bottom - top);

  const svg = make("svg", { class: "drawing", width: wide, height, role: "img" }, place);
  for (const [value, text] of vertical.ticks) {
    if (!up.ticks) make("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }, svg);
    make("text", { class: "tick-y", x: left - 6, y: y(value) + 4, "text-anchor": "end" }, svg, text);
  }
  for (const [value, text] of horizontal.ticks) {
    const at = x(value);
    make("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }, svg);
    const [half, rest] = [width(text) / 2, { class: "tick-x" }];
    if (upright) make("text", { ...rest, "text-anchor": "end", transform: `translate(${at + 4},${bottom + 6})rotate(-90)` }, svg, text);
    else make("text", { ...rest, "text-anchor": "middle", x: Math.min(Math.max(at, half + 1), wide - half - 1), y: bottom + 17 }, svg, text);
  }
  make("path", { class: "frame", d: `M${left},${top}V${bottom}H${right}` }, svg);
  if (across.title) make("text", { class: "title-x", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, svg, across.title);
  if (up.title) {
    const turned = `translate(12,${(top + bottom) / 2})rotate(-90)`;
    make("text", { class: "title-y", "text-anchor": "middle", transform: turned }, svg, up.title);
  }
  const size = { x: left, y: top, width: Math.max(right - left, 0), height: bottom - top };
  const within = make("svg", { ...size, viewBox: `${left} ${top} ${size.width} ${size.height}` }, svg);
  const seen = { axis: across, points: [], boxes: [], x, y, left, right, top, bottom, horizontal };
  for (const trace of shown) (trace.boxes ? drawBoxes : drawTrace)(place, trace, seen, within, svg, chart);
  if (place.cursor !== undefined) make("line", { class: "cursor-line", y1: top, y2: bottom }, within);
  for (const old of place.querySelectorAll("svg.drawing")) if (old !== svg) old.remove();
  Object.assign(place, { chart, seen, drawnAt: wide });
  moveCursor(place, place.cursor);
}

function moveCursor(place, time) {
  place.cursor = time;
  const line = place.querySelector(".cursor-line");
  for (const end of ["x1", "x2"]) line?.setAttribute(end, place.seen.x(time));
}

function drawTrace(place, trace, seen, within, svg, chart) {
  const { x, y } = seen;
  const style = { stroke: trace.colour, "stroke-width": trace.width ?? 2, "stroke-dasharray": dashes[trace.dash ?? "solid"] };
  const rows = trace.x.map((value, i) => [value, trace.y[i], i]).filter(([a, b]) => a !== null && b !== null);
  const usable = rows.filter(([a, b]) => (!chart.layout.x.log || a > 0) && (!chart.layout.y.log || b > 0));
  const places = usable.map(([a, b]) => [x(a), y(b)]);
  if (trace.mode !== "marks" && places.length) {
    const rest = places.slice(1).map(([a, b]) => (trace.step ? `H${a}V${b}` : `L${a},${b}`));
    make("path", { class: "line", d: `M${places[0].join(",")}${rest.join("")}`, fill: "none", ...style }, within);
  }
  if (trace.bar) {
    const [a, low, high] = [places[0][0], ...trace.bar.map(y)];
    make("path", { class: "bar", d: `M${a},${low}V${high}M${a - 4},${low}h8M${a - 4},${high}h8`, ...style, "stroke-dasharray": "" }, svg);
  }
  usable.forEach(([a, b, i], at) => {
    const [px, py] = places[at];
    if (trace.mode !== "lines") make("path", { class: "mark", d: symbols[trace.symbol], transform: `translate(${px},${py})`, fill: trace.colour }, svg);
    if (trace.label) {
      const ahead = px < (seen.left + seen.right) / 2;
      make("text", { class: "label", x: px + (ahead ? 8 : -8), y: py - 6, "text-anchor": ahead ? "start" : "end" }, svg, trace.label);
    }
    if (chart.layout.x.time) seen.points.push({ px, py, when: a, line: `${trace.of}: ${writerOf(chart.layout.y)(b)}` });
    else if (trace.hover) seen.points.push({ px, py, said: () => describe(trace, chart, a, b, i) });
  });
}

function describe(trace, chart, a, b, i) {
  const values = { x: writerOf(chart.layout.x)(a), y: writerOf(chart.layout.y)(b), text: trace.texts?.[i] };
  return trace.hover.replace(/\{(x|y|text)\}/g, (_, name) => values[name]);
}

// Boxes are drawn together by colour, which makes thousands of them light; those of a marked job have a red edge.
function drawBoxes(place, trace, seen, within) {
  const { left, right, bottom, height, colour, stay } = trace.boxes;
  const paths = new Map();
  left.forEach((begin, i) => {
    const [x0, x1] = [seen.x(begin), seen.x(right[i])];
    if (x1 < seen.left || x0 > seen.right) return;
    const [y0, y1] = [seen.y(bottom[i] + 0.03 * height[i]), seen.y(bottom[i] + 0.97 * height[i])];
    const name = place.marks?.(stay[i]) ? `marked ${colour[i]}` : String(colour[i]);
    const box = `M${x0.toFixed(2)},${y0.toFixed(1)}H${x1.toFixed(2)}V${y1.toFixed(1)}H${x0.toFixed(2)}z`;
    paths.set(name, (paths.get(name) ?? "") + box);
    seen.boxes.push({ x0, x1, y0: Math.min(y0, y1), y1: Math.max(y0, y1), stay: stay[i] });
  });
  const last = (name) => Number(name.startsWith("marked"));
  for (const [name, d] of [...paths].sort(([one], [other]) => last(one) - last(other))) {
    make("path", { class: last(name) ? "boxes marked" : "boxes", d, fill: trace.palette[Number(name.split(" ").at(-1))] }, within);
  }
}

// Of lines over time, all values at the nearest instant.
function instantAt(points, px, axis) {
  const nearest = points.reduce((one, other) => (Math.abs(other.px - px) < Math.abs(one.px - px) ? other : one));
  const lines = points.filter((each) => each.px === nearest.px).map((each) => each.line);
  const when = axis.zero ? writerOf(axis)(nearest.when) : `${short(nearest.when)} ${axis.title.replace(/^.*\(|\).*$/g, "")}`;
  return { said: () => [when, ...lines].join("\n") };
}

function pointedAt({ points, boxes, axis }, px, py) {
  if (axis.time && points.length) return instantAt(points, px, axis);
  const box = boxes.findLast((each) => px >= each.x0 && px <= each.x1 && py >= each.y0 && py <= each.y1);
  if (box) return box;
  let [nearest, least] = [null, reach ** 2];
  for (const point of points) {
    const away = (point.px - px) ** 2 + (point.py - py) ** 2;
    if (away < least) [nearest, least] = [point, away];
  }
  return nearest;
}

// Draws a chart in its place, and anew as often as the place changes its width; answers the pointer.
function keepDrawn(place, chart, { said, clicked } = {}) {
  drawChart(place, chart);
  if (place.kept) return;
  place.kept = true;
  new ResizeObserver(() => place.clientWidth !== place.drawnAt && redraw(place)).observe(place);
  let begun = null;
  const at = (event) => {
    const box = place.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const { time } = chart.layout.x;
  place.addEventListener("pointerdown", (event) => {
    if (time) begun = at(event)[0];
  });
  place.addEventListener("pointermove", (event) => {
    const [px, py] = at(event);
    const found = pointedAt(place.seen, px, py);
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = found.stay === undefined ? found.said() : said(found.stay);
    const beside = event.clientX + 14 + tip.offsetWidth > window.innerWidth ? -14 - tip.offsetWidth : 14;
    Object.assign(tip.style, { left: `${Math.max(event.pageX + beside, 4)}px`, top: `${event.pageY + 14}px` });
  });
  place.addEventListener("pointerleave", () => (tip.hidden = true));
  place.addEventListener("pointerup", (event) => {
    const [px, py] = at(event);
    const { left, right, horizontal } = place.seen;
    if (begun !== null && Math.abs(px - begun) > 8) {
      const value = (pixel) => horizontal.low + ((horizontal.high - horizontal.low) * (pixel - left)) / (right - left);
      zoom([begun, px].sort((a, b) => a - b).map((each) => value(Math.min(Math.max(each, left), right)) * chart.layout.x.unit));
    } else {
      const found = pointedAt(place.seen, px, py);
      if (found?.stay !== undefined) clicked(found.stay);
    }
    begun = null;
  });
  place.addEventListener("dblclick", () => time && zoom(null));
}

const redraw = (place) => drawChart(place, place.chart);

function zoom(range) {
  zoomed = range;
  for (const place of document.querySelectorAll(".chart")) if (place.chart?.layout.x.time) redraw(place);
}

// Buttons with the names of lines: each shows and hides its lines in all charts.
function nameLines(styles) {
  for (const button of document.querySelectorAll("[data-line]")) {
    const name = button.dataset.line;
    const { colour, dash } = styles[name];
    const sample = make("svg", { width: 26, height: 12, "aria-hidden": true }, button);
    make("path", { d: "M0,6H26", stroke: colour, "stroke-width": 3, "stroke-dasharray": dashes[dash] }, sample);
    button.prepend(sample);
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const place of document.querySelectorAll("[data-chart]")) {
        for (const trace of place.chart.data) if (trace.of === name) trace.visible = shown;
        redraw(place);
      }
    });
  }
}

function drawAll({ charts, styles }) {
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const place of document.querySelectorAll("[data-chart]")) keepDrawn(place, charts[place.dataset.chart]);
  nameLines(styles);
}

// What a page draws is packed, a seventh of its size.
async function unpackData() {
  const packed = document.getElementById("packed-data");
  const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
  packed.remove();
  return JSON.parse(await new Response(new Response(bytes).body.pipeThrough(new DecompressionStream("gzip"))).text());
}
