"""Cores, memory and contention, calculated by hand."""

from dataclasses import replace

import pytest

from envs.performance import Contention, IdealModel
from envs.simulation import Rounds, Scenario, Setup
from envs.types import AllocationError, ClusterSpec, Configuration, ExecutionPlan, JobSpec, NodeSpec, Placement
from envs.workloads import Workload
from tests.unit.simulation.bench import FULL_THROUGHPUT, VGG_GB, Bench, alone, outages
from tests.unit.simulation.plays import Acts, Play, cluster_of, words
from tests.unit.simulation.snapshots import snapshot

SHARED = Scenario(restart_delay=3.0, cpu_memory="shared")
MEASURED = Scenario(restart_delay=0.0, contention=Contention("measured"))
WORST = Scenario(restart_delay=0.0, contention=Contention("worst_case"))
MAX_MIN = Scenario(restart_delay=0.0, contention=Contention("max_min"))
LEAST_MEMORY = 20 + 54 / 64  # GB: 20.83, the first grid point without slowdown, in whole 64ths


def cores(play: Play, job: int) -> list[float]:
    """Cores that the last START or RESIZE gave a job, by node."""
    kind = [kind for _, kind, who in play.told if who == job and kind in ("START", "RESIZE")][-1]
    placement = play.placement(kind, job)
    assert placement.cpus is not None
    return list(placement.cpus.values())


def test_a_demanding_job_gets_all_that_it_can_use_of_an_idle_node(engine):
    """8 GPUs, 32 cores. vgg16 uses 12 for 2 GPUs; nothing is kept back for the six free GPUs."""
    play = Play(engine, {0.0: {0: {0: 2}}}, Workload.of([alone("vgg16", 2, 40)]), cluster_of(8), SHARED)
    assert cores(play, 0) == [12.0]
    assert play.finish == [pytest.approx(20, rel=1e-12)]


def test_a_demanding_job_gets_the_cores_that_a_modest_one_leaves(engine):
    """resnet50 takes 4 of 32 cores for 4 GPUs. vgg16 could use 24 for the other 4, and 28 are left."""
    jobs = Workload.of([alone("resnet50", 4, 40), alone("vgg16", 4, 40)])
    play = Play(engine, {0.0: {0: {0: 4}, 1: {0: 4}}}, jobs, cluster_of(8), SHARED)
    assert (cores(play, 0), cores(play, 1)) == ([4.0], [24.0])
    assert play.finish == [pytest.approx(10), pytest.approx(10)]


def test_the_order_of_jobs_makes_no_difference(engine):
    """As above with ids exchanged, and with two demanding jobs: 32 - 2 cores for 2 + 4 GPUs are 10 and 20."""
    jobs = Workload.of([alone("vgg16", 4, 40), alone("resnet50", 4, 40)])
    play = Play(engine, {0.0: {1: {0: 4}, 0: {0: 4}}}, jobs, cluster_of(8), SHARED)
    assert (cores(play, 0), cores(play, 1)) == ([24.0], [4.0])
    jobs = Workload.of([alone("vgg16", 4, 40), alone("resnet50", 2, 40), alone("vgg16", 2, 40)])
    play = Play(engine, {0.0: {0: {0: 4}, 1: {0: 2}, 2: {0: 2}}}, jobs, cluster_of(8), SHARED)
    assert [cores(play, job) for job in range(3)] == [[20.0], [2.0], [10.0]]


def test_amounts_are_whole_64ths(engine):
    """10.33 cores are 661 64ths. Two jobs of 1 GPU, which could use 384 each: half, rounded down, then what is left.

    Of memory 20 and 54 64ths are enough.
    """
    play = Play(
        engine,
        {0.0: {0: {0: 1}, 1: {0: 1}}},
        Workload.of([alone("vgg16", 1, 9), alone("vgg16", 1, 9)]),
        cluster_of(3, cores=10.33),
        SHARED,
    )
    assert (cores(play, 0), cores(play, 1)) == ([330 / 64], [331 / 64])
    memory = play.placement("START", 0).memory
    assert memory == {0: LEAST_MEMORY}


