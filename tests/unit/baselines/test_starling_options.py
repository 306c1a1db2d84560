"""Options of Starling, and the jobs that it considers."""

import math
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest

from baselines.parts.priority import jobs_present
from baselines.starling import StarlingMakespan
from baselines.starling.decide import EFFORT, affordable_depth, rank, remaining_work_of, select_considered
from baselines.starling.round import Present, StarlingRules
from baselines.starling.scheduler import KNOWN, UNKNOWN, Starling, Variant, _gather, change_parameters
from baselines.starling.tables import JobTables, NodeTables
from envs.cluster import NodeGroup, build_cluster
from envs.metrics import summarise
from envs.performance import default_model
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Information, Setup, Simulator, run_episode
from envs.types import ClusterSpec, JobSpec, MurmurationError, NodeSpec
from envs.workloads import SyntheticSource, Workload
from tests.conformance.worlds import Curved
from tests.golden.playground import jobs, two_nodes
from tests.unit.baselines.rounds import busy_round, round_at


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"knee": -0.1}, "knee is -0.1; it must be finite and at least 0"),
        ({"gang": math.nan}, "gang is nan; it must be finite and at least 0"),
        ({"horizon": 0.0}, "horizon is 0 s; it must be positive"),
        ({"floor": 0}, "floor is 0 s; it must be positive"),
        ({"prior": math.inf}, "prior is inf; it must be finite and at least 0"),
        ({"hysteresis": -1.5}, "hysteresis is -1.5; it must be finite and at least -1"),
    ],
)
def test_invalid_parameters_are_refused(change, said):
    with pytest.raises(MurmurationError, match=f"Starling: {said}"):
        replace(KNOWN, **change)


def test_a_negative_look_ahead_is_refused():
    with pytest.raises(MurmurationError, match="look_ahead is -1; it must not be negative"):
        Starling(look_ahead=-1)


def test_ways_are_checked():
    with pytest.raises(MurmurationError, match="Starling: knee is -0.5; it must be finite and at least 0"):
        Starling(variants=[Variant(1.0, 0.3), Variant(1.0, -0.5)])


def inputs(starling: Starling, view: ClusterView) -> tuple[Present, JobTables, NodeTables, StarlingRules]:
    """The arguments of Starling's kernels at a round, for an episode that begins there."""
    starling.reset(view.cluster, np.random.default_rng(0))
    jobs = jobs_present(view)
    work = view.remaining_work(jobs)
    return _gather(view, jobs, work), *starling._arguments(view, hidden=bool(np.isnan(work).any()))


def test_every_way_has_its_order_and_sizes():
    """Job 0 runs on 4 GPUs for 10 s, job 1 on 1 GPU for 20: by time 0 is first, by GPU-time 1."""
    starling = Starling(replace(KNOWN, gang=0.0), variants=[Variant(gang=1.0, knee=0.3)])
    present, tables, _, _ = inputs(starling, round_at(0, jobs((0, 4, 10), (0, 1, 20)), two_nodes()))
    orders = [
        rank(present.jobs, np.arange(len(present.jobs)), present.work, tables, variant, np.zeros(0)).tolist()
        for variant in (0, 1)
    ]
    assert orders == [[0, 1], [1, 0]]
    assert tables.sizes[:, tables.group].shape == (2, 2, 1)


