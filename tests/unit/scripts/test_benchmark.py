"""The benchmark: its worlds, its clocks, its report, its parts, and that skipped work is detected."""

import json
import signal
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given
from hypothesis import strategies as st

import benchmark
from baselines import Fifo, Srtf
from benchmarks import bidding, bounds, constraints, decisions, engine, sharing
from benchmarks.decisions import rounds_per_second
from benchmarks.plot import plot_scaling, select_series
from benchmarks.report import (
    CountError,
    FaultError,
    Report,
    format_figure,
    print_report,
    summarise_report,
    write_page,
)
from benchmarks.sharing import PairsEpisode
from benchmarks.starting import time_start
from benchmarks.suite import BENCHMARKS, SIZES, Suite, build_suite, record_failures, select_parts
from benchmarks.timing import OutOfTimeError, cpu_seconds, time_limit
from benchmarks.worlds import FULL, PLAIN, FifoEpisode, Size, decide_in_rounds, loaded_state
from envs.simulation import run_episode
from envs.types import TraceError
from murmuration.config.choices import CONF
from murmuration.config.describe import describe_benchmark
from murmuration.config.errors import ChoiceError

TINY = Size(8, 40)
LITTLE = Suite(num_sizes=1, repeats=1, steps=5, decisions=1)


def figures(report: Report, unit: str) -> dict[str, float]:
    """Values of one unit by the name of the figure."""
    return {row.what: row.value for row in report.rows if row.unit == unit}


# Worlds


def test_a_size_is_one_world():
    """Every call gives the same rigid jobs; another seed gives others."""
    first, again = TINY.workload(), TINY.workload()
    for name in ("submit_time", "work", "num_gpus", "model"):
        assert (first.jobs[name] == again.jobs[name]).all()
    assert len(first) == 40
    assert (first.jobs["min_gpus"] == first.jobs["max_gpus"]).all()
    assert (TINY.workload(seed=1).jobs["work"] != first.jobs["work"]).any()
    assert TINY.cluster().gpus_by_type == {"V100": 24, "P100": 24, "K80": 16}


def test_elastic_jobs_range_from_half_to_twice():
    jobs = replace(TINY, elastic=True).workload().jobs
    assert (jobs["min_gpus"] == (jobs["num_gpus"] + 1) // 2).all()
    assert (jobs["max_gpus"] == 2 * jobs["num_gpus"]).all()


@pytest.mark.parametrize("size", SIZES[:2], ids=str)
def test_at_the_loaded_instant_jobs_wait(size):
    """Jobs wait, and most GPUs are allocated."""
    now = loaded_state(replace(size, elastic=True)).episode[0, 0]
    assert now.next_job == 3 * size.jobs // 4
    assert now.num_active - now.num_running > size.jobs // 10
    assert now.num_free < 0.5 * now.num_gpus  # FIFO does not fill the GPUs that its next gang waits for


def test_an_episode_can_be_played_again():
    episode = FifoEpisode(TINY, FULL)
    ends = []
    for _ in range(2):
        episode.rewind()
        episode.play()
        ends.append(episode.simulator.state.jobs["finish"].copy())
    assert episode.num_events == 2 * TINY.jobs
    assert np.array_equal(ends[0], ends[1])
    plain = run_episode(Fifo(), TINY.simulator(FULL), compiled=False)
    assert np.array_equal(ends[0][0], plain.records["finish_time"])


def test_an_episode_continues_from_the_loaded_instant_without_a_difference():
    whole, parted = FifoEpisode(TINY, FULL), FifoEpisode(TINY, FULL)
    whole.play()
    parted.load(20)
    assert parted.start.episode["next_job"][0, 0] == 20
    parted.play()
    assert np.array_equal(whole.simulator.state.jobs["finish"], parted.simulator.state.jobs["finish"])
    assert parted.num_events < whole.num_events == 2 * TINY.jobs


def test_compiled_decisions_are_timed_over_the_same_rounds():
    report = Report()
    decisions.measure_compiled_decisions(report, LITTLE)
    report.check()
    times = {row.what: row.value for row in report.rows}
    assert len(times) == 12
    quick = "starling, 0 completions ahead, GPUs alone, "
    over = "over GPUs alone without look-ahead"
    assert times[quick + over] == 1.0
    slow = "starling, 12 completions ahead, shared cores, "
    assert times[slow + over] == pytest.approx(times[slow + "compiled"] / times[quick + "compiled"])
    assert 0 < times[quick + "compiled"] < times[quick + "schedule"]


def test_decisions_can_be_limited_to_rounds():
    assert decide_in_rounds(FULL, 300.0).rounds.interval == 300.0
    assert not decide_in_rounds(FULL, 300.0).rounds.on_events
    assert decide_in_rounds(FULL, 300.0).failures == FULL.failures


# Clocks


def test_the_best_of_the_repeats_counts_and_preparation_does_not():
    prepared: list[int] = []
    busy = [0.05, 0.0, 0.05]

    def work() -> None:
        until = time.process_time() + busy[len(prepared) - 1]
        while time.process_time() < until:
            pass

    assert cpu_seconds(work, 3, lambda: prepared.append(0)) < 0.02
    assert len(prepared) == 3
    assert cpu_seconds(work) >= 0.05


def for_ever() -> None:
    """Never return."""
    while True:
        pass


def test_a_limit_stops_what_takes_longer_and_nothing_else():
    with pytest.raises(OutOfTimeError, match="more than 0.05 s"), time_limit(0.05):
        for_ever()
    with time_limit(600.0):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0.0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)  # the limit is gone


