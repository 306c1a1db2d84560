"""From a view to a matching problem: throughput of gangs, admitted jobs, present workers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.sampling_matching.problem import compute_completion_seconds
from baselines.sampling_matching.round import (
    GangThroughputs,
    compute_gang_throughput,
    drop_unplaceable,
    round_of,
    rounded_nodes,
)
from envs.simulation import Information
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.audit import throughput_of
from tests.conformance.worlds import Curved
from tests.golden.playground import TwoThroughputs, fast_and_slow, jobs, two_nodes
from tests.unit.baselines.rounds import busy_round, round_at


def seen(view, shortness=0.0, restart=None):
    """The round of a view, with throughputs looked up."""
    gang_throughputs = GangThroughputs()
    gang_throughputs.look_up(view)
    return round_of(view, gang_throughputs, "Matching", shortness, restart)


@pytest.mark.parametrize(("nodes", "gpus", "rounded"), [(1, 4, 1), (2, 2, 2), (3, 8, 4), (3, 3, 3), (5, 20, 8)])
def test_node_counts_are_rounded_to_powers_of_two(nodes, gpus, rounded):
    assert rounded_nodes(nodes, gpus) == rounded


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_gang_throughput_equals_the_engines(seed):
    """On any GPUs of any nodes, compared with the formula of the audit."""
    view, rng = busy_round(seed), np.random.default_rng(seed)
    for job in range(min(len(view.num_gpus), 5)):
        gpus = {node: int(rng.integers(1, view.cluster.node_gpus[node] + 1)) for node in range(view.cluster.num_nodes)}
        held = {node: count for node, count in gpus.items() if rng.random() < 0.5} or {0: 1}
        model = view.job(job).model
        small = any(view.cluster.nodes[node].gpu_type == "small" for node in held)
        expected = 0.0 if model == "large" and small else throughput_of(Curved(), view.cluster, model, held)
        assert compute_gang_throughput(view, job, held) == pytest.approx(expected)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_the_problem_matches_the_view(seed):
    """Jobs on one type have the view's throughput; a move of a running job adds its restart."""
    view = busy_round(seed, restart_delay=3.0)
    this = seen(view)
    assert this.problem is not None
    assert this.problem.least.sum() <= view.capacity.sum()
    left = view.remaining_work(this.jobs)
    for row, job in enumerate(this.jobs.tolist()):
        size = int(view.num_gpus[job])
        for gpu_type in range(len(view.cluster.gpu_types)):
            counts = this.problem.present.copy()
            counts[row] = 0
            counts[row, gpu_type] = size
            alone = view.throughputs(job)[gpu_type, size]
            moved = 3.0 if job in view.running and (counts[row] != this.problem.present[row]).any() else 0.0
            expected = left[row] / alone + moved if alone > 0 else np.inf
            if size <= view.capacity[view.cluster.node_types == gpu_type].sum():
                assert compute_completion_seconds(this.problem, counts)[row] == pytest.approx(expected)


def test_a_gang_over_several_types_is_on_at_least_two_nodes():
    """One fast and one slow GPU on two nodes: half of each of Curved's throughputs on two nodes."""
    cluster = ClusterSpec((NodeSpec("new", 4), NodeSpec("old", 4)))
    view = round_at(0, jobs((0, 2, 9), elastic=(1, 8)), cluster, performance=Curved())
    this = seen(view)
    assert this.problem is not None
    expected = 18 / (0.9 * 2**0.8 * (2.0 + 1.0) / 2)
    assert compute_completion_seconds(this.problem, np.array([[1, 1]])) == pytest.approx([expected])
    assert compute_gang_throughput(view, 0, {0: 1, 1: 1}) == pytest.approx(18 / expected)


def test_jobs_with_the_fewest_gpu_seconds_are_admitted():
    """Eight GPUs; least sizes of 4, and 40, 8, 24 and 12 GPU-s: jobs 1 and 3 are admitted; the order continues."""
    view = round_at(0, jobs((0, 4, 10), (0, 4, 2), (0, 4, 6), (0, 4, 3)), two_nodes())
    this = seen(view)
    assert this.jobs.tolist() == [1, 3]
    assert this.order.tolist() == [1, 3, 2, 0]


def test_admission_includes_restarts():
    """Job 0 runs with 12 s left on 8 GPUs, job 1 needs 10 s on 8: job 1 is admitted unless starting takes 3 s."""
    pair = jobs((0, 8, 13), (1, 8, 10))
    place = [(0.0, {0: {0: 4, 1: 4}})]
    assert seen(round_at(1, pair, two_nodes(), place=place)).jobs.tolist() == [1]
    assert seen(round_at(1, pair, two_nodes(), place=place, restart_delay=3)).jobs.tolist() == [0]
    assert seen(round_at(1, pair, two_nodes(), place=place, restart_delay=3), restart=0.0).jobs.tolist() == [1]


def test_weights_fall_with_remaining_time():
    view = round_at(0, jobs((0, 4, 10), (0, 4, 40)), two_nodes())
    problem = seen(view, shortness=1.0).problem
    assert problem is not None
    assert problem.weight.tolist() == [1 / 10, 1 / 40]


def test_jobs_not_yet_submitted_are_left_out_and_sizes_are_limited():
    workload = Workload.of([JobSpec(0, 0.0, 1, 1.0, "any"), JobSpec(1, 5.0, 1, 1.0, "any")])
    cluster = ClusterSpec((NodeSpec("small", 1),))
    view = round_at(0, workload, cluster)
    assert seen(view).jobs.tolist() == [0]
    small = round_at(0, Workload.of([JobSpec(0, 0.0, 1, 1.0, "any", min_gpus=1, max_gpus=9)]), cluster)
    problem = seen(small).problem
    assert problem is not None
    assert problem.most.tolist() == [1]


def test_jobs_without_gpus_of_their_types_are_left_out():
    """Three jobs of two GPUs each need "new" ones, of which there are two; six small ones are of no use to them. The
    shortest is admitted, and so is the job that runs on any type.
    """
    cluster = ClusterSpec((NodeSpec("new", 2), NodeSpec("small", 6)))
    specs = [JobSpec(i, 0.0, 2, work, "large") for i, work in enumerate((9.0, 5.0, 7.0))]
    view = round_at(0, Workload.of([*specs, JobSpec(3, 0.0, 2, 50.0, "any")]), cluster, performance=Curved())
    this = seen(view)
    assert this.jobs.tolist() == [0, 1, 2, 3]
    assert drop_unplaceable(this).jobs.tolist() == [1, 3]


def test_hidden_work_is_an_error_of_one_line():
    view = round_at(0, jobs((0, 4, 10)), fast_and_slow(), performance=TwoThroughputs(), information=Information("none"))
    with pytest.raises(MurmurationError, match="Matching: needs remaining work") as error:
        seen(view)
    assert "\n" not in str(error.value)
