"""A scheduler that fails has no figures; the others keep theirs."""

import io
import json

import pytest

from envs.evaluation import compare_schedulers
from envs.evaluation.sweep import sweep
from envs.performance import IdealModel
from envs.pictures.texts import TextConsole
from envs.simulation import Scenario, Setup
from envs.types import ConservationError
from murmuration.reports.page import markdown_page
from murmuration.reports.report import run_comparison, write_report
from tests.unit.evaluation.test_compare import CLUSTER, Greedy, InOrder, Refusing, workloads

SETUP = Setup(CLUSTER, IdealModel())


class Breaking(InOrder):
    """Divides by zero in the given episode: in `reset`, or from the given time on."""

    def __init__(self, episode=0, time=None):
        super().__init__()
        self.episode, self.time = episode, time
        self.begun = 0

    def reset(self, cluster, rng):
        super().reset(cluster, rng)
        self.begun += 1
        if self.time is None and self.begun > self.episode:
            raise ZeroDivisionError("no\njobs")

    def schedule(self, view):
        if self.time is not None and self.begun > self.episode and view.time >= self.time:
            raise ZeroDivisionError
        return super().schedule(view)


class Forgetful(InOrder):
    """Returns nothing."""

    def schedule(self, view):
        return None


class Interrupted(InOrder):
    """The user presses Ctrl-C."""

    def schedule(self, view):
        raise KeyboardInterrupt


class Losing(InOrder):
    """Shows that the simulator lost jobs."""

    def schedule(self, view):
        raise ConservationError("3 submitted, 2 found")


def versus(schedulers, **options):
    return compare_schedulers(schedulers, workloads(3), SETUP, 7, **options)


def test_a_failure_costs_its_own_row_only():
    failing = {"reset": Breaking(1), "late": Breaking(2, 50.0), "none": Forgetful(), "greedy": Greedy()}
    found = versus({"first": InOrder(), **failing, "last": InOrder(lambda view, job, rng: -job)})
    alone = versus({"first": InOrder(), "last": InOrder(lambda view, job, rng: -job)})
    assert found.schedulers == ["first", "last"]
    assert found.rows[:2] == alone.rows
    assert list(found.failures) == list(failing)


def test_a_failure_names_scheduler_episode_time_and_error():
    found = versus({"first": InOrder(), "reset": Breaking(1), "late": Breaking(2, 50.0), "greedy": Greedy()})
    reset, late, greedy = found.failures.values()
    assert str(reset) == "failed in episode 1 (w1) at t = 0 s: ZeroDivisionError: no jobs"
    assert (late.scheduler, late.episode, late.workload, late.message) == ("late", 2, "w2", "ZeroDivisionError")
    assert 50 <= late.time < 70
    assert greedy.message == "job 0: asks for 99 GPUs on node 0, where 4 are free"
    assert "raise ZeroDivisionError" in late.trace()


def test_results_and_tables_show_the_failure(tmp_path):
    console = TextConsole(screen := io.StringIO(), width=200)
    found = run_comparison({"first": InOrder(), "greedy": Greedy()}, workloads(2), SETUP, console=console)
    files = write_report(found, tmp_path)
    row = json.loads((tmp_path / "results.json").read_text())["schedulers"][1]
    assert row == {
        "scheduler": "greedy",
        "failed": "job 0: asks for 99 GPUs on node 0, where 4 are free",
        "episode": 0,
        "workload": "w0",
        "time": found.failures["greedy"].time,
    }
    shown = next(line for line in screen.getvalue().splitlines() if line.strip().startswith("greedy"))
    assert shown.split()[:2] == ["greedy", "failed"]
    assert any(line.startswith("| greedy | failed | ") for line in markdown_page(found).splitlines())
    assert "- greedy failed in episode 0 (w0) at t = " in markdown_page(found)
    assert tmp_path / "failed_greedy.txt" in files
    assert "Traceback" in (tmp_path / "failed_greedy.txt").read_text()


@pytest.mark.parametrize(("scheduler", "error"), [(Interrupted(), KeyboardInterrupt), (Losing(), ConservationError)])
def test_an_interrupt_and_a_fault_of_the_simulator_end_the_comparison(scheduler, error):
    with pytest.raises(error):
        versus({"first": InOrder(), "other": scheduler})


def test_the_only_scheduler_raises_its_own_error():
    with pytest.raises(ZeroDivisionError):
        versus({"late": Breaking(0, 50.0)})


def test_another_reference_replaces_one_that_failed():
    found = versus({"last": Breaking(), "first": InOrder(), "fifo": InOrder()}, reference="last")
    assert found.reference == "fifo"
    assert "the requested reference, last, did not run" in found.caption
    refused = versus({"blind": Refusing(), "first": InOrder()}, reference="blind", optional=["blind"])
    assert refused.reference == "first"


def test_a_sweep_keeps_the_loads_at_which_a_scheduler_ran():
    found = sweep({"first": InOrder(), "late": Breaking(4, 0.0)}, workloads(3), [0.5, 1.0], SETUP)
    assert found.schedulers == ["first"]
    assert [(row.load, row.scheduler) for row in found.table().itertuples() if row.scheduler == "late"] == [
        (0.5, "late")
    ]
    assert found.failures["late"].episode == 1


class Dear:
    """A restart cost that is no data class."""

    def seconds(self, model, *, first=False):
        return 1.0 if first else 3.0


class Told(Dear):
    def __repr__(self):
        return "Told(3.0)"


@pytest.mark.parametrize(("cost", "shown"), [(Dear(), f"{__name__}.Dear"), (Told(), "Told(3.0)")])
def test_a_restart_cost_of_any_class_is_written(cost, shown):
    setup = Setup(CLUSTER, IdealModel(), Scenario(reconfiguration=cost))
    found = compare_schedulers({"first": InOrder()}, workloads(1), setup)
    assert json.loads(found.to_json())["settings"]["scenario"]["reconfiguration"] == shown