def test_cores_count_per_gpu_and_the_scarcest_node_decides(engine):
    """vgg16 on 2 + 1 GPUs: 12 cores on node 0, but 2 on node 1: a third of the throughput. It keeps its surplus."""
    cluster = ClusterSpec((NodeSpec("plain", 8, 32.0), NodeSpec("plain", 4, 2.0)))
    play = Play(engine, {0.0: {0: {1: 1, 0: 2}}}, Workload.of([alone("vgg16", 3, 9)]), cluster, SHARED)
    assert cores(play, 0) == [12.0, 2.0]
    assert play.finish == [pytest.approx(9 / (3 * 0.5 * 2 / 6), rel=1e-12)]


def test_named_amounts_are_taken_first_and_the_rest_is_divided(engine):
    """1 names 24 of 32 cores for 2 GPUs; 8 are left for job 0, which could use 12."""
    jobs = Workload.of([alone("vgg16", 2, 40), alone("vgg16", 2, 40)])
    play = Play(engine, {0.0: {0: {0: 2}, 1: Placement({0: 2}, cpus={0: 24.0})}}, jobs, cluster_of(8), SHARED)
    assert cores(play, 1) == [24.0]
    assert cores(play, 0) == [8.0]
    assert play.finish[1] == pytest.approx(20)


def test_named_cores_count_exactly_and_unnamed_memory_by_the_table(engine):
    """3 cores a GPU halve vgg16; the memory that the rule assigns is enough, and so are 2 GB a GPU, by the exact model.

    The table interpolates from 0 to 20.83 GB: with 10 of 2 * 20.83 GB, the job has 5 / 20.83 of the throughput.
    """
    placement = Placement({0: 2}, cpus={0: 6.0})
    play = Play(engine, {0.0: {0: placement}}, Workload.of([alone("vgg16", 2, 40)]), cluster_of(8), SHARED)
    assert play.finish == [pytest.approx(40)]
    scarce = ClusterSpec((NodeSpec("plain", 2, 32.0, 10.0),))
    play = Play(engine, {0.0: {0: placement}}, Workload.of([alone("vgg16", 2, 40)]), scarce, SHARED)
    assert play.finish == [pytest.approx(40 / (5 / 20.83))]
    both = replace(placement, memory={0: 4.0})
    assert Play(engine, {0.0: {0: both}}, Workload.of([alone("vgg16", 2, 40)]), cluster_of(8), SHARED).finish == [40.0]


def test_more_cores_need_no_restart(engine):
    """1 GPU at half throughput until 2 (1 of 11 samples), then at full throughput: no restart, a RESIZE in the log."""
    names = [Placement({0: 1}, cpus={0: amount}, memory={0: 4.0}) for amount in (3.0, 6.0)]
    acts: Acts = {0.0: {0: names[0]}, 2.0: {0: names[1]}}
    jobs = Workload.of([alone("vgg16", 1, 11), JobSpec(1, 2.0, 1, 1.0, "vgg16")])
    play = Play(engine, acts, jobs, cluster_of(8), SHARED)
    assert [told for told in play.told if told[2] == 0][1:] == [(0, "START", 0), (2, "RESIZE", 0), (12, "FINISH", 0)]
    assert play.records["num_restarts"].tolist() == [0, 0]


def test_more_cores_while_a_job_starts_do_not_delay_it_further(engine):
    """The start ends at 5 although cores change at 2; then the job runs at full throughput."""
    names = [Placement({0: 1}, cpus={0: amount}, memory={0: 4.0}) for amount in (3.0, 6.0)]
    jobs = Workload.of([alone("vgg16", 1, 10), JobSpec(1, 2.0, 1, 1.0, "vgg16")])
    play = Play(engine, {0.0: {0: names[0]}, 2.0: {0: names[1]}}, jobs, cluster_of(8), replace(SHARED, start_delay=5.0))
    assert play.finish[0] == 15.0


