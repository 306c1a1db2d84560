"""Two jobs on the same GPUs: schedules worked by hand, what is refused, and what becomes of a pair."""

from dataclasses import dataclass

import numpy as np
import pytest

from envs.evaluation.audit import Audit
from envs.metrics import segments
from envs.metrics.bounds import Relaxation
from envs.metrics.cluster import gpu_hours, utilisation
from envs.performance import IdealModel
from envs.simulation import EventKind, Scenario, Setup, Simulator
from envs.types import (
    AllocationError,
    ClusterSpec,
    ImpossibleResultError,
    JobSpec,
    MurmurationError,
    NodeSpec,
    PerformanceError,
    Placement,
)
from envs.workloads import Workload


@dataclass(frozen=True)
class Together(IdealModel):
    """A sample per second on each GPU; "light" keeps 0.75 beside another job, "heavy" 0.5; two "huge" do not fit."""

    models: tuple[str, ...] = ("light", "heavy", "huge")

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        if model == other == "huge":
            return 0.0
        return 0.75 if model == "light" else 0.5


def simulator(*jobs: tuple[str, float, float, int], gpus: int = 4, nodes: int = 1, **rules) -> Simulator:
    """One episode of jobs (model, submission, work, GPUs) on nodes of V100."""
    specs = [
        JobSpec(id=i, submit_time=submit, num_gpus=count, work=work, model=model)
        for i, (model, submit, work, count) in enumerate(jobs)
    ]
    cluster = ClusterSpec(tuple(NodeSpec("V100", gpus) for _ in range(nodes)), "pairs")
    scenario = Scenario(**{"sharing": "pairs", "restart_delay": 8.0, **rules})
    return Simulator(Workload.of(specs, "pairs"), Setup(cluster, Together(), scenario))


def place(engine: Simulator, **placements: Placement | None) -> None:
    """Place jobs (j0, j1, ...) in the present round; those that are not named go on."""
    allocation = engine.view.allocation(keep_running=True)
    for name, placement in placements.items():
        if placement is None:
            allocation.stop(int(name[1:]))
        else:
            allocation.place(int(name[1:]), placement)
    engine.apply(allocation)


def finish(engine: Simulator) -> list[float]:
    """Play to the end without a change; return the finish times."""
    while engine.advance():
        engine.apply(engine.view.allocation(keep_running=True))
    result = engine.result("by hand")
    Audit(engine.setup).check(result)
    times: list[float] = result.records["finish_time"].tolist()
    return times


def test_a_pair_worked_by_hand():
    """Job 0 has 90 samples left when job 1 comes; beside it, 0.75 and 0.5 samples/s; the rest of job 1 alone.

    90 / 0.75 = 120 s later, at t = 130, job 0 ends. Job 1 has done 60 of 100, and needs 40 s more.
    """
    engine = simulator(("light", 0.0, 100.0, 1), ("heavy", 10.0, 100.0, 1))
    assert engine.advance()
    place(engine, j0=Placement({0: 1}))
    assert engine.advance()
    place(engine, j1=Placement({0: 1}, beside=0))
    view = engine.view
    assert view.free_gpus.tolist() == [3]
    assert view.pairs == {0: 1}
    assert (view.placement(0).beside, view.placement(1).beside) == (None, 0)
    assert finish(engine) == [130.0, 170.0]
    log = engine.result("").log
    starts = np.flatnonzero(log.events["kind"] == EventKind.START)
    assert log.events["beside"][starts].tolist() == [-1, 0]


def test_who_stays_keeps_the_gpus_without_a_restart():
    engine = simulator(("light", 0.0, 100.0, 1), ("heavy", 0.0, 100.0, 1), ("heavy", 20.0, 1.0, 1))
    assert engine.advance()
    place(engine, j0=Placement({0: 1}), j1=Placement({0: 1}, beside=0))
    assert engine.advance()
    place(engine, j0=None, j2=Placement({0: 1}))
    view = engine.view
    assert view.pairs == {}
    assert view.placement(1) == Placement({0: 1})
    assert view.free_gpus.tolist() == [2]
    result_at = finish_of(engine, 1)
    assert result_at == 110.0  # 10 samples in 20 s beside job 0, then 90 alone
    assert engine.result("").records["num_restarts"].tolist()[1] == 0


def finish_of(engine: Simulator, job: int) -> float:
    """The time at which a job ends if nothing changes any more; the others are stopped at the end."""
    while engine.advance():
        engine.apply(engine.view.allocation(keep_running=True))
    return float(engine.result("").records["finish_time"][job])


@pytest.mark.parametrize("stays", [True, False])
def test_a_guest_that_gets_gpus_of_its_own_moves_if_its_owner_stays(stays):
    engine = simulator(("light", 0.0, 100.0, 1), ("heavy", 0.0, 100.0, 1), ("light", 20.0, 1.0, 1))
    assert engine.advance()
    place(engine, j0=Placement({0: 1}), j1=Placement({0: 1}, beside=0))
    assert engine.advance()
    allocation = engine.view.allocation(keep_running=True)
    if not stays:
        allocation.stop(0)
    allocation.place(1, Placement({0: 1}))
    engine.apply(allocation)
    assert engine.view.free_gpus.tolist() == [2 if stays else 3]
    assert finish_of(engine, 1) == (118.0 if stays else 110.0)


def test_a_owner_that_changes_in_place_keeps_its_guest():
    engine = simulator(("light", 0.0, 200.0, 2), ("light", 0.0, 100.0, 2), ("heavy", 20.0, 1.0, 1), cpu_memory="shared")
    assert engine.advance()
    place(engine, j0=Placement({0: 2}), j1=Placement({0: 2}, beside=0))
    assert engine.advance()
    place(engine, j0=Placement({0: 2}, cpus={0: 2.0}))
    assert engine.view.pairs == {0: 1}
    assert engine.view.placement(0).cpus == {0: 2.0}
    while engine.advance():
        engine.apply(engine.view.allocation(keep_running=True))
    assert engine.result("").records["num_restarts"].tolist() == [0, 0, 0]
    assert engine.result("").records["finish_time"][1] == 100 / 1.5


