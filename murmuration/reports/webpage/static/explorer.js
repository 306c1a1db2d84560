
// The schedule explorer: both charts share a cursor of time and a chosen job.
if (report.explorer) {
  const { unit, jobs, ids, histories } = report.explorer;
  const sides = ["left", "right"];
  const slider = document.getElementById("cursor-time");
  const jobField = document.getElementById("cursor-job");
  const chosen = (side) => document.querySelector(`select[data-panel="${side}"]`).value;
  const chartOf = (side) => document.getElementById(`gantt-${side}`);
  const linesOf = (name) => report.charts[`gantt_${name}`].data[0].texts;
  const shown = (time) => `${time.toFixed(unit === "seconds" ? 1 : 2)} ${unit}`;
  let times = [];
  let job = null;

  function element(tag, text, name) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (name) made.className = name;
    return made;
  }

  function jobButton(number) {
    const made = element("button", `job ${number}`, "job");
    made.type = "button";
    made.addEventListener("click", () => chooseJob(number));
    return made;
  }

  // Instants at which one of the two schedules changes, within the charts.
  function collectTimes() {
    const [first, last] = report.charts[`gantt_${chosen("left")}`].layout.xaxis.range;
    const all = new Set();
    for (const side of sides) {
      const { stays, waits } = histories[chosen(side)];
      for (const [, start, end] of [...stays, ...waits]) for (const time of [start, end]) all.add(time);
    }
    times = [...all].filter((time) => time >= first - 1e-5 && time <= last + 1e-5).sort((a, b) => a - b);
    slider.max = String(Math.max(times.length - 1, 0));
  }

  function nearest(time) {
    let found = 0;
    while (found + 1 < times.length && times[found + 1] <= time) found += 1;
    return found;
  }

  // What happened at an instant: lines of [job, text].
  function changesAt(name, time) {
    const { stays, waits } = histories[name];
    const lines = linesOf(name);
    const began = new Set(stays.filter((stay) => stay[1] === time).map((stay) => stay[0]));
    const ended = new Set(stays.filter((stay) => stay[2] === time).map((stay) => stay[0]));
    const found = [];
    stays.forEach(([number, start, end], index) => {
      if (end === time && !began.has(number)) found.push([number, lines[index].at(-1)]);
      if (start === time) found.push([number, `${lines[index].at(-2)}: ${lines[index][1]}`]);
    });
    for (const [number, start] of waits) if (start === time && !ended.has(number)) found.push([number, "submitted"]);
    return found;
  }

  function drawHappened(side, time) {
    const name = chosen(side);
    const { gpus, stays, waits } = histories[name];
    const holding = stays.filter(([, start, end]) => start <= time && time < end);
    const waiting = waits.filter(([, start, end]) => start <= time && time < end);
    const used = holding.reduce((sum, stay) => sum + stay[3], 0);
    const place = document.getElementById(`happened-${side}`);
    const counts = `${holding.length} ${holding.length === 1 ? "job holds" : "jobs hold"} ${used} of ${gpus} GPUs, ${waiting.length} ${waiting.length === 1 ? "waits" : "wait"}`;
    place.replaceChildren(element("p", `${name} at ${shown(time)}: ${counts}`, "counts"));
    const list = document.createElement("ul");
    for (const [number, text] of changesAt(name, time)) {
      const line = document.createElement("li");
      line.append(jobButton(number), ` ${text}`);
      list.append(line);
    }
    place.append(list.children.length ? list : element("p", "Nothing changes at this instant.", "said"));
  }

  function drawHistory(side, time) {
    const place = document.getElementById(`history-${side}`);
    place.replaceChildren();
    if (job === null) return;
    const name = chosen(side);
    const { stays, waits } = histories[name];
    const lines = linesOf(name);
    const rows = waits.filter((wait) => wait[0] === job).map(([, start, end, why]) => [start, end, why]);
    stays.forEach(([number, start, end], index) => {
      if (number === job) rows.push([start, end, `${lines[index].at(-2)}: ${lines[index][1]}; ${lines[index].at(-1)}`]);
    });
    rows.sort((a, b) => a[0] - b[0]);
    place.append(element("p", `Job ${job} under ${name}: ${Object.hasOwn(jobs, job) ? jobs[job] : "not in this span"}`, "counts"));
    const list = document.createElement("ol");
    for (const [start, end, text] of rows) {
      const line = element("li", "", start <= time && time < end ? "now" : "");
      const jump = element("button", `${shown(start)} to ${shown(end)}`, "job");
      jump.type = "button";
      jump.addEventListener("click", () => moveTo(nearest(start)));
      line.append(jump, ` ${text}`);
      list.append(line);
    }
    place.append(list);
  }

  function moveTo(index) {
    const place = Math.min(Math.max(index, 0), times.length - 1);
    slider.value = String(place);
    const time = times[place];
    if (time === undefined) return;
    document.getElementById("cursor-label").textContent = shown(time);
    const line = { type: "line", xref: "x", yref: "paper", x0: time, x1: time, y0: 0, y1: 1 };
    for (const side of sides) {
      Plotly.relayout(chartOf(side), { shapes: [{ ...line, line: { color: "#c00", width: 1.5 } }] });
      drawHappened(side, time);
      drawHistory(side, time);
    }
  }

  function mark(side) {
    const { stays } = histories[chosen(side)];
    const own = report.charts[`gantt_${chosen(side)}`].data[0].stay.map((index) => stays[index][0] === job);
    const line = { color: own.map((each) => (each ? "#c00" : "#fff")), width: own.map((each) => (each ? 2.5 : 0.5)) };
    Plotly.restyle(chartOf(side), { "marker.line.color": [line.color], "marker.line.width": [line.width] }, [0]);
  }

  function chooseJob(number) {
    job = number;
    jobField.value = number === null ? "" : String(number);
    sides.forEach(mark);
    moveTo(Number(slider.value));
  }

  function drawSchedule(side) {
    const chart = report.charts[`gantt_${chosen(side)}`];
    const { stay, texts, ...boxes } = chart.data[0];
    boxes.hovertext = stay.map((index) => texts[index].join("<br>"));
    Plotly.react(chartOf(side), [boxes], chart.layout, config);
    mark(side);
  }

  for (const side of sides) {
    drawSchedule(side);
    chartOf(side).on("plotly_click", (event) => {
      const stay = report.charts[`gantt_${chosen(side)}`].data[0].stay[event.points[0].pointNumber];
      const [number, start] = histories[chosen(side)].stays[stay];
      slider.value = String(nearest(start));
      chooseJob(number);
    });
    document.querySelector(`select[data-panel="${side}"]`).addEventListener("change", () => {
      const time = times[Number(slider.value)];
      drawSchedule(side);
      collectTimes();
      moveTo(nearest(time));
    });
  }
  slider.addEventListener("input", () => moveTo(Number(slider.value)));
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => moveTo(Number(slider.value) + Number(button.dataset.step)));
  }
  // The trace's own id comes before the number of a job.
  jobField.addEventListener("change", () => {
    const text = jobField.value.trim();
    const number = Object.hasOwn(ids, text) ? ids[text] : /^\d+$/.test(text) ? Number(text) : text;
    chooseJob(text === "" ? null : number);
  });
  collectTimes();
  moveTo(nearest(times[0] + (times[times.length - 1] - times[0]) / 3));
}