def test_cores_are_divided_anew_when_jobs_come_and_go(engine):
    """4 GPUs of 0 use 24 of 32 cores until 1 (4 of 40 samples). Beside 1, both have 16, so 8/3 samples/s, and 1 with
    its 8 samples ends at 4; 0 has 12 then, and does the other 28 in 7 s. It never restarts, and no event tells of it.
    """
    jobs = Workload.of([alone("vgg16", 4, 40), JobSpec(1, 1.0, 4, 8.0, "vgg16")])
    play = Play(engine, {0.0: {0: {0: 4}}, 1.0: {1: {0: 4}}}, jobs, cluster_of(8), SHARED)
    assert (cores(play, 0), cores(play, 1)) == ([24.0], [16.0])
    assert play.finish == [pytest.approx(11, rel=1e-12), pytest.approx(4, rel=1e-12)]
    assert [kind for _, kind, job in play.told if job == 0] == ["ARRIVE", "START", "FINISH"]
    assert play.records["num_restarts"].tolist() == [0, 0]


def test_a_failure_gives_the_cores_to_the_jobs_that_are_left(engine):
    """Job 0 on node 0, job 1 on both nodes. Node 1 fails at 2: 0 has 24 cores instead of 16 for its 4 GPUs then.

    2 s at 8/3 samples/s are 16/3; 24 - 16/3 at 4 samples/s are 14/3 s.
    """
    cluster = ClusterSpec((NodeSpec("plain", 8, 32.0), NodeSpec("plain", 4, 32.0)))
    jobs = Workload.of([alone("vgg16", 4, 24), alone("vgg16", 8, 400)])
    scenario = replace(SHARED, failures=outages((), (2.0, 1000.0)), horizon=50.0)
    play = Play(engine, {0.0: {0: {0: 4}, 1: {0: 4, 1: 4}}}, jobs, cluster, scenario)
    assert (cores(play, 0), cores(play, 1)) == ([16.0], [16.0, 24.0])
    assert play.finish[0] == pytest.approx(2 + 14 / 3, rel=1e-12)


def test_naming_amounts_and_leaving_them_to_the_world_are_changes_without_a_restart(engine):
    """Placing 0 as it is changes nothing; to name the 12 cores that it has, and to name none again, is a change."""
    jobs = Workload.of([alone("vgg16", 2, 40), *(JobSpec(i, float(i), 1, 1.0, "bert") for i in (1, 2, 3))])
    named = Placement({0: 2}, cpus={0: 12.0})
    acts: Acts = {0.0: {0: {0: 2}}, 1.0: {0: {0: 2}}, 2.0: {0: named}, 3.0: {0: {0: 2}}}
    play = Play(engine, acts, jobs, cluster_of(8), SHARED)
    told = [(time, kind) for time, kind, job in play.told if job == 0]
    assert told == [(0, "ARRIVE"), (0, "START"), (2, "RESIZE"), (3, "RESIZE"), (20, "FINISH")]
    assert play.records["num_restarts"][0] == 0


def test_a_view_shows_only_named_amounts_and_keeping_them_costs_nothing(engine):
    simulator = engine(Workload.of([alone("vgg16", 2, 40)]), Setup(cluster_of(8), Bench(), SHARED))
    for view in simulator.rounds():
        assert view.shares_cpu_memory
        for placement in (Placement({0: 2}), Placement({0: 2}, memory={0: 5.0})):
            allocation = view.allocation()
            allocation.place(0, placement)
            simulator.apply(allocation)
            assert view.placement(0) == placement
            again = view.allocation()
            again.keep(0)
            simulator.apply(again)
    assert len(simulator.result("").log) == 4  # ARRIVE, START, RESIZE, FINISH


