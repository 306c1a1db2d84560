"""Compiled Starling plays as `schedule` decides, to the bit; in pieces, on snapshots and with offsets of zero too."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from baselines.starling import Starling
from baselines.starling.compiled import changed_rows, deciding, propose
from baselines.starling.offsets import NO_OFFSETS, Offsets
from envs.simulation import RunResult, Scenario, Setup, Simulator, run_episode
from envs.simulation.world.state import State
from envs.types import ClusterError, ClusterSpec, FloatArray, JobSpec, MurmurationError, NodeSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import random_world
from tests.conformance.worlds import Curved
from tests.golden.playground import jobs

LOOK_AHEADS = [0, 12]
# Look-ahead, first seed and number of worlds; each with and without all rules.
CHUNKS = [(0, 1000, 50), (12, 4000, 12)]
MORE = [pytest.param(*chunk, marks=pytest.mark.exhaustive) for chunk in [(0, 2000, 400), (12, 5000, 60)]]


class World:
    """An episode that can be played again from its start, without a log."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        self.start = State.allocate(simulator.cluster, len(simulator.workload), scenario=simulator.scenario)
        self.start.copy_from(simulator.state)

    def play(self, starling: Starling, **options: object) -> RunResult:
        """Play it from the start in compiled code."""
        self.simulator.state.copy_from(self.start)
        starling.reset(self.simulator.cluster, self.simulator.rng)
        assert starling.play(self.simulator, **options)  # type: ignore[arg-type]
        return self.simulator.result("compiled")

    def decide(self, starling: Starling) -> RunResult:
        """Play it from the start decision by decision."""
        self.simulator.state.copy_from(self.start)
        return run_episode(starling, self.simulator, compiled=False)


def world_of_seed(seed: int, *, plain: bool) -> World | None:
    """A random world; None if its cluster cannot run one of its jobs."""
    world = random_world(seed, plain=plain)
    try:
        return World(Simulator(world.workload, world.setup, world.seed, logging=False))
    except ClusterError:
        return None


def in_a_round(seeds: Iterable[int], *, look_ahead: int, rounds: int) -> Iterator[tuple[int, World, Starling]]:
    """Random worlds that Starling has played for some rounds, in the next one; those that end before are left out."""
    for seed in seeds:
        if world := world_of_seed(seed, plain=seed % 2 == 0):
            scheduler = starling(look_ahead)
            world.play(scheduler, rounds=rounds)
            if world.simulator.advance():
                yield seed, world, scheduler


def told(result: RunResult) -> tuple[bytes, int, float]:
    """What two equal runs have in common: every start, end and restart of every job, to the bit."""
    return result.records.tobytes(), result.num_rounds, result.end_time


def drawn_offsets(each: FloatArray, affinity: FloatArray) -> Offsets:
    """Offsets from one row for each sort, and the affinity."""
    return Offsets(each[0], each[1], each[2], each[3], each[4], affinity)


@cache
def starling(look_ahead: int) -> Starling:
    """One scheduler for all worlds: `reset` must forget the last one."""
    return Starling(look_ahead=look_ahead, batch="usual", hidden_look_ahead=look_ahead)


@pytest.mark.parametrize("plain", [True, False], ids=["gpus alone", "all rules"])
@pytest.mark.parametrize(("look_ahead", "first", "worlds"), [*CHUNKS, *MORE])
def test_play_equals_schedule(look_ahead, first, worlds, plain):
    played = 0
    for seed in range(first, first + 2 * worlds):
        if played < worlds and (world := world_of_seed(seed, plain=plain)):
            decided = told(world.decide(starling(look_ahead)))
            assert told(world.play(starling(look_ahead))) == decided, f"world {seed}"
            played += 1
    assert played == worlds


@pytest.mark.parametrize("look_ahead", LOOK_AHEADS)
def test_offsets_of_zero_change_no_bit(look_ahead):
    for seed in range(30):
        if world := world_of_seed(seed, plain=seed % 2 == 0):
            count, nodes = len(world.simulator.workload), world.simulator.cluster.num_nodes
            zeros = drawn_offsets(np.zeros((5, count)), np.zeros((count, nodes)))
            expected = told(world.play(starling(look_ahead)))
            assert told(world.play(starling(look_ahead), offsets=zeros)) == expected, f"world {seed}"


@pytest.mark.parametrize("look_ahead", LOOK_AHEADS)
def test_any_offsets_give_allocations_that_fit(look_ahead):
    """The engine's counters stay consistent, no job is lost, and the offsets have an effect."""
    changed = 0
    for seed in range(30):
        if world := world_of_seed(seed, plain=seed % 2 == 0):
            count, nodes = len(world.simulator.workload), world.simulator.cluster.num_nodes
            rng = np.random.default_rng(seed)
            offsets = drawn_offsets(rng.normal(0.0, 1.0, (5, count)), rng.normal(0.0, 1.0, (count, nodes)))
            plain = told(world.play(starling(look_ahead)))
            changed += told(world.play(starling(look_ahead), offsets=offsets)) != plain
            assert (world.simulator.view.free_gpus >= 0).all()
            held = sum(world.simulator.view.placement(job).num_gpus for job in world.simulator.view.running.tolist())
            assert held + world.simulator.view.free_gpus.sum() == world.simulator.view.capacity.sum()
    assert changed > 10