def test_a_large_cluster_gets_a_shorter_forecast():
    """The product of jobs, nodes and completions is bounded."""
    cells = (1, EFFORT // 12, EFFORT // 5, EFFORT // 5 + EFFORT, EFFORT)
    assert [affordable_depth(12, each) for each in cells] == [12, 12, 5, 0, 1]
    assert affordable_depth(0, 1) == 0


def test_declarations():
    starling = Starling()
    assert isinstance(starling, Scheduler)
    assert (starling.information, starling.preemptive, starling.elastic) == ("none", True, True)


def test_variations_change_one_part():
    known = change_parameters("known", {"knee": 0.44})
    assert asdict(known.known) == {**asdict(KNOWN), "knee": 0.44}
    assert known.unknown == UNKNOWN
    hidden = change_parameters("unknown", {"prior": 77.0, "residual": 3.0})
    assert asdict(hidden.unknown) == {**asdict(UNKNOWN), "prior": 77.0, "residual": 3.0}
    assert hidden.known == KNOWN
    with pytest.raises(MurmurationError, match="there is no 'kne' to tune; there are knee, gang"):
        change_parameters("known", {"kne": 0.4})


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("look_ahead", [0, 3])
def test_crowded_rounds_are_filled(seed, look_ahead):
    """Capacity holds, and no waiting rigid job that runs on one GPU is left out while a GPU that it runs on is free."""
    view = busy_round(seed, restart_delay=30.0)
    starling = Starling(look_ahead=look_ahead)
    starling.reset(view.cluster, np.random.default_rng(0))
    allocation = starling.schedule(view)
    assert (allocation.free_gpus >= 0).all()
    runs = allocation.jobs()
    for job in view.queued.tolist():
        if job not in runs and view.num_gpus[job] == 1:
            gpu_types = np.flatnonzero(view.throughputs(job)[:, 1] > 0)
            assert not allocation.free_gpus[np.isin(view.cluster.node_types, gpu_types)].any()


def test_the_parameters_depend_on_the_information():
    """With known work the knee is at 1 of 4 GPUs, with hidden work at 4: two equal jobs share a node, or take turns."""
    curve = Curved()  # the second GPU brings 0.74 of the first, the fourth 0.62
    pair = Workload.of([JobSpec(i, 0.0, 1, 100.0, "any", min_gpus=1, max_gpus=4) for i in range(2)])
    node = ClusterSpec((NodeSpec("new", 4),))
    starling = Starling(replace(KNOWN, knee=0.95), replace(UNKNOWN, knee=0.1), look_ahead=0)
    sizes = []
    for information in (Information("exact"), Information("none")):
        starling.reset(node, np.random.default_rng(0))
        allocation = starling.schedule(round_at(0, pair, node, performance=curve, information=information))
        sizes.append(sorted(place.num_gpus for job in allocation.jobs() if (place := allocation.placement(job))))
    assert sizes == [[1, 3], [4]] or sizes == [[2, 2], [4]]


def test_hidden_work_depends_on_service():
    """Two jobs of 8 GPUs at 8 samples/s, one of which has run for 4 s.

    The prior is one run time of 2 s. Job 0 has run longer: 4 s more for each second run, 16 s. Of 9 jobs that ran for
    2 s, 8 ended: an end of job 1 takes 2 * 9 / 8 s.
    """
    starling = Starling(unknown=replace(UNKNOWN, prior=2.0, spread=0.0, residual=4.0))
    view = round_at(
        4, jobs((0, 8, 10), (4, 8, 2)), two_nodes(), place=[(0, {0: {0: 4, 1: 4}})], information=Information("none")
    )
    present, tables, _, parameters = inputs(starling, view)
    assert np.isnan(present.work).all()
    work = remaining_work_of(present, tables, parameters)
    assert work.tolist() == pytest.approx([8 * 16.0, 8 * 2.25])
    assert rank(present.jobs, np.arange(len(present.jobs)), work, tables, 0, np.zeros(0)).tolist() == [1, 0]


def test_it_plans_for_no_more_jobs_than_there_are_gpus():
    """Of 20 jobs of one GPU, eight are planned for: 2 x 4 GPUs. Of gangs of 8, as many as fill these eight times."""
    for size, planned in ((1, 8), (8, 8), (4, 8)):
        view = round_at(0, jobs(*((0.0, size, 5.0 + i) for i in range(20))), two_nodes())
        present, tables, _, _ = inputs(Starling(), view)
        order = rank(present.jobs, np.arange(len(present.jobs)), present.work, tables, 0, np.zeros(0))
        assert np.flatnonzero(select_considered(order, present, tables)).tolist() == list(range(planned))


def test_it_can_be_sent_to_another_process_after_a_decision():
    """The copy decides as the original does."""
    starling, view = Starling(), round_at(0, jobs((0, 4, 10), (0, 4, 20)), two_nodes())
    starling.reset(view.cluster, np.random.default_rng(0))
    first = starling.schedule(view)
    copy = pickle.loads(pickle.dumps(starling))
    again = copy.schedule(view)
    assert {job: again.placement(job) for job in again.jobs()} == {job: first.placement(job) for job in first.jobs()}


def test_for_a_short_makespan_the_longest_job_is_first():
    """Two nodes of four GPUs and three jobs of four."""
    view = round_at(0.0, jobs((0.0, 4, 10.0), (0.0, 4, 1000.0), (0.0, 4, 20.0)), two_nodes())
    chosen = {}
    for each in (Starling, StarlingMakespan):
        starling: Scheduler = each()
        starling.reset(view.cluster, np.random.default_rng(0))
        chosen[each] = starling.schedule(view).jobs()
    assert chosen == {Starling: {0, 2}, StarlingMakespan: {1, 2}}


def test_the_makespan_is_shorter_with_that_goal():
    """On average over loaded workloads of elastic jobs that end at very different times."""
    cluster = build_cluster("four", [NodeGroup("V100", 4, 4)])
    source = SyntheticSource(cluster, default_model(), num_jobs=40, load=1.5)
    setup, ratios = Setup(cluster, default_model()), []
    for seed in range(12):
        workload = source.episode(np.random.default_rng(seed), "train")
        first, other = (
            summarise(run_episode(each(), Simulator(workload, setup))).makespan for each in (Starling, StarlingMakespan)
        )
        ratios.append(math.log(other / first))
    assert np.mean(ratios) < -0.01