@pytest.mark.parametrize(
    ("placement", "compiled", "reference"),
    [
        (Placement({0: 2}, cpus={0: 33.0}), "job 1: node 0 has 32 cores, fewer than", "node 0: the named cpus"),
        (Placement({0: 2}, memory={0: 200.0}), "job 1: node 0 has 256 GB of memory, fewer", "node 0: the named memory"),
        (Placement({0: 2}, cpus={0: 28.0}), "job 1: node 0 has 32 cores, fewer than", "node 0: the named cpus"),
        (Placement({0: 2}, cpus={1: 2.0}), "job 1: its placement sets cpus to {1: 2.0}", "names cpus on other nodes"),
        (Placement({0: 2}, cpus={0: 1 / 64}), "[0] at least 1/64 for each GPU", "each GPU needs at least 1/64"),
        (Placement({0: 2}, memory={0: 3.0}), "resnet50 does not fit on 2 GPUs", "resnet50 does not run"),
        (Placement({0: 2}, cpus={0: 24.0}), "node 0 has 32 cores, fewer", "cpus leave 0 for 4 GPUs"),
        (Placement({0: 2}, cpus={0: 24 - 3 / 64}), "node 0 has 32 cores, fewer", "cpus leave 0.046875 for 4 GPUs"),
    ],
)
def test_named_amounts_that_do_not_fit_are_refused(engine, placement, compiled, reference):
    """Job 0 keeps 8 of 32 cores and 100 of 256 GB; job 2 and the three free GPUs need a 64th each."""
    jobs = Workload.of([alone("vgg16", 2, 40), JobSpec(1, 1.0, 2, 4.0, "resnet50"), JobSpec(2, 1.0, 1, 4.0, "bert")])
    simulator = engine(jobs, Setup(cluster_of(8, 8), Bench(), SHARED))
    for view in simulator.rounds():
        allocation = view.allocation(keep_running=True)
        if view.time == 0:
            allocation.place(0, Placement({0: 2}, cpus={0: 8.0}, memory={0: 100.0}))
            simulator.apply(allocation)
            continue
        allocation.place(1, placement)
        allocation.place(2, {0: 1})
        before = snapshot(simulator)
        with pytest.raises(AllocationError) as error:
            simulator.apply(allocation)
        assert words(engine, compiled, reference) in str(error.value)
        assert "\n" not in str(error.value)
        assert view.running.tolist() == [0]
        assert snapshot(simulator) == before
        break
    else:
        raise AssertionError("the round at 1 is missing")


def test_a_job_without_enough_memory_makes_no_progress(engine):
    """2 GPUs of a node of 40 GB: 20 GB each, but the job needs 30. The run ends with the job unfinished."""

    class Strict(Bench):
        def throughput(self, model, configuration):
            """0 below 30 GB a GPU."""
            memory = configuration.memory_per_gpu
            alone = Configuration(configuration.gpu_type, configuration.num_gpus)
            return 0.0 if memory is not None and memory < 30 else super().throughput(model, alone)

    jobs = Workload.of([alone("resnet50", 2, 40)])
    scenario = replace(SHARED, rounds=Rounds(stall_interval=7.0, max_stalls=4))
    play = Play(engine, {0.0: {0: {0: 2}}}, jobs, cluster_of(2, memory=40.0), scenario, Strict())
    assert play.told == [(0, "ARRIVE", 0), (0, "START", 0)]
    assert play.asked == [0.0, 7.0, 14.0, 21.0, 28.0]
    again: Acts = {0.0: {0: {0: 2}}, 7.0: {0: None}, 14.0: {0: {0: 2}}, 21.0: {0: None}}
    play = Play(engine, again, jobs, cluster_of(2, memory=40.0), scenario, Strict())
    assert play.told[-1] == (21, "STOP", 0)
    assert play.asked == [0.0, 7.0, 14.0, 21.0, 28.0]  # another start is no progress


def two_by_two(link: float) -> ClusterSpec:
    """Two nodes of 4 GPUs."""
    return ClusterSpec(tuple(NodeSpec("plain", 4, inter_node_bandwidth=link) for _ in range(2)))


def test_two_jobs_share_a_link_and_the_remaining_one_gets_all_of_it(engine):
    """Alone each sends 2 * gradients * 1 step/s * (2 - 1) / 2, the capacity of the link. Together: half throughput.

    A ends at 2, and B continues at 256.
    """
    jobs = Workload.of([alone("vgg16", 2, 256), alone("vgg16", 2, 512)])
    play = Play(engine, {0.0: {0: {0: 1, 1: 1}, 1: {0: 1, 1: 1}}}, jobs, two_by_two(VGG_GB), MEASURED, FULL_THROUGHPUT)
    assert play.finish == [2.0, 3.0]