def test_a_start_is_timed_and_its_output_kept():
    spent, printed = time_start("print(sys.argv[0], end='!')", {})
    assert printed == "-c!"
    assert 0.0 < spent < 30.0


# Report


def test_targets_are_met_or_missed():
    report = Report()
    for what, value, least, most in (("a", 3, 3, 0), ("b", 2, 3, 0), ("c", 5, 0, 5), ("d", 6, 0, 5), ("e", 1, 0, 0)):
        report.add("engine", "8/160", what, value, "x", least, most)
    assert [row.met for row in report.rows] == [True, False, True, False, None]
    assert [row.target for row in report.rows] == [">= 3", ">= 3", "<= 5", "<= 5", ""]


def test_report_and_page_hold_the_figures(tmp_path, capsys):
    report = Report(notes=["something is left out"])
    report.add("engine", SIZES[1], "FIFO, full model", 1234.5, "ns/event", most=200)
    report.add("engine", SIZES[0], "FIFO, full model", 0.123456, "ns/event")
    report.same("events", 3, 3)
    report.write(tmp_path, {"suite": "quick"})
    write_page(report, tmp_path)
    plot_scaling(report, tmp_path)
    capsys.readouterr()
    print_report(report)
    content = json.loads((tmp_path / "benchmark.json").read_text())
    assert content["about"] == {"suite": "quick"}
    assert content["rows"][0] == {
        "part": "engine",
        "size": "64/1,000",
        "what": "FIFO, full model",
        "value": 1234.5,
        "unit": "ns/event",
        "target": "<= 200",
        "met": False,
    }
    assert content["counts"] == [["events", 3, 3]]
    page = (tmp_path / "benchmark.md").read_text().splitlines()
    assert "| what | unit | 64/1,000 | 8/160 |" in page
    assert "| FIFO, full model | ns/event | 1,234 | 0.123 |" in page
    assert "| engine | 64/1,000 | FIFO, full model | ns/event | <= 200 | 1,234 | no |" in page
    assert page[-2:] == ["something is left out", "targets missed: 1 of 1; counts that agree: 1 of 1"]
    shown = capsys.readouterr().out
    assert "0.123" in shown
    assert summarise_report(report) in shown
    assert (tmp_path / "scaling.png").stat().st_size > 1000
    assert select_series(report, "engine", "FIFO", "ns") == {64: 1234.5, 8: 0.123456}


def test_without_figures_there_is_no_plot(tmp_path):
    plot_scaling(Report(), tmp_path)
    assert not list(tmp_path.iterdir())


@given(st.floats(1e-9, 1e12))
def test_a_figure_keeps_three_digits(value):
    assert float(format_figure(value).replace(",", "")) == pytest.approx(value, rel=0.005)


def test_counts_that_differ_are_an_error():
    report = Report()
    report.same("events", 3, 3)
    report.check()
    report.same("rounds", 3, 4)
    with pytest.raises(CountError, match="counts differ, so the times compare nothing: rounds: 3 against 4$"):
        report.check()


# Parts