def test_gangs_share_all_their_gpus():
    engine = simulator(("light", 0.0, 800.0, 8), ("light", 0.0, 800.0, 8), nodes=2)
    assert engine.advance()
    place(engine, j0=Placement({0: 4, 1: 4}), j1=Placement({1: 4, 0: 4}, beside=0))
    assert finish(engine) == [800.0 / 6, 800.0 / 6]
    result = engine.result("")
    assert utilisation(result) == pytest.approx(1.0)
    assert gpu_hours(result) == pytest.approx(2 * 8 * 800 / 6 / 3600)
    held = segments(result.log, result.end_time)
    assert sorted(held["beside"].tolist()) == [-1, -1, 0, 0]


REFUSED = {
    "other GPUs": (
        ("light", "light"),
        Placement({0: 2}, beside=0),
        r"asks for GPUs \{0: 2\} beside job 0, which holds",
    ),
    "nobody there": (("light", "light"), Placement({0: 1}, beside=2), "job 2, which holds none"),
    "itself": (("light", "light"), Placement({0: 1}, beside=1), "job 1, which holds none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_allocation_refuses(name):
    models, placement, message = REFUSED[name]
    engine = simulator(*((model, 0.0, 10.0, 1) for model in (*models, "light")))
    assert engine.advance()
    allocation = engine.view.allocation()
    allocation.place(0, Placement({0: 1}))
    with pytest.raises(AllocationError, match=message):
        allocation.place(1, placement)


def test_two_at_most_and_no_chains():
    engine = simulator(*(("light", 0.0, 10.0, 1) for _ in range(4)))
    assert engine.advance()
    allocation = engine.view.allocation()
    allocation.place(0, Placement({0: 1}))
    allocation.place(1, Placement({0: 1}, beside=0))
    for owner in (0, 1):
        with pytest.raises(AllocationError, match="at most two may"):
            allocation.place(2, Placement({0: 1}, beside=owner))
    allocation.place(3, Placement({0: 1}))
    with pytest.raises(AllocationError, match="while job 1 shares its own"):
        allocation.place(0, Placement({0: 1}, beside=3))
    assert allocation.guest(0) == 1
    engine.apply(allocation)
    assert engine.view.free_gpus.tolist() == [2]


def test_the_engine_refuses_two_that_do_not_fit_together_and_changes_nothing():
    engine = simulator(("huge", 0.0, 10.0, 1), ("huge", 0.0, 10.0, 1), ("light", 0.0, 10.0, 1))
    assert engine.advance()
    before = engine.view.free_gpus.tolist()
    with pytest.raises(AllocationError, match="job 1: is to share the GPUs of job 0, but the two do not fit"):
        place(engine, j2=Placement({0: 1}), j0=Placement({0: 1}), j1=Placement({0: 1}, beside=0))
    assert engine.view.free_gpus.tolist() == before
    assert not len(engine.view.running)


def test_sharing_is_off_by_default():
    engine = simulator(("light", 0.0, 10.0, 1), ("light", 0.0, 10.0, 1), sharing="off")
    assert engine.advance()
    with pytest.raises(AllocationError, match=r"which this scenario does not let jobs do.*scenario\.sharing=pairs"):
        place(engine, j0=Placement({0: 1}), j1=Placement({0: 1}, beside=0))
    assert not engine.view.pair_factors.size


def test_settings_that_cannot_be():
    with pytest.raises(MurmurationError, match="scenario.sharing is 'three'; it must be off or pairs"):
        Scenario(sharing="three")  # type: ignore[arg-type]
    specs = [JobSpec(id=0, submit_time=0.0, num_gpus=1, work=1.0, model="any")]
    setup = Setup(ClusterSpec((NodeSpec("V100", 1),), "one"), IdealModel(), Scenario(sharing="pairs"))
    with pytest.raises(PerformanceError, match="IdealModel does not say how two jobs share a GPU"):
        Simulator(Workload.of(specs, "one"), setup)


def test_the_audit_finds_a_third_job_and_other_gpus():
    engine = simulator(*(("light", 0.0, 10.0, 1) for _ in range(3)))
    assert engine.advance()
    place(engine, j0=Placement({0: 1}), j1=Placement({0: 1}, beside=0), j2=Placement({0: 1}))
    assert finish(engine)
    result, audit = engine.result("cheat"), Audit(engine.setup)
    third = int(np.flatnonzero((result.log.events["kind"] == EventKind.START) & (result.log.events["job"] == 2))[0])
    result.log.events["beside"][third] = 0
    with pytest.raises(ImpossibleResultError, match="is the third on GPUs of job 0"):
        audit.check(result)
    result.log.events["beside"][third] = 1  # which holds none for itself
    with pytest.raises(ImpossibleResultError, match="job 2 shares GPUs of node 0 .* with job 1"):
        audit.check(result)


def test_lower_bounds_count_what_pairs_gain():
    """Two light jobs keep 0.75 each, so a GPU does 1.5 jobs' worth: four of 90 s end at 240 s, no earlier."""
    jobs = [("light", 0.0, 90.0, 1)] * 4
    for sharing, expected in (("off", 360.0), ("pairs", 240.0)):
        engine = simulator(*jobs, gpus=1, sharing=sharing)
        assert Relaxation.of(engine.workload, engine.setup).makespan() == pytest.approx(expected)