@pytest.mark.parametrize(("scenario", "factors"), [(MEASURED, (0.8, 0.75)), (MAX_MIN, (1.0, 0.75))])
def test_a_job_with_little_traffic_loses_little(engine, scenario, factors):
    """The link has capacity 4. A's traffic is 1. B's is 4: batch 512, half the steps at 8 times the throughput.

    By max-min fairness A gets 1 and B 3 of its 4. By chance B's transfers coincide with all of A's, and A's with a
    quarter of B's: both would run at 1 / (1 + 1/4) = 0.8. The smaller factor counts: A has 0.8, B 0.75.
    """
    jobs = Workload.of([alone("vgg16", 2, 256), alone("vgg16", 2, 4096)])
    placement = Placement({0: 1, 1: 1}, batch_size=512)
    every_sample = replace(scenario, statistical_efficiency="every_sample")
    acts: Acts = {0.0: {0: {0: 1, 1: 1}, 1: placement}}
    play = Play(engine, acts, jobs, two_by_two(4 * VGG_GB), every_sample, FULL_THROUGHPUT)
    # Alone A has 256 samples/s and B 2048. When A is done, B continues at its full throughput.
    done = 1 / factors[0]
    assert play.finish == [pytest.approx(done), pytest.approx(done + (4096 - 2048 * factors[1] * done) / 2048)]


def test_three_jobs_on_a_link_that_is_not_full_slow_each_other(engine):
    """Each of three fills a quarter of the link: it meets the others half of the time, 1 / (1 + 1/4 * 1/2) = 8/9.

    The 768 samples that one processes alone in 3 s take 27/8 s.
    """
    jobs = Workload.of([alone("vgg16", 2, 768) for _ in range(3)])
    acts: Acts = {0.0: {job: {0: 1, 1: 1} for job in range(3)}}
    assert (
        Play(engine, acts, jobs, two_by_two(4 * VGG_GB), MEASURED, FULL_THROUGHPUT).finish
        == [pytest.approx(27 / 8)] * 3
    )
    assert Play(engine, acts, jobs, two_by_two(4 * VGG_GB), MAX_MIN, FULL_THROUGHPUT).finish == [3.0] * 3


def test_three_jobs_never_get_more_than_the_link(engine):
    """Each of three fills 2/3 of the link. By chance alone each would have 1 / (1 + 2/3 * 4/3) = 9/17.

    Together that would be 18/17 of the link, so each is limited to a third of it: half of its throughput.
    """
    jobs = Workload.of([alone("vgg16", 2, 256) for _ in range(3)])
    acts: Acts = {0.0: {job: {0: 1, 1: 1} for job in range(3)}}
    play = Play(engine, acts, jobs, two_by_two(1.5 * VGG_GB), MEASURED, FULL_THROUGHPUT)
    assert play.finish == [pytest.approx(2.0)] * 3


def test_traffic_is_that_of_all_samples_and_progress_that_of_useful_ones(engine):
    """The same with an assumed noise scale of 1024: at batch 512 instead of 256 a sample makes 5/6 of the progress.

    B processes as many samples and has as much traffic as before. So it needs 5/6 of the work to end at the same time.
    """
    jobs = Workload.of([alone("vgg16", 2, 256), alone("vgg16", 2, 4096 * 5 / 6)])
    acts: Acts = {0.0: {0: {0: 1, 1: 1}, 1: Placement({0: 1, 1: 1}, batch_size=512)}}
    assumed = replace(MAX_MIN, statistical_efficiency="assumed")
    play = Play(engine, acts, jobs, two_by_two(4 * VGG_GB), assumed, FULL_THROUGHPUT)
    assert play.finish == [pytest.approx(1.0), pytest.approx(1 + (4096 - 1536) / 2048)]