def test_both_engines_do_the_same_work(monkeypatch):
    """On a small part of a loaded world, the counts agree and are those of the part."""
    monkeypatch.setattr(engine, "WHOLE", 0)
    report, episode = Report(), FifoEpisode(SIZES[0], FULL)
    engine.measure_reference_engine(report, replace(LITTLE, part=10), episode, SIZES[0])
    report.check()
    counts = {what.split(" of ")[0]: one for what, one, _ in report.counts}
    assert counts["jobs submitted"] == 131  # three quarters of 160, ten more, and the one on which the part ends
    assert episode.num_events > 10
    assert figures(report, "x")["faster than the reference"] > 0


def test_skipped_work_is_detected(monkeypatch):
    """The counts reveal a scheduler that is faster because it leaves jobs waiting."""
    monkeypatch.setattr(engine, "Fifo", Srtf)
    report, episode = Report(), FifoEpisode(SIZES[0], PLAIN)
    engine.measure_reference_engine(report, LITTLE, episode, SIZES[0])
    with pytest.raises(CountError, match="what differs between jobs of 8/160 beside the reference: .*finish"):
        report.check()


def test_lost_events_are_detected(monkeypatch):
    monkeypatch.setattr(engine, "measure_reference_engine", lambda *_: None)
    monkeypatch.setattr(FifoEpisode, "num_events", property(lambda _: 300))
    report = Report()
    engine.measure_engine(report, LITTLE)
    with pytest.raises(CountError, match="events of 8/160, full model: 300 against 320"):
        report.check()


def test_pairs_are_made_where_jobs_may_share_gpus_and_nowhere_else():
    """Without them the second scheduler is FIFO, and all jobs end with and without."""
    off, on, fifo = PairsEpisode(SIZES[0], FULL), PairsEpisode(SIZES[0], sharing.SHARED), FifoEpisode(SIZES[0], FULL)
    for episode in (off, on, fifo):
        episode.play()
    assert on.made[0] > 0 == off.made[0]
    finish = [episode.simulator.state.jobs["finish"][0] for episode in (off, on, fifo)]
    assert np.isfinite(finish).all()
    assert (finish[0] == finish[2]).all()
    assert (finish[1] != finish[2]).any()
    report = Report()
    sharing.measure_sharing(report, LITTLE)
    report.check()
    assert figures(report, "jobs")["jobs placed beside another one"] == on.made[0]
    assert all(ratio > 0 for ratio in figures(report, "x").values())


def test_constraints_that_allow_every_node_change_no_job():
    some, without = FifoEpisode(SIZES[0], FULL, constraints.constrain_all(SIZES[0])), FifoEpisode(SIZES[0], FULL)
    for episode in (some, without):
        episode.play()
    assert len(some.simulator.workload.models) == 2 * len(without.simulator.workload.models)
    finish = [episode.simulator.state.jobs["finish"][0] for episode in (some, without)]
    assert (finish[0] == finish[1]).all()


def test_rounds_of_bids_are_timed_and_equal_the_reference():
    report = Report()
    bidding.measure_bidding(report, LITTLE)
    report.check()
    assert {row.size for row in report.rows} == {"8/160"}
    parts = figures(report, "us")
    assert 0 < parts["observation and graph"] < parts["reference observation"]
    assert figures(report, "1/s")["rounds"] > 0
    assert figures(report, "")["pairs of a job and a node that nodes see"] > 50


def test_bounds_are_timed(monkeypatch):
    monkeypatch.setattr(bounds, "BOUNDED", (SIZES[0], SIZES[1]))
    report = Report()
    bounds.measure_bounds(report, replace(LITTLE, million=False))
    assert {row.size for row in report.rows} == {"8/160"}
    assert set(figures(report, "CPU-s")) == {"relaxation", "search for the bound"}
    assert figures(report, "s")["bound on the mean JCT"] > 0


class Slow:
    """Is stopped as by `time_limit` from the second size on."""

    preemptive = elastic = False

    def reset(self, cluster: Any, rng: Any) -> None:
        self.num_nodes = cluster.num_nodes

    def schedule(self, view: Any) -> Any:
        if self.num_nodes > 8:
            raise OutOfTimeError("more than 600 s")
        return view.allocation(keep_running=True)


def test_decision_times_have_a_limit():
    suite = replace(LITTLE, num_sizes=2, decision_limit=600.0, schedulers={"slow": Slow(), "fifo": Fifo()})
    report = Report()
    decisions.measure_decisions(report, suite)
    assert {(row.size, row.what.partition(",")[0]) for row in report.rows} == {
        *(("8/160", "slow"), ("8/160", "fifo"), ("64/1,000", "fifo")),
    }
    assert report.notes == ["decisions: slow is left out from 64/1,000 on: more than 600 s"]


