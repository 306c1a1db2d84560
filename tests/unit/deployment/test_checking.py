"""A decision is checked before anything is done: what the simulator refuses is refused in one line."""

import math
from typing import Any

import pytest

from deployment.mirror import Mirror
from deployment.state import ClusterState, Decision, JobState
from envs.simulation import Information, Scenario, Setup
from envs.types import AllocationError, ClusterSpec, ExecutionPlan, JobSpec, MurmurationError, NodeSpec, Placement
from tests.conformance.worlds import Curved


class Paired(Curved):
    """Two jobs on the same GPUs keep half of their throughput each."""

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        return 0.5


CLUSTER = ClusterSpec((NodeSpec("new", 4), NodeSpec("old", 4), NodeSpec("new", 4)), "three nodes")
JOBS = (
    JobSpec(0, 0.0, 1, 9.0, "any"),
    JobSpec(1, 0.0, 2, 9.0, "any", 1, 4),
    JobSpec(2, 0.0, 1, 9.0, "any"),
    JobSpec(3, 0.0, 4, 9.0, "any"),
)
STATE = ClusterState(
    5.0,
    JOBS,
    {2: 3.0},
    frozenset({2}),
    (JobState(0, Placement({0: 1})), JobState(1, Placement({0: 2})), JobState(3)),
)


def mirror(scenario=None):
    found = Mirror(Setup(CLUSTER, Paired(), scenario or Scenario()), shares=True)
    found.observe(STATE)
    return found


def place(job: Any, gpus: Any, **other: Any) -> Decision:
    return Decision({job: Placement(gpus, **other)})


REFUSED = [
    (place(3, {0: 1000}), "job 3: .*1000 GPUs on node 0"),
    (place(3, {0: 2}), "job 3: asks for 2 GPUs on node 0, where 1 are free"),
    (place(3, {1: 3}), "job 3: is given 3 GPUs; its range is 4 to 4"),
    (place(1, {0: 1, 1: 4}), "job 1: is given 5 GPUs; its range is 1 to 4"),
    (place(3, {2: 4}), "job 3: asks for 4 GPUs on node 2, where 0 are free"),
    (place(3, {3: 4}), "job 3: asks for 4 GPUs on node 3; nodes are 0 to 2"),
    (place(3, {-1: 4}), "job 3: asks for 4 GPUs on node -1"),
    (place(3, {0: -1, 1: 4}), "job 3: asks for -1 GPUs on node 0"),
    (place(3, {}), "job 3: is given 0 GPUs"),
    (place(7, {1: 1}), "job 7 is not in the system at t = 5 s"),
    (place(2, {1: 1}), "job 2 is not in the system at t = 5 s"),
    (Decision({-1: None}), "job -1 is not in the system"),
    (Decision({2: None}), "job 2 is not in the system"),
    (Decision({10**400: None}), "give whole numbers"),
    (place("3", {1: 4}), "give whole numbers"),
    (place(3, {1: 4.5}), "job 3: its placement has 4.5 .*give whole numbers"),
    (place(3, {1: True}), "give whole numbers"),
    (place(3, None), "value of the wrong type"),
    (Decision({3: 4}), "value of the wrong type"),  # type: ignore[dict-item]
    (place(3, {1: 4}, batch_size="x"), "value of the wrong type"),
    (place(3, {1: 4}, cpus={1: 4}), "job 3: its placement sets cpus, which this scenario does not limit"),
    (place(3, {1: 4}, beside=0), "job 3: is to share the GPUs of job 0, which holds other GPUs"),
    (place(3, {1: 4}, beside=10**400), "job 3: is to share the GPUs of job 1000.*, which holds none"),
    (place(0, {0: 1}, beside=0), "job 0: .*shares the GPUs of job 0"),
    (Decision({}, 5.0), "next decision at t = 5 s, which is not after t = 5 s"),
    (Decision({}, math.nan), "next decision at t = nan s"),
    (Decision({}, "6"), "value of the wrong type"),  # type: ignore[arg-type]
]


@pytest.fixture(scope="module")
def observed():
    return mirror()


@pytest.mark.parametrize(("decision", "wanted"), REFUSED, ids=range(len(REFUSED)))
def test_a_decision_that_the_simulator_would_refuse_is_refused_in_one_line(observed, decision, wanted):
    with pytest.raises(AllocationError, match=wanted) as raised:
        observed.check(decision)
    assert str(raised.value).isprintable()


def test_a_decision_is_checked_as_changes_of_what_runs_and_changes_nothing(observed):
    view = observed._view
    for _ in range(2):
        observed.check(Decision({0: None, 1: Placement({0: 3}), 3: Placement({1: 4})}, 6.0))
        observed.check(Decision({}))
    assert view.placement(0).gpus == {0: 1}
    assert view.free_gpus.tolist() == [1, 4, 0]
    assert observed.observe(ClusterState(6.0, jobs=STATE.jobs)).running.tolist() == [0, 1]


def test_a_guest_far_from_its_owner_is_refused_before_the_engine_gives_it_gpus():
    pairs = mirror(Scenario(sharing="pairs"))
    with pytest.raises(AllocationError, match="job 3: .*which holds other GPUs; both must hold the same"):
        pairs.check(place(3, {1: 4}, beside=0))
    with pytest.raises(AllocationError, match="job 3: is to share the GPUs of job 0, which holds none"):
        pairs.check(Decision({0: None, 3: Placement({0: 1}, beside=0)}))


def test_a_plan_is_refused_where_throughputs_are_hidden_as_in_the_simulator():
    hidden = mirror(Scenario(batch_sizes="usual", information=Information("none", throughput="observed")))
    with pytest.raises(AllocationError, match="job 3: throughputs are hidden"):
        hidden.check(place(3, {1: 4}, plan=ExecutionPlan(data=4)))


def test_before_the_first_round_nothing_can_be_checked():
    with pytest.raises(MurmurationError, match="before the first round"):
        Mirror(Setup(CLUSTER, Curved())).check(Decision({}))
