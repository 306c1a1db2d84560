"""The schedule explorer of the report: reasons from the log, worked by hand, and the page in a browser."""

import json
from dataclasses import replace

import numpy as np
import pytest

from envs.evaluation import Comparison
from envs.metrics import find_waits
from envs.simulation import EVENT, SHARE, EventKind, EventLog
from murmuration.reports.webpage import html_page
from murmuration.reports.webpage.blocking import Blocking, most_free_gpus
from murmuration.reports.webpage.explorer import explorer_data
from murmuration.reports.webpage.schedules import common_axis
from murmuration.reports.webpage.stays import find_stays, why_begun, why_ended
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs
from tests.unit.reports.pages import look_at

EXPLORE = """
<script>
setTimeout(() => {
  const text = (id) => document.getElementById(id).textContent;
  const lines = (id) => [...document.querySelectorAll(`#${id} li`)].map((line) => line.textContent);
  const cursor = (side) => document.getElementById(`gantt-${side}`).cursor;
  const seen = {};
  const slider = document.getElementById("cursor-time");
  slider.value = "0";
  slider.dispatchEvent(new Event("input"));
  seen.first = [text("cursor-label"), lines("happened-left")];
  for (let i = 0; i < 4; i += 1) document.querySelector('[data-step="1"]').click();
  seen.later = [text("cursor-label"), lines("happened-left"), lines("happened-right"), cursor("left"), cursor("right")];
  document.querySelector("#happened-left button.job").click();
  seen.job = document.getElementById("cursor-job").value;
  seen.history = lines("history-left");
  document.querySelectorAll("#history-left ol button")[2].click();
  seen.jumped = [text("cursor-label"), document.querySelector("#history-left .now").textContent];
  const place = document.getElementById("gantt-left");
  const pointer = (name, { x0, x1, y0, y1 }) => {
    const { left, top } = place.getBoundingClientRect();
    place.dispatchEvent(new PointerEvent(name, { clientX: left + (x0 + x1) / 2, clientY: top + (y0 + y1) / 2 }));
  };
  const box = place.seen.boxes[0];
  pointer("pointermove", box);
  seen.said = document.querySelector(".tip").textContent.split("\\n")[0];
  pointer("pointerup", box);
  seen.clicked = [document.getElementById("cursor-job").value, text("cursor-label")];
  const field = document.getElementById("cursor-job");
  seen.found = ["j.82", "3", "constructor"].map((typed) => {
    field.value = typed;
    field.dispatchEvent(new Event("change"));
    return document.querySelector("#history-left .counts").textContent;
  });
  const before = box.x1 - box.x0;
  pointer("pointerdown", { ...box, x1: box.x0 });
  pointer("pointerup", { ...box, x0: box.x1 });
  seen.zoomed = (place.seen.boxes[0].x1 - place.seen.boxes[0].x0) / before;
  place.dispatchEvent(new MouseEvent("dblclick"));
  seen.whole = (place.seen.boxes[0].x1 - place.seen.boxes[0].x0) / before;
  document.title = JSON.stringify(seen);
}, 1500);
</script>
"""


def contended():
    """Two nodes of 4 GPUs. Job 0 has node 0 until 10. Job 1 has half of node 1 from 1 to 3, when job 3 takes the node
    until 6, and again from 6 to 9. Job 2 asks for 8 GPUs at 2 and gets them at 10.
    """
    return fabricated(
        [
            Told(0.0, 4, 10.0, [(0.0, {0: 4})], 10.0),
            Told(1.0, 2, 5.0, [(1.0, {1: 2}), (3.0, None), (6.0, {1: 2})], 9.0),
            Told(2.0, 8, 3.0, [(10.0, {0: 4, 1: 4})], 13.0),
            Told(2.5, 4, 3.0, [(3.0, {1: 4})], 6.0),
        ]
    )


def test_waits_say_how_long_too_little_was_free_and_who_started_meanwhile():
    run = contended()
    waits, blocking = find_waits(run.log, run.end_time), Blocking(run)
    assert waits[["job", "start", "end"]].tolist() == [(2, 2.0, 10.0), (3, 2.5, 3.0), (1, 3.0, 6.0)]
    assert [blocking.why_waited(wait) for wait in waits] == [
        "waited 8.00 s for 8 GPUs; for 100% of it no GPU type had as many free; "
        "2 others started meanwhile, submitted later: job 3",
        "waited 0.500 s for 4 GPUs; for 100% of it no GPU type had as many free; no other job started meanwhile",
        "waited 3.00 s for 2 GPUs; for 100% of it no GPU type had as many free; "
        "1 other started meanwhile, submitted later: job 3",
    ]


