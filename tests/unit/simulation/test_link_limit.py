"""A job alone on its links sends no more than they carry: worked out by hand on both engines."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from envs.metrics.bounds import Relaxation
from envs.performance import Contention, model_profile
from envs.simulation import LinkLimit, Scenario, Setup, ThroughputTable
from envs.types import ClusterSpec, Configuration, ExecutionPlan, NodeSpec, Placement
from envs.workloads import Workload
from tests.unit.simulation.bench import FULL_THROUGHPUT, VGG_GB, Bench, alone
from tests.unit.simulation.plays import Acts, Play

MEASURED, WORST, MAX_MIN = (
    Scenario(restart_delay=0.0, contention=Contention(mode)) for mode in ("measured", "worst_case", "max_min")
)
BOTH: Acts = {0.0: {0: {0: 1, 1: 1}}}  # job 0 on one GPU of each of two nodes


@dataclass(frozen=True)
class CountsLinks(Bench):
    """The same with transfers included."""

    counts_links: ClassVar[bool] = True


def linked(*links: float, gpu_types: tuple[str, ...] = ("plain", "plain", "plain")) -> ClusterSpec:
    """Nodes of 4 GPUs with links of so many GB/s."""
    pairs = zip(gpu_types, links, strict=False)
    return ClusterSpec(tuple(NodeSpec(name, 4, 24.0, inter_node_bandwidth=link) for name, link in pairs))


def time_alone(engine, cluster, scenario=MEASURED, performance=FULL_THROUGHPUT, samples=256, place=None):
    """Seconds that one job of vgg16 takes on two nodes."""
    acts = BOTH if place is None else {0.0: {0: place}}
    play = Play(engine, acts, Workload.of([alone("vgg16", 2, samples)]), cluster, scenario, performance)
    return play.finish[0]


@pytest.mark.parametrize("scenario", [MEASURED, WORST, MAX_MIN])
def test_a_job_alone_is_limited_by_its_link(engine, scenario):
    """A step a second sends 2 * VGG_GB * (2 - 1) / 2 over each link. A link of a quarter of that takes 4 s for it."""
    assert time_alone(engine, linked(VGG_GB / 4, VGG_GB / 4), scenario) == pytest.approx(4.0, rel=1e-12)
    assert time_alone(engine, linked(VGG_GB, VGG_GB), scenario) == pytest.approx(1.0, rel=1e-12)
    assert time_alone(engine, linked(9 * VGG_GB, 9 * VGG_GB), scenario) == 1.0


def test_without_contention_links_do_not_count(engine):
    assert time_alone(engine, linked(VGG_GB / 4, VGG_GB / 4), Scenario()) == 1.0


def test_the_slowest_link_of_the_jobs_nodes_decides(engine):
    """The third node has no GPU of the job."""
    assert time_alone(engine, linked(9 * VGG_GB, VGG_GB / 2, VGG_GB / 64)) == pytest.approx(2.0, rel=1e-12)


def test_three_nodes_send_more_than_two(engine):
    """2/3 instead of 1/2 of twice the gradients: a step of 256 samples sends 4/3 of them, over a third in a second."""
    jobs = Workload.of([alone("vgg16", 3, 256)])
    cluster = linked(VGG_GB / 3, VGG_GB / 3, VGG_GB / 3)
    play = Play(engine, {0.0: {0: {0: 1, 1: 1, 2: 1}}}, jobs, cluster, MEASURED, FULL_THROUGHPUT)
    assert play.finish == [pytest.approx(4.0)]


def test_cores_and_links_limit_like_a_roofline(engine):
    """2 of 6 cores for each GPU leave a third of the throughput. A link of half changes nothing, one of a quarter does.

    Were both factors multiplied, the job would take 6 and 12 s.
    """
    shared = replace(MEASURED, cpu_memory="shared")
    fed = Placement({0: 1, 1: 1}, cpus={0: 2.0, 1: 2.0})
    assert time_alone(engine, linked(VGG_GB / 2, VGG_GB / 2), shared, place=fed) == pytest.approx(3.0)
    assert time_alone(engine, linked(VGG_GB / 4, VGG_GB / 4), shared, place=fed) == pytest.approx(4.0)


def test_a_larger_batch_sends_less_for_a_sample(engine):
    """A batch of 512 instead of 256: half of the traffic for a sample, so twice the throughput over a full link."""
    every_sample = replace(MEASURED, statistical_efficiency="every_sample")
    cluster, large = linked(VGG_GB / 4, VGG_GB / 4), Placement({0: 1, 1: 1}, batch_size=512)
    assert time_alone(engine, cluster, every_sample, place=large) == pytest.approx(2.0)


def test_named_plans_of_plain_replicas_are_limited(engine):
    named = Placement({0: 1, 1: 1}, plan=ExecutionPlan(data=2))
    assert time_alone(engine, linked(VGG_GB / 4, VGG_GB / 4), place=named) == pytest.approx(4.0)


def test_named_plans_of_sharded_models_are_not(engine):
    """BERT has no such plans, GPT-2 has; Rubick's model counts their transfers."""
    performance = Bench(("gpt2_xl",), spread=128.0)
    jobs = Workload.of([alone("gpt2_xl", 2, 256)])
    cluster = linked(0.01, 0.01)
    for plan, is_limited in ((None, True), (ExecutionPlan(data=2), False)):
        acts: Acts = {0.0: {0: Placement({0: 1, 1: 1}, plan=plan)}}
        finish = Play(engine, acts, jobs, cluster, MEASURED, performance).finish
        assert (finish[0] > 100.0) == is_limited
        assert is_limited or finish == [1.0]