class Broken:
    """Fails in its first decision."""

    preemptive = elastic = False

    def reset(self, cluster: Any, rng: Any) -> None:
        """Do nothing."""

    def schedule(self, view: Any) -> Any:
        raise IndexError("no such job")


def test_a_broken_scheduler_loses_only_its_own_figures(tmp_path):
    report = Report()
    with record_failures(report, "decisions"):
        decisions.measure_decisions(report, replace(LITTLE, schedulers={"broken": Broken(), "fifo": Fifo()}))
    assert {row.what.partition(",")[0] for row in report.rows} == {"fifo"}
    report.write(tmp_path, {})
    kept = json.loads((tmp_path / "benchmark.json").read_text())["faults"]
    assert "IndexError: no such job" in kept["decisions: broken from 8/160 on"]
    with pytest.raises(FaultError, match="decisions: broken from 8/160 on"):
        report.check()


def test_a_broken_part_is_recorded():
    report = Report()
    with record_failures(report, "engine"):
        raise ZeroDivisionError
    assert "ZeroDivisionError" in report.faults["engine"]


def test_rounds_are_timed():
    assert rounds_per_second(Fifo(), SIZES[0], 5) > 10


# The command


def config(*overrides: str) -> Any:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose("benchmark", list(overrides))


def test_suites_are_built():
    quick, full = [
        build_suite(describe_benchmark(config(*options))) for options in ((), ("suite=full", "data=somewhere"))
    ]
    assert quick.num_sizes < full.num_sizes == len(SIZES)
    assert (full.data, full) == ("somewhere", replace(Suite(), data="somewhere"))
    assert quick.sizes == SIZES[: quick.num_sizes]


def test_unknown_suites_and_parts_are_errors():
    with pytest.raises(ChoiceError, match="suite=ful: no such suite, did you mean full.; there are: quick, full"):
        describe_benchmark(config("suite=ful"))
    with pytest.raises(ChoiceError, match="parts=engin: no such part, did you mean engine"):
        select_parts(["engin"])


def test_parts_are_chosen_by_name():
    assert select_parts(["bidding", "engine"]) == {
        "bidding": bidding.measure_bidding,
        "engine": engine.measure_engine,
    }
    assert select_parts(["decisions"]) == {"decisions": decisions.measure_decisions}
    assert list(select_parts(["all"])) == list(BENCHMARKS)
    assert len(BENCHMARKS) == 16


@pytest.fixture
def here(monkeypatch, tmp_path):
    """The script within this process."""

    def main(*arguments: str) -> object:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["benchmark.py", *arguments])
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        try:
            benchmark.main()
        except SystemExit as left:
            return left.code
        return 0

    return main


QUICK = ("parts=[bidding,decisions]", "scheduler=[fifo,srtf]", "suites.quick.num_sizes=1")


def test_the_script_writes_its_figures(here, tmp_path, capsys):
    assert here(*QUICK) == 0
    *_, last = capsys.readouterr().out.strip().splitlines()
    content = json.loads((tmp_path / last.removeprefix("run: ") / "benchmark.json").read_text())
    assert content["about"]["suite"] == "quick"
    assert {row["part"] for row in content["rows"]} == {"bidding", "decisions"}
    assert {row["what"].partition(",")[0] for row in content["rows"] if row["part"] == "decisions"} == {"fifo", "srtf"}


def without_data(report: Report, suite: Suite) -> None:
    """A part that cannot run."""
    raise TraceError("no such file")


def test_missed_times_are_no_error_and_different_counts_are(here, monkeypatch, capsys):
    monkeypatch.setattr(
        bidding,
        "measure_bidding",
        lambda report, _: report.add("bidding", "8/160", "slow", 9.0, "us", most=1),
    )
    assert here("parts=bidding", "scheduler=[]") == 0
    assert "targets missed: 1 of 1" in capsys.readouterr().out
    monkeypatch.setattr(bidding, "measure_bidding", without_data)
    assert here("parts=bidding", "scheduler=[]") == 0
    assert "bidding: stopped: no such file" in capsys.readouterr().out
    monkeypatch.setattr(bidding, "measure_bidding", lambda report, _: report.same("steps", 1, 2))
    assert here("parts=bidding", "scheduler=[]") == 2
    assert "error: counts differ, so the times compare nothing: steps: 1 against 2" in capsys.readouterr().err
