"""Recorded results: what is kept, what is rounded, and the comparison of recorded with played schedulers."""

import json

import numpy as np
import pytest

from envs.evaluation import compare_schedulers
from envs.evaluation.archive import read_member, write_member
from envs.evaluation.episode import EpisodeFigures
from envs.evaluation.record import (
    RecordHeader,
    describe_episode,
    digest_records,
    ideal_durations,
    read_record,
    restore_episode,
    write_record,
)
from envs.evaluation.record_checks import OF_WAIT
from envs.evaluation.record_schema import FORMAT, JOB_DIGITS, RecordError, check_episode
from envs.metrics import summarise
from envs.performance import IdealModel
from envs.simulation import Scenario, Setup, Simulator, run_episode
from envs.types import JobSpec, MurmurationError
from envs.workloads import Workload
from murmuration.reports.page import markdown_page
from murmuration.reports.webpage import html_page
from murmuration.reports.webpage.charts import FIGURES, ComparisonCharts
from tests.unit.evaluation.test_compare import CLUSTER, InOrder, Preempting, workloads

SETUP = Setup(CLUSTER, IdealModel())


def played(scheduler, count=6, setup=SETUP):
    return compare_schedulers({"s": scheduler}, workloads(count), setup).runs["s"]


def header(**changes):
    values = {
        "scheduler": "s",
        "task": "toy-v1",
        "hash": "0123456789ab",
        "configuration": {"a": 1.5},
        "num_episodes": 6,
    }
    return RecordHeader(**{**values, "package_version": "0", **changes})


def through_a_file(runs, path, scenario=SETUP.scenario):
    """Write runs and read them again, with the workloads of the first ones."""
    write_record(path, header(num_episodes=len(runs)), [EpisodeFigures.of(run) for run in runs])
    same = [run.workload for run in runs]
    return read_record(path, "s").figures(same, ideal_durations(same, SETUP), scenario)


def without_cpu_time(page):
    """The cells of a page's table without the column of CPU times, and the lines below it.

    What schedulers count themselves is not recorded.
    """
    rows = [line.split("|") for line in page.splitlines() if not line.startswith("- Counted by")]
    place = next(i for i, cell in enumerate(rows[0]) if "CPU" in cell)
    return [row[:place] + row[place + 1 :] if len(row) > 1 else row for row in rows]


def test_the_figures_of_a_run_are_those_of_its_summary():
    (run,) = played(InOrder(), 1)
    figures = EpisodeFigures.of(run)
    assert figures.summary(figures.finished) == summarise(run)
    some = figures.finished[::2]
    assert figures.summary(some) == summarise(run, some)
    with pytest.raises(ValueError, match="job 999 is not measured and finished"):
        figures.summary(np.array([999]))


def test_a_recorded_scheduler_has_the_figures_of_a_played_one(tmp_path):
    whole = compare_schedulers({"first": InOrder(), "other": Preempting()}, workloads(6), SETUP, reference="other")
    recorded = through_a_file(whole.runs["other"], tmp_path / "toy-v1.zip")
    mixed = compare_schedulers(
        {"first": InOrder()}, [run.workload for run in recorded], SETUP, recorded={"other": recorded}, reference="other"
    )
    assert mixed.schedulers == whole.schedulers
    for row, expected in zip([*mixed.rows, *mixed.bounds], [*whole.rows, *whole.bounds], strict=True):
        assert row.keys() == expected.keys()
        for name, value in expected.items():
            assert row[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-7, nan_ok=True)), name
    assert without_cpu_time(markdown_page(mixed)) == without_cpu_time(markdown_page(whole))


def test_the_page_of_a_recorded_and_a_played_scheduler_is_drawn(tmp_path):
    """The recorded one may be the best and so the first one shown."""
    (run, *_) = played(InOrder())
    for name in ("a", "z"):
        recorded = through_a_file([run], tmp_path / f"{name}.zip")
        mixed = compare_schedulers({"m": InOrder()}, [run.workload], SETUP, recorded={name: recorded}, reference=name)
        assert f"<b>{name}</b>" in html_page(mixed)
        for figure in FIGURES:
            assert {trace["of"] for trace in ComparisonCharts(mixed).by_model(figure)["data"]} == {"m", name}


def test_jobs_that_another_scheduler_left_unfinished_are_excluded_by_rounded_figures(tmp_path):
    (run,) = played(InOrder(), 1)
    figures = EpisodeFigures.of(run)
    (again,) = through_a_file([run], tmp_path / "toy-v1.zip")
    some = figures.finished[::3]
    exact, rounded = figures.summary(some), again.summary(some)
    assert rounded.num_compared == exact.num_compared == len(some)
    for name in ("mean_jct", "p99_jct", "mean_slowdown", "mean_bounded_slowdown", *OF_WAIT):
        assert getattr(rounded, name) == pytest.approx(getattr(exact, name), rel=0.5 * 10 ** (1 - JOB_DIGITS))
    assert rounded.mean_fairness == pytest.approx(figures.own.mean_fairness)
    assert rounded.mean_fairness != pytest.approx(exact.mean_fairness)


