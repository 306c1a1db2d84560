"""Requirements on every scheduler, and on both engines, where throughputs must be found out."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Starling
from baselines.parts.linear_gaussian import LinearGaussian
from baselines.starling.exploring import ExplorationRules
from envs.simulation import Information, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from tests.conformance.audit import check_run
from tests.conformance.test_schedulers import NAMES, SCHEDULERS
from tests.conformance.worlds import HETEROGENEOUS, Curved, scenarios, workloads

NEEDS_SNAPSHOTS = ("learned_planner", "planner")  # of the compiled engine
HIDDEN = st.builds(
    Information,
    work=st.sampled_from(["exact", "estimate"]),
    throughput=st.sampled_from(["profiled", "observed"]),
    stated_error=st.sampled_from([0.0, 0.5]),
    sample_error=st.sampled_from([0.0, 0.1]),
    profiles=st.integers(1, 4),
)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2)
@given(data=st.data(), scenario=scenarios, information=HIDDEN, seed=st.integers(0, 3))
def test_it_runs_on_beliefs_the_same_in_both_engines(name, data, scenario, information, seed):
    """All jobs end with exactly their work, and both engines leave the same log."""
    workload = data.draw(workloads(HETEROGENEOUS, most_jobs=6))
    scenario = replace(scenario, batch_sizes="usual", information=information)
    setup = Setup(HETEROGENEOUS, Curved(), scenario, LinearGaussian())
    result = run_episode(SCHEDULERS[name], Simulator(workload, setup, seed))
    check_run(result, Curved(), scenario)
    assert result.finished.all()
    if name not in NEEDS_SNAPSHOTS:
        assert run_episode(SCHEDULERS[name], ReferenceSimulator(workload, setup, seed)).log == result.log


@settings(max_examples=3)
@given(data=st.data(), scenario=scenarios, information=HIDDEN, seed=st.integers(0, 3))
def test_jobs_of_any_length_try_gpu_types_alike_in_both_engines(data, scenario, information, seed):
    """Random jobs are too short for Starling's own rules, so here all jobs try."""
    workload = data.draw(workloads(HETEROGENEOUS, most_jobs=6))
    scenario = replace(scenario, batch_sizes="usual", information=information)
    setup = Setup(HETEROGENEOUS, Curved(), scenario, LinearGaussian())
    starling = Starling(exploration=ExplorationRules(long=0.0))
    result = run_episode(starling, Simulator(workload, setup, seed))
    check_run(result, Curved(), scenario)
    assert result.finished.all()
    assert run_episode(starling, ReferenceSimulator(workload, setup, seed)).log == result.log
