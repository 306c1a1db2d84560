"""Laws of all matching methods: names, units and seeds change only what they should."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import SamplingMatching
from baselines.sampling_matching.problem import Problem, objective, of_jobs
from baselines.sampling_matching.search import (
    Sampling,
    best_matching,
    greedy_matching,
    present_matching,
    sampled_matching,
)
from envs.simulation import Scenario, Setup, Simulator, run_episode
from tests.conformance.audit import check_run
from tests.conformance.worlds import CLUSTERS, Curved, scenarios, workloads
from tests.unit.baselines.matching_optima import every_split
from tests.unit.baselines.matching_worlds import any_problem, every_category_matching, paper_problem

seeds = st.integers(0, 100_000)
sizes = st.sampled_from([(2, 6), (3, 7), (4, 9)])
FEW = Sampling(samples=10)


def worths_of(made: Problem) -> dict[str, float]:
    """The worth of every method's matching, with a fixed seed."""
    return {
        "greedy": greedy_matching(made).worth,
        "sampled": sampled_matching(made, np.random.default_rng(0), FEW).worth,
        "all": every_category_matching(made, FEW).worth,
        "best": best_matching(made, np.random.default_rng(0), FEW).worth,
    }


def permuted(made: Problem, order) -> Problem:
    """The same workers in another order."""
    return made._replace(
        throughputs=np.ascontiguousarray(made.throughputs[..., order]),
        supply=made.supply[order],
        present=np.ascontiguousarray(made.present[:, order]),
    )


@given(seeds, sizes)
def test_job_numbering_does_not_matter(seed, size):
    """Jobs are prioritised by their properties: the same categories are drawn."""
    made = paper_problem(seed, *size)
    order = np.random.default_rng(seed).permutation(made.num_jobs)
    assert worths_of(of_jobs(made, order)) == pytest.approx(worths_of(made))


@given(seeds, sizes)
def test_worker_numbering_does_not_matter(seed, size):
    made = paper_problem(seed, *size)
    order = np.random.default_rng(seed).permutation(len(made.supply))
    assert worths_of(permuted(made, order)) == pytest.approx(worths_of(made))


@given(seeds, sizes, st.sampled_from([0.01, 7.0, 3600.0]))
def test_the_unit_of_samples_does_not_matter(seed, size, unit):
    """Each job's samples are counted in its own unit."""
    made = paper_problem(seed, *size)
    scale = unit ** np.random.default_rng(seed).uniform(0, 1, made.num_jobs)
    told = made._replace(work=made.work * scale, throughputs=made.throughputs * scale[:, None, None, None])
    assert worths_of(told) == pytest.approx(worths_of(made))


@given(seeds, sizes, st.sampled_from([1 / 3600, 60.0]))
def test_the_unit_of_time_scales_worths(seed, size, unit):
    made = paper_problem(seed, *size)
    told = made._replace(throughputs=made.throughputs / unit, overhead=made.overhead * unit)
    scaled = {name: worth * unit for name, worth in worths_of(made).items()}
    assert worths_of(told) == pytest.approx(scaled)


@given(seeds)
def test_equal_seeds_give_equal_matchings(seed):
    made = any_problem(seed)
    one, again = (best_matching(made, np.random.default_rng(seed), FEW) for _ in range(2))
    assert one.counts.tolist() == again.counts.tolist()
    assert (one.worth, one.categories) == (again.worth, again.categories)


@given(seeds)
def test_problems_are_not_modified(seed):
    made = any_problem(seed)
    before = [np.array(field).copy() for field in made]
    worths_of(made)
    present_matching(made)
    assert all((one == np.array(field)).all() for one, field in zip(before, made, strict=True))


@given(seeds, sizes)
def test_allowing_idle_workers_never_worsens_the_optimum(seed, size):
    made = paper_problem(seed, *size, link_gb_s=1.25)
    assert every_split(made._replace(may_idle=True)) <= every_split(made) * (1 + 1e-12)


@given(seeds, sizes)
def test_one_more_worker_never_harms_if_workers_may_idle(seed, size):
    made = paper_problem(seed, *size, may_idle=True)
    fewer = made._replace(
        throughputs=np.ascontiguousarray(made.throughputs[..., 1:]),
        supply=made.supply[1:],
        present=made.present[:, 1:].copy(),
    )
    if fewer.num_workers >= fewer.num_jobs:
        assert every_split(made) <= every_split(fewer) * (1 + 1e-12)


@given(seeds)
def test_matchings_are_in_order(seed):
    """Optimum, all categories, then samples of them."""
    made = paper_problem(seed, 3, 7)
    found = worths_of(made)
    optimum = every_split(made)
    assert optimum <= min(found.values()) * (1 + 1e-9)
    assert found["all"] <= found["sampled"] * (1 + 1e-9)
    assert found["best"] <= found["greedy"]


@given(seeds)
def test_costly_restarts_keep_the_present_matching(seed):
    """If every job can run on what it holds and any change costs more than it saves, nothing changes."""
    made = paper_problem(seed, 3, 7)
    counts = greedy_matching(made).counts[np.random.default_rng(seed).permutation(3)]
    dear = made._replace(present=counts, restart=np.full(3, objective(made, counts) * 2), may_idle=True)
    assert best_matching(dear, np.random.default_rng(0), FEW).counts.tolist() == counts.tolist()


@pytest.mark.parametrize("name", sorted(CLUSTERS))
@settings(max_examples=10)
@given(data=st.data(), scenario=scenarios, shortness=st.sampled_from([0.0, 1.0, 2.0]))
def test_runs_are_valid_under_every_objective(name, data, scenario, shortness):
    workload = data.draw(workloads(CLUSTERS[name], most_jobs=14))
    scheduler = SamplingMatching(Sampling(samples=3, order="workload", window=None), shortness=shortness)
    result = run_episode(scheduler, Simulator(workload, Setup(CLUSTERS[name], Curved(), scenario)))
    check_run(result, Curved(), scenario)
    assert result.finished.all()


@settings(max_examples=10)
@given(data=st.data())
def test_without_arrivals_and_restarts_no_job_is_preempted(data):
    """Jobs whose least sizes all fit at once are never preempted."""
    workload = data.draw(workloads(CLUSTERS["homogeneous"], most_jobs=4))
    if workload.jobs["min_gpus"].sum() > CLUSTERS["homogeneous"].num_gpus:
        return
    scenario = Scenario(restart_delay=0.0)
    result = run_episode(SamplingMatching(), Simulator(workload, Setup(CLUSTERS["homogeneous"], Curved(), scenario)))
    assert sum(record.num_preemptions for record in result) == 0
