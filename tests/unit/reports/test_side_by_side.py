"""The picture of two schedulers on one workload."""

import numpy as np
import pytest

from envs.pictures.gantt import MAX_SEGMENTS
from murmuration.reports.side_by_side import side_by_side
from tests.unit.metrics.fabricated import Told, fabricated, three_jobs


def slower():
    """The jobs of `three_jobs`, one after the other: 0 to 10, 10 to 15 and 15 to 18."""
    acts = [(0.0, {0: 4}, 10.0), (10.0, {1: 2}, 15.0), (15.0, {0: 4, 1: 4}, 18.0)]
    jobs = [
        Told(i, n, end - at, [(at, gpus)], end)
        for i, ((at, gpus, end), n) in enumerate(zip(acts, (4, 2, 8), strict=True))
    ]
    return fabricated(jobs, scheduler="slower")


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_both_schedules_are_drawn_over_the_time_of_the_longer_one():
    """JCTs are 10, 7 and 11 s, and 10, 14 and 16 s."""
    figure = side_by_side(three_jobs(), slower())
    assert titles(figure) == ["told: mean JCT 9.33 s", "slower: mean JCT 13.3 s", ""]
    assert [len(axes.collections[0].get_paths()) for axes in figure.axes[:2]] == [5, 4]
    assert [axes.get_xlim() for axes in figure.axes] == [(0, 18)] * 3
    assert figure.axes[2].get_xlabel() == "time (seconds)"


def test_the_area_below_a_line_is_the_total_jct():
    below = side_by_side(three_jobs(), slower()).axes[2]
    lines = {
        line.get_label(): (np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in below.get_lines()
    }
    areas = {name: (np.diff(times) * jobs[:-1]).sum() for name, (times, jobs) in lines.items()}
    assert areas == {"told": pytest.approx(28), "slower": pytest.approx(40)}


def test_unfinished_jobs_are_counted():
    half = fabricated([Told(0, 1, 5, [(0, {0: 1})], 5), Told(0, 2, 9, [(0, {0: 2})])], end=9)
    none = fabricated([Told(0, 1, 5)], end=9)
    assert titles(side_by_side(half, none))[:2] == [
        "told: mean JCT 5.00 s, 1 unfinished",
        "told: no job finished, 1 unfinished",
    ]


def test_of_a_long_run_both_beginnings_are_drawn():
    """The first run has more stays than can be drawn; the second one ends later, and is cut at the same time."""
    long = fabricated([Told(i, 1, 1, [(i, {0: 1})], i + 1) for i in range(MAX_SEGMENTS + 50)])
    late = fabricated(
        [Told(0, 1, 1, [(0, {0: 1})], 1), Told(0, 1, 1, [(2 * MAX_SEGMENTS, {0: 1})], 2 * MAX_SEGMENTS + 1)]
    )
    above, middle, _ = side_by_side(long, late).axes
    assert above.get_xlim()[1] == pytest.approx(MAX_SEGMENTS / 60)
    assert (len(above.collections[0].get_paths()), len(middle.collections[0].get_paths())) == (MAX_SEGMENTS, 1)
