
// The schedule explorer: both charts share a cursor of time and a chosen job.
if (report.explorer) {
  const { unit, name: unitName, zero, jobs, ids, histories } = report.explorer;
  const sides = ["left", "right"];
  const slider = document.getElementById("cursor-time");
  const jobField = document.getElementById("cursor-job");
  const chosen = (side) => document.querySelector(`select[data-panel="${side}"]`).value;
  const chartOf = (side) => document.getElementById(`gantt-${side}`);
  const linesOf = (name) => report.charts[`gantt_${name}`].data[0].texts;
  const shown = (time) =>
    zero ? dated({ zero, unit }, time).slice(0, 19).replace("T", " ") : `${time.toFixed(unit === 1 ? 1 : 2)} ${unitName}`;
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
    const [first, last] = report.charts[`gantt_${chosen("left")}`].layout.x.range;
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
    for (const side of sides) {
      moveCursor(chartOf(side), time);
      drawHappened(side, time);
      drawHistory(side, time);
    }
  }

  function chooseJob(number) {
    job = number;
    jobField.value = number === null ? "" : String(number);
    for (const side of sides) redraw(chartOf(side));
    moveTo(Number(slider.value));
  }

  // A box of a stay tells its lines; a click on it chooses its job.
  function drawSchedule(side) {
    const place = chartOf(side);
    place.cursor ??= 0;
    place.marks = (stay) => histories[chosen(side)].stays[stay][0] === job;
    keepDrawn(place, report.charts[`gantt_${chosen(side)}`], {
      said: (stay) => linesOf(chosen(side))[stay].join("\n"),
      clicked: (stay) => {
        const [number, start] = histories[chosen(side)].stays[stay];
        slider.value = String(nearest(start));
        chooseJob(number);
      },
    });
  }

  for (const side of sides) {
    drawSchedule(side);
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