def test_an_episode_in_pieces_is_the_same():
    """Three rounds at a time."""
    for seed in range(20):
        if world := world_of_seed(seed, plain=seed % 2 == 0):
            expected = told(world.play(starling(0)))
            world.play(starling(0), rounds=0)
            episode = world.simulator.state.episode[0, 0]
            while not episode.ended:
                before = int(episode.num_rounds)
                starling(0).play(world.simulator, rounds=3)
                assert episode.num_rounds <= before + 3
            assert told(world.simulator.result("pieces")) == expected


def test_until_is_a_horizon():
    """It ends the episode as the horizon of the scenario does."""
    for seed in range(20):
        if world := world_of_seed(seed, plain=seed % 2 == 0):
            cut = told(world.play(starling(0), until=100.0))
            world.start.episode["horizon"] = np.minimum(world.start.episode["horizon"], 100.0)
            assert told(world.play(starling(0))) == cut


def test_a_snapshot_plays_as_its_schedule_decides():
    compared = 0
    for seed, world, scheduler in in_a_round(range(40), look_ahead=0, rounds=2):
        view, results = world.simulator.view, []
        for compiled in (True, False):
            copy = view.snapshot()
            copy.apply(scheduler.schedule(copy.view))
            if compiled:
                assert scheduler.play(copy, rounds=30)
            else:
                for _ in range(30):
                    if not copy.advance():
                        break
                    copy.apply(scheduler.schedule(copy.view))
            results.append((copy.state.jobs["finish"].tobytes(), float(copy.state.episode[0, 0].time)))
        assert results[0] == results[1], f"world {seed}"
        compared += 1
    assert compared > 20


def test_a_proposal_is_the_schedule_and_changes_nothing():
    compared = 0
    for seed, world, scheduler in in_a_round(range(30), look_ahead=12, rounds=1):
        before = world.simulator.state.jobs.tobytes(), world.simulator.state.nodes.tobytes()
        arguments = scheduler.kernel_arguments(world.simulator)
        proposal = propose(deciding(*arguments, NO_OFFSETS), world.simulator.world, *arguments, 12, NO_OFFSETS)
        allocation = scheduler.schedule(world.simulator.view)
        changes = {}
        for row in np.flatnonzero(changed_rows(proposal)).tolist():
            on = np.flatnonzero(proposal.grid[row]).tolist()
            changes[int(proposal.jobs[row])] = {node: int(proposal.grid[row, node]) for node in on}
        expected = {job: dict(place.gpus) if place else {} for job, place in allocation.changes.items()}
        assert changes == expected, f"world {seed}"
        assert before == (world.simulator.state.jobs.tobytes(), world.simulator.state.nodes.tobytes())
        compared += bool(changes)
    assert compared > 10


def test_best_batch_sizes_are_left_to_schedule():
    world = world_of_seed(1, plain=True)
    assert world is not None
    before = world.simulator.state.episode.tobytes()
    assert not Starling(batch="best").play(world.simulator)
    assert world.simulator.state.episode.tobytes() == before


def simple(workload: Workload, cluster: ClusterSpec, **changes: object) -> World:
    """A world in which only GPUs count."""
    return World(Simulator(workload, Setup(cluster, Curved(), Scenario(**changes)), logging=False))  # type: ignore[arg-type]


def offsets_with(name: str, values: object) -> Offsets:
    """Offsets of one sort."""
    return NO_OFFSETS._replace(**{name: np.array(values, dtype=np.float64)})


def test_priority_decides_who_goes_first():
    """Two rigid jobs of all 8 GPUs: the shorter goes first, unless its key is multiplied by exp(3)."""
    world = simple(jobs((0, 8, 10), (0, 8, 5)), TWO)
    starts = [world.play(starling(0), offsets=offsets_with("priority", [0.0, up])).records["start_time"].tolist()
              for up in (0.0, 3.0)]  # fmt: skip
    assert starts[0][1] == 0.0 == starts[1][0]
    assert starts[0][0] > 0.0 < starts[1][1]


def first_grid(world: World, offsets: Offsets, scheduler: Starling | None = None) -> list[list[int]]:
    """The GPUs of each job by node in the first round."""
    scheduler = scheduler or starling(0)
    world.simulator.state.copy_from(world.start)
    scheduler.reset(world.simulator.cluster, world.simulator.rng)
    assert world.simulator.advance()
    arguments = scheduler.kernel_arguments(world.simulator)
    proposal = propose(deciding(*arguments, offsets), world.simulator.world, *arguments, 0, offsets)
    grid = np.zeros_like(proposal.grid)
    for row, job in enumerate(proposal.jobs.tolist()):
        grid[job] = proposal.grid[row]
    rows: list[list[int]] = grid.tolist()
    return rows