def test_free_gpus_are_counted_by_type_and_without_failed_nodes():
    run = contended()
    times, free = most_free_gpus(run)
    assert dict(zip(times.tolist(), free.tolist(), strict=True)) == {
        0.0: 4, 1.0: 2, 3.0: 0, 6.0: 2, 9.0: 4, 10.0: 0, 13.0: 8,
    }  # fmt: skip
    first = len(run.log.shares)
    down = np.array(
        [(13.5, EventKind.DOWN, -1, first, 1, -1, 0, -1), (15.0, EventKind.UP, -1, first, 1, -1, 0, -1)], EVENT
    )
    node = np.array([(1, 4, 0.0, 0.0)], SHARE)
    log = EventLog(np.concatenate([run.log.events, down]), np.concatenate([run.log.shares, node]))
    times, free = most_free_gpus(replace(run, log=log, end_time=16.0))
    assert dict(zip(times.tolist(), free.tolist(), strict=True)).items() >= {13.0: 8, 13.5: 4, 15.0: 8}.items()


def test_a_job_that_could_start_is_not_said_to_be_blocked():
    run = fabricated([Told(0.0, 2, 5.0, [(4.0, {0: 2})], 9.0), Told(5.0, 1, 1.0, [(5.0, {0: 1})], 6.0)])
    (wait,) = find_waits(run.log, run.end_time)
    assert "for 0% of it" in Blocking(run).why_waited(wait)


def test_stays_name_the_jobs_that_got_their_gpus():
    run = contended()
    blocking = Blocking(run)
    ends = {(stay["job"], stay["start"]): why_ended(run, stay, blocking) for stay in find_stays(run)}
    assert ends[1, 1.0] == "preempted (GPUs to job 3)"
    assert ends[0, 0.0] == "job finished"
    shrunk = fabricated(
        [Told(0.0, 4, 9.0, [(0.0, {0: 4}), (2.0, {0: 2})], 9.0), Told(1.0, 2, 3.0, [(2.0, {0: 2})], 5.0)]
    )
    began = {(stay["job"], stay["start"]): why_begun(shrunk, stay, Blocking(shrunk)) for stay in find_stays(shrunk)}
    assert began[0, 2.0] == "shrunk from 4 GPUs (GPUs to job 1)"


def test_the_explorer_knows_every_job_of_the_span():
    runs = {"told": contended(), "other": three_jobs()}
    data = explorer_data(runs, common_axis(runs))
    assert (data["unit"], data["name"], data["zero"]) == (1.0, "seconds", "")
    assert list(data["jobs"].values())[:2] == ["any, 4 GPUs requested", "any, 2 GPUs requested"]
    told = data["histories"]["told"]
    assert told["gpus"] == 8
    assert told["stays"][0] == [0, 0.0, 10.0, 4]
    assert [row[:3] for row in told["waits"]] == [[2, 2.0, 10.0], [3, 2.5, 3.0], [1, 3.0, 6.0]]


@pytest.mark.browser
def test_stepping_and_clicking_show_what_both_schedulers_did(tmp_path):
    page = tmp_path / "report.html"
    run = contended()
    run = replace(run, workload=replace(run.workload, ids=("j.81", "j.82", "3", "j.84")))
    page.write_text(html_page(Comparison({"told": [run], "same": [replace(run)]})), encoding="utf-8")
    seen = json.loads(look_at(page, 1280, checks=EXPLORE))
    assert seen["first"] == [
        "0.0 seconds",
        ["job 0 started after 0 s in the queue: 4 V100 on node 0 (4 GPUs requested)"],
    ]
    label, left, right, *cursors = seen["later"]
    assert label == "3.0 seconds"
    assert left == right
    assert left == [
        "job 1 preempted (GPUs to job 3)",
        "job 3 started after 0.500 s in the queue: 4 V100 on node 1 (4 GPUs requested)",
    ]
    assert cursors == [3, 3]
    assert seen["job"] == "1"
    assert len(seen["history"]) == 3
    assert "waited 3.00 s for 2 GPUs" in seen["history"][1]
    assert seen["jumped"][0] == "6.0 seconds"
    assert "started again 3.00 s after a preemption" in seen["jumped"][1]
    assert seen["said"] == "job 0, any"
    assert seen["zoomed"] == pytest.approx(1.3, rel=0.02), "13 seconds are shown before, then the 10 of the box"
    assert seen["whole"] == pytest.approx(1.0)
    assert seen["clicked"] == ["0", "0.0 seconds"]
    assert seen["found"] == [
        "Job 1 under told: j.82 in the trace; any, 2 GPUs requested",
        "Job 2 under told: 3 in the trace; any, 8 GPUs requested",
        "Job constructor under told: not in this span",
    ]