def test_unfinished_jobs_stay_unfinished(tmp_path):
    setup = Setup(CLUSTER, IdealModel(), Scenario(horizon=60.0))
    runs = played(InOrder(), 5, setup)
    assert sum(run.num_unfinished for run in runs) > 0
    for run, figures in zip(runs, through_a_file(runs, tmp_path / "toy-v1.zip", setup.scenario), strict=True):
        assert figures.finished.tolist() == EpisodeFigures.of(run).finished.tolist()
        for name in ("job", "wait", "start_time"):
            np.testing.assert_allclose(figures.jobs[name], EpisodeFigures.of(run).jobs[name], rtol=0.005)


def test_jobs_that_ended_at_their_limits_or_never_ran_have_stays(tmp_path):
    """Job 1 ends at 13, its limit after a start at 10; job 2 waited for it to finish, and leaves then."""
    jobs = [
        JobSpec(0, 0.0, 8, 80.0, "any"),
        JobSpec(1, 1.0, 8, 80.0, "any", time_limit=3.0),
        JobSpec(2, 2.0, 1, 1.0, "any", dependency="afterok:1"),
    ]
    run = run_episode(InOrder(), Simulator(Workload.of(jobs, "left"), SETUP))
    (read,) = through_a_file([run], tmp_path / "records.zip")
    assert (read.at_limit, read.never_ran, read.own.num_unfinished) == ({1: 12.0}, {2: 11.0}, 0)
    assert (read.stay, read.num_late) == (EpisodeFigures.of(run).stay, EpisodeFigures.of(run).num_late)
    assert read.jobs["finish_time"].tolist()[0] == 10.0
    assert np.isnan(read.jobs["finish_time"][1:]).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"at_limit": [[0, 12.0]]}, "it must be the place of a job without a JCT"),
        ({"at_limit": [[1]]}, "it must be the place of a job without a JCT"),
        ({"at_limit": [[9, 12.0]]}, "it must be the place of a job without a JCT"),
        ({"at_limit": []}, "at_limit"),
    ],
)
def test_impossible_ends_are_refused(change, said):
    values = {**describe_episode(EpisodeFigures.of(played(InOrder(), 1)[0])), **change}
    values["jct"][1:2] = [None]
    with pytest.raises(RecordError, match=said):
        check_episode(values, 0)


def test_ideal_durations_are_those_of_the_simulator():
    runs = played(InOrder(), 2)
    for run, ideal in zip(runs, ideal_durations([run.workload for run in runs], SETUP), strict=True):
        assert ideal[run.records["job"]] == pytest.approx(run.records["ideal_duration"])


def test_equal_figures_give_equal_bytes_and_a_digest_that_sees_every_change(tmp_path):
    episodes = [EpisodeFigures.of(run) for run in played(InOrder())]
    one, other = tmp_path / "a" / "toy-v1.zip", tmp_path / "b" / "toy-v1.zip"
    write_record(one, header(), episodes)
    write_record(other, header(), episodes)
    assert one.read_bytes() == other.read_bytes()
    assert digest_records(one) == digest_records(other)
    write_record(other, header(hash="456789abcdef"), episodes)
    assert digest_records(one) != digest_records(other)
    assert [path.name for path in one.parent.iterdir()] == ["toy-v1.zip"]


def test_values_without_a_figure_survive():
    (run,) = played(InOrder(), 1)
    figures = EpisodeFigures.of(run)
    object.__setattr__(figures.own, "fragmentation", float("nan"))
    object.__setattr__(figures.own, "jain_index", float("inf"))
    values = json.loads(json.dumps(describe_episode(figures), allow_nan=False))
    again = restore_episode(values, run.workload, ideal_durations([run.workload], SETUP)[0])
    assert np.isnan(again.own.fragmentation)
    assert again.own.jain_index == float("inf")


def test_the_configuration_s_hash_depends_on_every_option():
    hashes = {header(configuration=each).configuration_hash for each in ({"a": 1}, {"a": 2}, {"b": 1}, {})}
    assert len(hashes) == 4
    assert (
        header(configuration={"a": 1, "b": 2}).configuration_hash
        == header(configuration={"b": 2, "a": 1}).configuration_hash
    )


def damage(path, change):
    """Rewrite the lines of a record."""
    lines = read_member(path, "s").splitlines(keepends=True)
    write_member(path, "s", "".join(change(lines)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], "its content and its first line differ"),
        (lambda lines: [lines[0].replace('"a":1.5', '"a":2.5'), *lines[1:]], "its content and its first line differ"),
        (lambda lines: [lines[0].replace(f'"format":{FORMAT}', '"format":2'), *lines[1:]], "has format 2, not"),
        (lambda lines: ["{}\n"], "its first line lacks 'scheduler'"),
        (lambda lines: [lines[0].replace("0123456789ab", "456789abcdef"), *lines[1:]], "its checksum is of other"),
        (lambda lines: [*lines[:-1], lines[-1].replace('"jct":[', '"jct":[0,')], "jct 0 is 0; it must be"),
        (lambda lines: [*lines[:-1], lines[-1].replace('"wait":[', '"wait":[0,')], "has 25 JCTs, but wait of 26"),
        (lambda lines: ["not json"], "is no record"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, said):
    path = tmp_path / "toy-v1.zip"
    write_record(path, header(), [EpisodeFigures.of(run) for run in played(InOrder())])
    damage(path, change)
    with pytest.raises(MurmurationError, match=said):
        read_record(path, "s")


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "toy-v1.zip"
    write_record(path, header(), [EpisodeFigures.of(run) for run in played(InOrder())])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(MurmurationError, match="is no archive of records"):
        read_record(path, "s")