def elastic(*works: float, most: int = 4) -> Workload:
    """Jobs of 1 to `most` GPUs that arrive at once."""
    return Workload.of([JobSpec(i, 0.0, 1, work, "any", min_gpus=1, max_gpus=most) for i, work in enumerate(works)])


NODE = ClusterSpec((NodeSpec("new", 4),))
TWO = ClusterSpec((NodeSpec("new", 4), NodeSpec("new", 4)))
PATIENT = Starling(replace(starling(0).known, knee=0.7), look_ahead=0)  # the knee of these jobs is at 2 of 4 GPUs


def test_size_moves_the_knee():
    """Job 0 comes first; with half its size it leaves 3 GPUs, of which job 1 takes 2, and growth gives out the rest."""
    world = simple(elastic(100.0, 400.0, 900.0), NODE)
    assert sum(map(sum, first_grid(world, NO_OFFSETS, PATIENT))) == 4
    small = first_grid(world, offsets_with("size", [-5.0, 0.0, 0.0]), PATIENT)
    large = first_grid(world, offsets_with("size", [5.0, 0.0, 0.0]), PATIENT)
    assert small[0] < large[0] == [4]


def test_growth_decides_who_gets_the_rest():
    """Two equal jobs at their knee of 1 GPU share 4: whoever's weight is multiplied by exp(5) takes the other two."""
    world = simple(elastic(100.0, 100.0), NODE)
    lean = Starling(replace(starling(0).known, knee=0.99), look_ahead=0)
    assert first_grid(world, offsets_with("growth", [5.0, 0.0]), lean) == [[3], [1]]
    assert first_grid(world, offsets_with("growth", [0.0, 5.0]), lean) == [[1], [3]]


def test_affinity_decides_the_node():
    """Both nodes are empty: the lower is taken, unless the other is liked better; a forbidden node is never taken."""
    world = simple(elastic(100.0, most=2), TWO)
    assert first_grid(world, NO_OFFSETS) == [[2, 0]]
    assert first_grid(world, offsets_with("affinity", [[0.0, 0.5]])) == [[0, 2]]
    assert first_grid(world, offsets_with("affinity", [[-np.inf, 0.0]])) == [[0, 2]]
    assert first_grid(world, offsets_with("affinity", [[-np.inf, -np.inf]])) == [[0, 0]]


def test_affinity_weighs_against_size():
    """On node 0 job 1 gets 2 GPUs beside job 0, on node 1 up to 4: it goes to node 0 if it likes it by more."""
    specs = [JobSpec(0, 0.0, 2, 10.0, "any"), JobSpec(1, 0.0, 1, 500.0, "any", min_gpus=1, max_gpus=4)]
    world = simple(Workload.of(specs), TWO)
    wide = Starling(replace(starling(0).known, knee=0.0), look_ahead=0)
    assert first_grid(world, NO_OFFSETS, wide) == [[2, 0], [0, 4]]
    assert first_grid(world, offsets_with("affinity", [[0.0, 0.0], [0.3, 0.0]]), wide)[1] == [0, 4]
    assert first_grid(world, offsets_with("affinity", [[0.0, 0.0], [1.0, 0.0]]), wide)[1] == [2, 0]


def test_restart_cost_decides_whether_to_grow():
    """Job 0 shares a node with job 1 and grows when that ends, unless its restart is thought to cost exp(8) times."""
    specs = [JobSpec(0, 0.0, 1, 50_000.0, "any", min_gpus=1, max_gpus=4), JobSpec(1, 0.0, 2, 10.0, "any")]
    world = simple(Workload.of(specs), NODE, restart_delay=5.0)
    restarts = [world.play(starling(0), offsets=offsets_with("restart", [up, 0.0])).records["num_restarts"][0]
                for up in (0.0, 8.0)]  # fmt: skip
    assert restarts == [1, 0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"priority": np.zeros(1)}, r"priority has shape \(1,\); give \(2,\), or an array without jobs"),
        ({"affinity": np.zeros((2, 3))}, r"affinity has shape \(2, 3\); give \(2, 2\)"),
        ({"growth": np.array([0.0, np.nan])}, "growth is not finite everywhere"),
        ({"restart": np.array([0.0, np.inf])}, "restart is not finite everywhere"),
        ({"size": np.array([0.0, -np.inf])}, "size is not finite everywhere"),
    ],
)
def test_offsets_that_do_not_fit_are_refused(change, said):
    world = simple(elastic(100.0, 100.0), TWO)
    with pytest.raises(MurmurationError, match=said):
        world.play(starling(0), offsets=NO_OFFSETS._replace(**change))


def test_a_negative_number_of_rounds_is_refused():
    world = simple(elastic(100.0), TWO)
    with pytest.raises(MurmurationError, match="rounds is -1; it must not be negative"):
        world.play(starling(0), rounds=-1)


def test_hidden_work_is_guessed_alike():
    """Known, estimated and hidden work all occur among the random worlds."""
    for plain in (True, False):
        found = {random_world(seed, plain=plain).setup.scenario.information.work for seed in range(40)}
        assert found == {"exact", "estimate", "none"}
