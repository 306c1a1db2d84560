"""Candidates where jobs share cores, memory and links: by hand, and against the throughputs of the engine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.starling import Starling, round
from baselines.starling.decide import share_nodes
from baselines.starling.occupants import effect_of, kept_fractions, nobody, settle_occupants
from baselines.starling.round import ROW
from baselines.starling.scratch import new_scratch
from baselines.starling.two_candidates import write_merged_candidate, writing
from envs.performance import Contention, TableModel
from envs.performance.contention import MODES
from envs.scheduling import ClusterView
from envs.simulation import Scenario, Setup, Simulator
from envs.types import Allocation, ClusterSpec, JobSpec, MurmurationError, NodeSpec, ResourceTables
from envs.workloads import Workload
from tests.unit.baselines.kernel_candidates import candidate, merged_candidate
from tests.unit.baselines.slow_candidates import Jobs, Rules, arrays, drawn, is_sound, kernel_jobs

WORST_CASE = MODES.index("worst_case")
MODELS = ("resnet50", "alexnet", "bert", "gnmt", "mobilenet", "vae")


def shared(jobs, cores, *, mode=0, stage=0.0, need=4.0, counted=True):
    """Nodes with so many cores each; a GPU needs `need` cores, with fewer its throughput falls in proportion."""
    num_nodes = len(jobs.capacity)
    ample, width, types = np.full(num_nodes, np.inf), 9, jobs.wanted.shape[1]
    factor = np.zeros((1, types, width, 2, 2))
    factor[:, :, :, 1] = 1.0
    saturating = np.zeros((1, types, width, 2))
    saturating[..., 0] = need
    tables = ResourceTables(
        np.array([0.0, need]), np.array([0.0, 1.0 / 64.0]), factor, saturating, np.ones((1, types)),
        np.zeros((1, 64)), np.array([stage]),
    )  # fmt: skip
    nodes = round.SharedNodes(counted, mode, np.array(cores, dtype=np.float64), ample, ample, tables)
    return round.Nodes(np.array(jobs.capacity), np.array(jobs.types), nodes)


def linear(at, *, capacity=(4, 8), wanted=2):
    """Jobs of one sample/s for each GPU on nodes of one type, of at most 2 GPUs."""
    curve = np.arange(3.0)
    return Jobs(
        throughputs=np.array([[curve]] * len(at)), work=[1000.0] * len(at), delay=[0.0] * len(at),
        weight=[1.0] * len(at), wanted=np.full((len(at), 1), wanted), at=at, capacity=capacity,
        types=[0] * len(capacity),
    )  # fmt: skip


def planned(jobs, nodes, **rules):
    return merged_candidate(np.arange(len(jobs.work)), arrays(jobs), nodes, Rules(**rules).numbers).tolist()


def test_a_job_avoids_a_node_whose_cores_are_taken():
    """Job 0 needs all 8 cores of node 0. Node 0 fits best for job 1, but there both would get half; node 1 is free."""
    jobs = linear([{0: 2}, {}])
    assert planned(jobs, shared(jobs, [8, 32], counted=False))[1] == [2, 0]
    assert planned(jobs, shared(jobs, [8, 32]))[1] == [0, 2]


def test_a_node_with_enough_cores_is_filled_first():
    """With 16 cores node 0 feeds both jobs, so the best fit stays the choice."""
    jobs = linear([{0: 2}, {}])
    assert planned(jobs, shared(jobs, [16, 32]))[1] == [2, 0]


def test_a_job_waits_where_it_would_cost_more_than_it_gains():
    """Only node 0 is left: job 1 would run at half and halve job 0, a gain of 0. At no weight for others it starts."""
    jobs = linear([{0: 2}, {}], capacity=(4,))
    assert planned(jobs, shared(jobs, [8]))[1] == [0]
    assert planned(jobs, shared(jobs, [8]), starving=0.5)[1] == [2]


def test_a_job_of_low_core_weight_gives_way():
    """The same, but what job 0 loses counts half: job 1 starts, on one GPU if its own shortage counts double.

    On 2 GPUs both keep 1/2: job 1 is worth 2 * 1/4, less 1/2 * 1. On one both keep 2/3: 4/9, less 1/2 * 2/3.
    """
    jobs = linear([{0: 2}, {}], capacity=(4,))
    for core_weight, second in (([1.0, 1.0], 0), ([0.5, 1.0], 2), ([0.5, 2.0], 1)):
        its = arrays(jobs)._replace(core_weight=np.array(core_weight))
        grid = merged_candidate(np.arange(2), its, shared(jobs, [8]), Rules().numbers)
        assert grid[1].tolist() == [second]


def test_affinity_outweighs_a_shortage_of_cores():
    """On node 0 job 1 would run at half and halve job 0; it goes there only if it is worth exp(2) times as much."""
    jobs = linear([{0: 2}, {}])
    for liking, node in ((0.0, 1), (0.5, 1), (2.0, 0)):
        its = arrays(jobs)._replace(affinity=np.array([[0.0, 0.0], [liking, 0.0]]))
        grid = merged_candidate(np.arange(2), its, shared(jobs, [8, 32]), Rules().numbers)
        assert grid[1].tolist() == [2 if place == node else 0 for place in range(2)]


def test_fewer_cores_by_hand():
    """8 cores, jobs of 2 and 1 GPUs that need 4 each: the third GPU lowers all to 8 / 3 cores, two thirds of 4."""
    jobs = linear([{0: 2}, {}], capacity=(4,))
    its, nodes, grid = arrays(jobs), shared(jobs, [8]), np.array([[2], [0]])
    occupants = nobody(its, nodes)
    settle_occupants(grid, occupants, its, nodes)
    effect = effect_of(1, np.array([1]), 0, 1, grid, occupants, its, nodes)
    assert effect.fed == pytest.approx(2 / 3)
    assert effect.starved == pytest.approx(2 * (1 - 2 / 3))  # job 0 does 2 samples/s
    assert (effect.calm, effect.crowded) == (1.0, 0.0)
    assert kept_fractions(np.array([[2], [1]]), its, nodes) == pytest.approx([2 / 3, 2 / 3])


def test_a_queue_of_cpu_stages_by_hand():
    """Stages of 0.75: two jobs need 1.5 of the CPUs, so the stages last 1.5 times as long: 1 / (1 + 0.75 * 0.5)."""
    jobs = linear([{0: 1}, {}], capacity=(4,))
    its, nodes = arrays(jobs), shared(jobs, [64], mode=WORST_CASE, stage=0.75)
    grid = np.array([[1], [0]])
    occupants = nobody(its, nodes)
    settle_occupants(grid, occupants, its, nodes)
    effect = effect_of(1, np.array([1]), 0, 1, grid, occupants, its, nodes)
    kept = 1 / (1 + 0.75 * 0.5)
    assert (effect.fed, effect.starved) == (1.0, 0.0)
    assert (effect.calm, effect.crowded) == pytest.approx((kept, 1 - kept))


@settings(max_examples=20)
@given(seed=st.integers(0, 1_000_000), keep=st.booleans(), mode=st.sampled_from([0, WORST_CASE]))
def test_candidates_are_valid_and_no_job_gains_from_others(seed, keep, mode):
    order, jobs, rules, _ = drawn(seed)
    rng = np.random.default_rng(seed)
    its, nodes = arrays(jobs), shared(jobs, rng.integers(1, 40, len(jobs.capacity)), mode=mode, stage=0.6)
    grid = candidate(keep, np.array(order), its, nodes, rules.numbers)
    places = [{int(node): int(row[node]) for node in np.flatnonzero(row)} for row in grid]
    assert is_sound(places, jobs)
    fractions = kept_fractions(grid, its, nodes)
    assert (fractions > 0).all()
    assert (fractions <= 1).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 1_000_000), mode=st.sampled_from([0, WORST_CASE]))
def test_bounds_that_skip_nodes_do_not_change_a_candidate(seed, mode):
    """Bounds are used where jobs have no affinities. Affinities of 0 switch them off and mean the same."""
    order, jobs, rules, _ = drawn(seed)
    rng = np.random.default_rng(seed)
    its, nodes = arrays(jobs), shared(jobs, rng.integers(1, 40, len(jobs.capacity)), mode=mode, stage=0.6)
    indifferent = its._replace(affinity=np.zeros(its.present.shape))
    bounded, full = (merged_candidate(np.array(order), each, nodes, rules.numbers) for each in (its, indifferent))
    assert bounded.tolist() == full.tolist()


@settings(max_examples=20)
@given(seed=st.integers(0, 1_000_000), mode=st.sampled_from([0, WORST_CASE]))
def test_scratch_arrays_carry_nothing_from_candidate_to_candidate(seed, mode):
    """Two orders planned one after the other on the same arrays give the same candidates as on new arrays."""
    order, jobs, rules, _ = drawn(seed)
    rng = np.random.default_rng(seed)
    its, nodes = arrays(jobs), shared(jobs, rng.integers(1, 40, len(jobs.capacity)), mode=mode, stage=0.6)
    scratch, kept, grid = new_scratch(its, nodes), np.empty_like(its.present), np.empty_like(its.present)
    for one in (np.array(order), np.array(order[::-1])):
        write_merged_candidate(writing(its, nodes, rules.numbers), one, its, nodes, rules.numbers, scratch, kept, grid)
        assert grid.tolist() == merged_candidate(one, its, nodes, rules.numbers).tolist()
        assert (scratch.fractions == kept_fractions(grid, its, nodes)).all()


LINK = 4.0  # GB/s


class Comparing:
    """Starling, which compares the engine's throughputs with its own at every round."""

    def __init__(self):
        self.starling, self.compared, self.lowest = Starling(look_ahead=0, batch="usual"), 0, 1.0

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        self.starling.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        running, column = view.running, view._engine_side.jobs  # type: ignore[attr-defined]
        if running.size:
            _, site, _ = self.starling._arguments(view, hidden=False)
            nodes = share_nodes(view.capacity.astype(np.int64), site)
            grid = np.zeros((len(running), len(nodes.capacity)), ROW)
            for at, job in enumerate(running.tolist()):
                for node, gpus in view.placement(job).gpus.items():
                    grid[at, node] = gpus
            tables = self.starling._knees.submitted.throughput(view, running)
            zeros = np.zeros(len(running))
            its = kernel_jobs(np.ascontiguousarray(tables), zeros, zeros, zeros, np.zeros((0, 0), np.int64), grid)
            its = its._replace(model=np.array(view.model[running]))
            expected = column["throughput"][running] / column["ample"][running]
            assert (column["kept_by_links"][running] == 1.0).all()
            np.testing.assert_allclose(kept_fractions(grid, its, nodes), expected, rtol=0.03)
            self.compared += len(running)
            self.lowest = min(self.lowest, expected.min())
        return self.starling.schedule(view)