def test_a_performance_model_that_counts_links_is_not_limited(engine):
    counting = CountsLinks(spread=128.0)
    assert time_alone(engine, linked(VGG_GB / 4, VGG_GB / 4), performance=counting) == 1.0


def test_two_limited_jobs_share_the_link(engine):
    """Each fills the link alone, in 4 s. Together each gets half: 8 s. Max-min fairness agrees."""
    jobs = Workload.of([alone("vgg16", 2, 256), alone("vgg16", 2, 256)])
    acts: Acts = {0.0: {job: {0: 1, 1: 1} for job in range(2)}}
    cluster = linked(VGG_GB / 4, VGG_GB / 4)
    for scenario in (MEASURED, MAX_MIN):
        play = Play(engine, acts, jobs, cluster, scenario, FULL_THROUGHPUT)
        assert play.finish == [pytest.approx(8.0)] * 2


def test_the_network_limits_such_a_job(engine):
    """It runs for 4 s, all of them at a quarter of its throughput."""
    jobs = Workload.of([alone("vgg16", 2, 256)])
    limited = Play(engine, BOTH, jobs, linked(VGG_GB / 4, VGG_GB / 4), MEASURED, FULL_THROUGHPUT).result.limited
    assert limited is not None
    assert limited.running == pytest.approx(4.0)
    assert limited.network == pytest.approx(4.0)


def test_schedulers_see_the_limit(engine):
    """`throughputs`, `throughput` and `goodput` of the view; 5 GPUs need two nodes, and are slower than 4 on one."""
    cluster = linked(VGG_GB / 4, VGG_GB / 2)  # of unequal links of a type, the slowest counts
    jobs = Workload.of([alone("vgg16", 5, 256)])
    setup = Setup(cluster, FULL_THROUGHPUT, MEASURED)
    view = next(iter(engine(jobs, setup, 0).rounds()))
    batch = model_profile("vgg16").usual_batch(5)
    most = batch / 4  # a step of 5 GPUs sends as much as one of 2
    assert view.throughputs(0)[0, :6].tolist() == [0, 1, 2, 3, 4, pytest.approx(min(most, 5 * 128))]
    configuration = Configuration("plain", 5, 2)
    assert view.throughput(0, configuration) == view.goodput(0, configuration) == view.throughputs(0)[0, 5]
    assert view.throughput(0, Configuration("plain", 4)) == 4.0
    larger = Configuration("plain", 5, 2, batch_size=2 * batch)
    assert view.throughput(0, larger) == pytest.approx(min(2 * most, 5 * 128 * batch / 32))


def test_the_table_is_unlimited_and_its_consolidated_throughputs_are_limited():
    setup = Setup(linked(VGG_GB / 4, VGG_GB / 4), FULL_THROUGHPUT, MEASURED)
    table = ThroughputTable.build(setup, ("vgg16", "resnet50"), 8)
    assert table.throughputs[0, 0, 8, 1] == 8 * 128.0
    assert table.consolidated()[0, 0, 8] == table.reference()[0, 8] == table.link_limit[0, 0, 8] < 8 * 128.0
    assert np.isinf(table.link_limit[:, :, :5]).all()
    off = ThroughputTable.build(replace(setup, scenario=Scenario()), ("vgg16",), 8)
    assert off.consolidated()[0, 0, 8] == 8 * 128.0


def test_the_limit_is_that_of_the_ring():
    setup = Setup(linked(1.25, 1.25), FULL_THROUGHPUT, MEASURED)
    profile = model_profile("vgg16")
    seconds = 2 * profile.gradient_gb * 7 / 8 / 1.25  # of a step's transfers on 8 nodes
    assert LinkLimit(setup).throughput("vgg16", 16, 8, 1.25) == pytest.approx(profile.usual_batch(16) / seconds)
    assert LinkLimit(setup).throughput("vgg16", 8, 1, 1.25) == np.inf


def test_the_bound_counts_the_limit():
    """One type: a rigid job of 8 GPUs on two nodes takes its work over the limit, and so long all 8 GPUs."""
    setup = Setup(linked(VGG_GB / 4, VGG_GB / 4), FULL_THROUGHPUT, MEASURED)
    limit = LinkLimit(setup).throughput("vgg16", 8, 2, VGG_GB / 4)
    found = Relaxation.of(Workload.of([alone("vgg16", 8, 1000)]), setup)
    assert found.alone.tolist() == [pytest.approx(1000 / limit)]
    assert found.demand.tolist() == [[pytest.approx(8 * 1000 / limit)]]


def test_the_bound_stays_below_jobs_on_two_types_that_share_a_link(engine):
    """Fast and plain GPUs together fill a link that plain ones do not reach and that fast ones would exceed.

    vgg16 on 4 + 4 GPUs: the mean throughput is 2 * 8 * 128, twice that of plain GPUs alone; the link carries so much.
    """
    batch = model_profile("vgg16").usual_batch(8)
    link = 2 * VGG_GB / batch * 16 * 128 / 2
    cluster = linked(link, link, gpu_types=("fast", "plain"))
    jobs = Workload.of([alone("vgg16", 8, 16 * 128 * 50)])
    setup = Setup(cluster, FULL_THROUGHPUT, MEASURED)
    play = Play(engine, {0.0: {0: {0: 4, 1: 4}}}, jobs, cluster, MEASURED, FULL_THROUGHPUT)
    assert play.finish == [pytest.approx(50.0)]
    assert Relaxation.of(jobs, setup).mean_jct() <= 50.0 * (1 + 1e-12)
    assert Relaxation.of(jobs, setup).makespan() <= 50.0 * (1 + 1e-12)