@pytest.mark.parametrize(("batch", "seconds"), [(None, 150.0), (128, 150.0), (4096, 150.0 * 10038 / 6070)])
def test_useful_samples_count(engine, batch, seconds):
    """ResNet-18 at 2 samples/s on two GPUs, whatever the batch. The usual one of 128 samples, named, changes nothing.

    With the noise scale of 5942, a sample at 4096 makes (5942 + 128) / (5942 + 4096) of the progress.
    """
    jobs, ideal = Workload.of([alone("resnet18", 2, 300)]), IdealModel(("resnet18",))
    play = Play(engine, {0.0: {0: Placement({0: 2}, batch_size=batch)}}, jobs, cluster_of(4), MEASURED, ideal)
    assert play.finish == [seconds if batch != 4096 else pytest.approx(seconds)]


def test_in_the_worst_case_all_transfers_collide(engine):
    """Three jobs that each fill half of the link: 1 / (1 + 0.5 * 2) of the throughput."""
    jobs = Workload.of([alone("vgg16", 2, 256) for _ in range(3)])
    acts: Acts = {0.0: {job: {0: 1, 1: 1} for job in range(3)}}
    stages = Play(engine, acts, jobs, two_by_two(1e9), WORST, FULL_THROUGHPUT).finish
    assert stages == [pytest.approx(3.0)] * 3  # vgg16's steps use the CPUs all the time: three take turns
    both = Play(engine, acts, jobs, two_by_two(2 * VGG_GB), WORST, FULL_THROUGHPUT).finish
    assert both == [6.0, 6.0, 6.0]


def test_cpu_stages_interfere_in_the_worst_case_only(engine):
    """vgg16 uses the CPUs during the whole step: two on a node take turns; as measured, they do not interfere."""
    jobs = Workload.of([alone("vgg16", 2, 40), alone("vgg16", 2, 60), alone("vgg16", 2, 40)])
    acts: Acts = {0.0: {0: {0: 2}, 1: {0: 2}, 2: {1: 2}}}
    assert Play(engine, acts, jobs, cluster_of(4, 4), MEASURED).finish == [20.0, 30.0, 20.0]
    assert Play(engine, acts, jobs, cluster_of(4, 4), WORST).finish == [40.0, 40 + 20 / 2, 20.0]


def test_jobs_on_one_node_have_no_traffic(engine):
    jobs = Workload.of([alone("vgg16", 2, 512), alone("vgg16", 2, 512)])
    play = Play(engine, {0.0: {0: {0: 2}, 1: {0: 2}}}, jobs, two_by_two(1e-6), MEASURED, FULL_THROUGHPUT)
    assert play.finish == [256.0, 256.0]


def test_the_slowest_node_limits_the_job(engine):
    """On node 0 each job fills the link, factor 1/2; on node 1 each fills half, 1 / (1 + 1/4) = 0.8: a half."""
    links = ClusterSpec(tuple(NodeSpec("plain", 4, inter_node_bandwidth=VGG_GB * part) for part in (1.0, 2.0)))
    jobs = Workload.of([alone("vgg16", 2, 512), alone("vgg16", 2, 512)])
    play = Play(engine, {0.0: {0: {0: 1, 1: 1}, 1: {0: 1, 1: 1}}}, jobs, links, MEASURED, FULL_THROUGHPUT)
    assert play.finish == [4.0, 4.0]


def test_a_new_plan_changes_the_traffic_on_the_shared_link(engine):
    """At 1 B names a plan of plain replicas, which would double its throughput; the link does not carry more.

    Both at 128 samples/s until A is done at 4; B has 128 left and the link to itself: 256 a second.
    """
    jobs = Workload.of([alone("vgg16", 2, 512), alone("vgg16", 2, 640), JobSpec(2, 1.0, 1, 1.0, "vgg16")])
    plan = ExecutionPlan(tensor=2)
    acts: Acts = {0.0: {0: {0: 1, 1: 1}, 1: {0: 1, 1: 1}}, 1.0: {1: Placement({0: 1, 1: 1}, plan=plan), 2: {0: 1}}}
    play = Play(engine, acts, jobs, two_by_two(VGG_GB), MEASURED, FULL_THROUGHPUT)
    assert play.finish[:2] == [4.0, 4.5]