@pytest.mark.parametrize("mode", MODES)
def test_fractions_are_those_of_the_engine(mode):
    """The world rounds amounts to 64ths; everything else is equal, also with jobs on several nodes.

    Links carry the traffic of each job alone. Where they do not, and cores are short too, Starling expects less.
    """
    rng = np.random.default_rng(0)
    specs = [
        JobSpec(i, float(i * 60), int(rng.choice([1, 2, 4, 8])), float(rng.integers(20_000, 400_000)), MODELS[i % 6])
        for i in range(40)
    ]
    cluster = ClusterSpec(tuple(NodeSpec("V100", 4, 12.0, 120.0, inter_node_bandwidth=LINK) for _ in range(4)))
    scenario = Scenario(cpu_memory="shared", contention=Contention(mode))
    comparing = Comparing()
    simulator = Simulator(Workload.of(specs), Setup(cluster, TableModel(), scenario), 0)
    comparing.reset(cluster, rng)
    for view in simulator.rounds():
        simulator.apply(comparing.schedule(view))
    assert comparing.compared > 100
    assert comparing.lowest < 0.9


def test_an_unknown_choice_is_refused():
    with pytest.raises(MurmurationError, match="shared is 'no'; it must be counted or ignored"):
        Starling(shared="no")  # type: ignore[arg-type]
