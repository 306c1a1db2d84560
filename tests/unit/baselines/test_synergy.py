"""The parts of Synergy: sensitivities, resources of nodes, mechanisms; and properties of every run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Synergy
from baselines.synergy import mechanisms as synergy_mechanisms
from baselines.synergy.cpu_memory import PART, Amount, JobSensitivities, JobSensitivity, NodeResources, grid
from baselines.synergy.mechanisms import OpenRound, Opt, Tune, groups_by_nodes
from baselines.synergy.scheduler import select
from envs.simulation import Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec, MurmurationError, NodeSpec, Placement
from envs.workloads import Workload
from tests.golden.playground import jobs, two_nodes
from tests.golden.test_synergy import NODE, Hungry
from tests.unit.baselines.rounds import round_at

MECHANISMS = ("proportional", "greedy", "tune", "opt")
SMALL = NodeSpec("plain", 2, cpu_cores=4.0, memory=100.0)


def test_demand_and_worthwhile_amounts_by_hand():
    """Throughput grows with cores up to 2, needs 20 GB, and is 1 on the share of 1 core and 20 GB."""
    throughput = np.array([[0.5, 1.0, 1.0], [0.5, 2.0, 2.0], [0.5, 2.0, 2.0]])
    sensitivity = JobSensitivity(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 40.0]), throughput, Amount(1.0, 20.0))
    assert sensitivity.demand == Amount(2.0, 20.0)
    assert sensitivity.fair_throughput == 1.0
    assert sensitivity.worthwhile == [(Amount(1.0, 20.0), 1.0), (Amount(2.0, 20.0), 2.0)]


@given(
    throughputs=st.lists(st.lists(st.floats(0.1, 4.0), min_size=3, max_size=3), min_size=3, max_size=3),
    row=st.integers(0, 2),
    column=st.integers(0, 2),
)
def test_worthwhile_amounts_are_the_undominated_ones(throughputs, row, column):
    """Against the definition: at least the share's throughput, and no smaller amount reaches as much."""
    throughput = np.maximum.accumulate(np.maximum.accumulate(np.array(throughputs), axis=0), axis=1)
    cpus, memory = np.array([1.0, 2.0, 4.0]), np.array([8.0, 16.0, 32.0])
    sensitivity = JobSensitivity(cpus, memory, throughput, Amount(cpus[row], memory[column]))
    found = sensitivity.worthwhile
    assert found
    for amount, reached in found:
        assert reached >= sensitivity.fair_throughput * (1 - 1e-9)
        less = throughput[np.ix_(cpus <= amount.cpus, memory <= amount.memory)].ravel()
        assert (less <= reached).all()
        assert (less >= reached * (1 - 1e-9)).sum() == 1
    assert max(reached for _, reached in found) == pytest.approx(throughput.max())
    assert sensitivity.demand in [amount for amount, _ in found]


def test_the_grid_contains_the_share_and_the_maximum():
    assert grid((1.0, 2.0, 3.0), 2.5, 2.9).tolist() == [1.0, 2.0, 2.5, 2.9]
    assert grid((1.0, 2.0), 9.0, 1.5).tolist() == [1.0, 1.5]


def test_held_and_free_amounts_by_hand():
    """12 cores, 4 GPUs: each keeps a 64th, a job of 2 GPUs takes 2 x 5 cores."""
    resources = NodeResources(ClusterSpec((NODE,)))
    assert resources.share({0: 2}) == Amount(3.0, 62.5)
    resources.take(0, {0: 2}, Amount(5.0, 60.0))
    assert resources.free_cpus[0] == pytest.approx(12 - 10 - 2 * PART)
    assert resources.lacking({0: 1}, Amount(2.0, 1.0)) == []
    assert resources.lacking({0: 1}, Amount(2.5, 1.0)) == [0]
    assert resources.lacking({0: 1}, Amount(1.0, 200.0)) == [0]
    assert resources.above_share(0) == [0]
    resources.cut(0)
    assert resources.held(0) == Amount(3.0, 60.0)
    assert resources.above_share(0) == []
    resources.release(0)
    assert resources.free_cpus[0] == pytest.approx(12 - 4 * PART)
    assert resources.held(0) is None


def test_amounts_are_clipped_to_what_is_free():
    resources = NodeResources(ClusterSpec((NODE,)))
    resources.take(0, {0: 1}, Amount(6.0, 10.0))
    resources.take(1, {0: 1}, Amount(6.0, 10.0))
    second = resources.held(1)
    assert second is not None
    assert second.cpus == 6 - 2 * PART


def test_jobs_on_the_fewest_nodes_with_most_cores_are_cut_first():
    resources = NodeResources(ClusterSpec((NODE, NODE)))
    resources.take(0, {0: 1, 1: 1}, Amount(4.0, 10.0))
    resources.take(1, {0: 1}, Amount(3.5, 10.0))
    resources.take(2, {0: 1}, Amount(4.0, 10.0))
    assert resources.above_share(0) == [2, 1, 0]
    assert resources.above_share(1) == [0]


def test_a_job_over_several_nodes_has_their_smallest_share():
    resources = NodeResources(ClusterSpec((NODE, SMALL)))
    assert resources.share({0: 4, 1: 2}) == Amount(2.0, 50.0)


def test_sensitivities_are_looked_up_once(monkeypatch):
    """Two jobs of one model on equal nodes: the performance model is called for the first job only."""
    workload = Workload.of([JobSpec(i, 0.0, 1, 10.0, "hungry") for i in range(2)])
    view = round_at(0, workload, ClusterSpec((NODE, NODE)), performance=Hungry())
    asked = []
    throughput = view.throughput

    def counted(*arguments, **amounts):
        asked.append(arguments)
        return throughput(*arguments, **amounts)

    monkeypatch.setattr(view, "throughput", counted)
    known, resources = JobSensitivities(), NodeResources(view.cluster)
    first = known.of(view, resources, 0, {0: 1})
    count = len(asked)
    assert known.of(view, resources, 1, {1: 1}) is first
    assert len(asked) == count
    assert first.demand == Amount(6.0, 20.83)


def test_selection_keeps_running_jobs_and_whole_gangs():
    """Two nodes of 4; job 1 (2 GPUs) runs on the first, 3 (2) on the second. By priority 0 (4 GPUs), 1, 2 (2), 3: job
    0 needs a whole node, so job 3, the last, is stopped and then does not fit; between rounds 1 and 3 continue, and 2
    starts.
    """
    rows = jobs((0, 4, 50), (0, 2, 50), (0, 2, 50), (0, 2, 50))
    view = round_at(1, rows, two_nodes(), place=[(0, {1: {0: 2}, 3: {1: 2}})])
    assert select(view, [0, 1, 2, 3], keep=False) == {0: {1: 4}, 1: {0: 2}, 2: {0: 2}}
    assert select(view, [0, 1, 2, 3], keep=True) == {1: {0: 2}, 2: {0: 2}, 3: {1: 2}}


def amounts_of(place: Placement) -> dict[int, tuple[float, float]]:
    """Cores and memory by node."""
    assert place.cpus is not None
    assert place.memory is not None
    return {node: (place.cpus[node], place.memory[node]) for node in place.gpus}


def shared_round(mechanism, seed) -> RunResult:
    """Run up to 14 jobs on nodes of two shapes with shared cores and memory; restarts cost at most 1 s."""
    rng = np.random.default_rng(seed)
    rows = [
        JobSpec(
            i,
            float(rng.choice([0.0, 0.0, 7.0, 20.0])),
            int(rng.choice([1, 1, 2, 3, 4, 6])),
            float(rng.integers(5, 200)),
            str(rng.choice(["hungry", "frugal"])),
        )
        for i in range(int(rng.integers(1, 15)))
    ]
    cluster = ClusterSpec((NODE, SMALL, NODE))
    interval = None if seed % 3 == 0 else 5.0
    scenario = Scenario(restart_delay=float(seed % 2), rounds=Rounds(interval=interval), cpu_memory="shared")
    scheduler = Synergy(mechanism, ("fifo", "srtf", "las", "srsf")[seed % 4], round_length=5.0)
    return run_episode(scheduler, Simulator(Workload.of(rows), Setup(cluster, Hungry(), scenario), seed))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_node_resources_are_never_exceeded_and_all_jobs_finish(mechanism, seed):
    """Recomputed from the log: cores and memory held on each node at every instant."""
    result = shared_round(mechanism, seed)
    assert result.finished.all()
    held: dict[int, dict[int, tuple[float, float]]] = {}
    log = result.log
    for row in range(len(log.events)):
        event = log.events[row]
        place = log.placement(row) if event["num_shares"] else None
        held[int(event["job"])] = amounts_of(place) if place else {}
        if row + 1 < len(log.events) and log.events[row + 1]["time"] == event["time"]:
            continue
        for index, node in enumerate(result.cluster.nodes):
            amounts = [shares[index] for shares in held.values() if index in shares]
            assert sum(cpus for cpus, _ in amounts) <= node.cpu_cores + 1e-9
            assert sum(memory for _, memory in amounts) <= node.memory + 1e-9


@pytest.mark.parametrize("mechanism", ["proportional", "tune", "opt"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=10)
def test_no_job_falls_below_the_proportional_share(mechanism, seed):
    """Every placement is as fast as on its proportional share, up to 64ths."""
    result = shared_round(mechanism, seed)
    log, model = result.log, Hungry()
    for row in range(len(log.events)):
        event = log.events[row]
        if not event["num_shares"]:
            continue
        place = log.placement(row)
        nodes = [result.cluster.nodes[node] for node in place.gpus]
        have = min(amounts_of(place)[node][0] / count for node, count in place.gpus.items())
        share = min(node.cpu_cores / node.num_gpus for node in nodes)
        name = result.workload.spec(int(event["job"])).model
        fair = model.throughput(name, Configuration("plain", place.num_gpus, cpus_per_gpu=share))
        assert model.throughput(name, Configuration("plain", place.num_gpus, cpus_per_gpu=have + 4 * PART)) >= fair * (
            1 - 1e-9
        )


@pytest.fixture
def open_round():
    """Three jobs on one node: hungry on 2 GPUs and on 1, frugal on 1, all of them placed."""
    rows = [("hungry", 2), ("hungry", 1), ("frugal", 1)]
    workload = Workload.of([JobSpec(i, 0.0, gpus, 10.0, model) for i, (model, gpus) in enumerate(rows)])
    view = round_at(0, workload, ClusterSpec((NODE,)), performance=Hungry())
    return OpenRound(view, view.allocation(), NodeResources(view.cluster), JobSensitivities())


@pytest.fixture
def _without_shortcut(monkeypatch):
    """Leave all programs to the solver, also those with a single best choice."""
    monkeypatch.setattr(synergy_mechanisms, "unique_amounts", lambda first, *_: (False, first[:-1]))


@pytest.mark.usefixtures("_without_shortcut")
def test_opt_without_a_solution_in_time_gives_proportional_shares(open_round, monkeypatch):
    stopped = type("Stopped", (), {"status": 1, "x": None, "mip_gap": None})
    monkeypatch.setattr(synergy_mechanisms, "milp", lambda *args, **kwargs: stopped)
    opt = Opt(50)
    for job, size in ((0, 2), (1, 1), (2, 1)):
        opt.start(open_round, job, {0: size})
    opt.finish(open_round, [0, 1, 2])
    assert [open_round.resources.held(job).cpus for job in range(3)] == pytest.approx([3.0] * 3)
    assert opt.counters == {
        "programs": 1,
        "stopped_programs": 1,
        "proportional_groups": 1,
        "worst_gap_ppm": 0,
    }


@pytest.mark.usefixtures("_without_shortcut")
def test_opt_reports_its_gap_when_stopped(open_round, monkeypatch):
    limits = []

    def solver(cost, *, integrality, bounds, constraints, options):
        limits.append(options["node_limit"])
        return type("Stopped", (), {"status": 1, "x": np.zeros(len(cost)), "mip_gap": 0.125})

    monkeypatch.setattr(synergy_mechanisms, "milp", solver)
    opt = Opt(50)
    for job, size in ((0, 2), (1, 1), (2, 1)):
        opt.start(open_round, job, {0: size})
    opt.finish(open_round, [0, 1, 2])
    assert (limits, opt.counters["worst_gap_ppm"]) == ([50], 125_000)


def test_opt_needs_a_program_only_for_groups_that_compete_and_have_changed(open_round):
    """All three jobs want more cores than there are; the frugal one alone can have all that it can use."""
    opt = Opt(1000)
    opt.start(open_round, 2, {0: 1})
    opt.finish(open_round, [2])
    assert opt.counters["programs"] == 0
    for job, size in ((0, 2), (1, 1)):
        opt.start(open_round, job, {0: size})
    opt.finish(open_round, [0, 1, 2])
    divided = [open_round.resources.held(job) for job in range(3)]
    assert opt.counters["programs"] == 1
    opt.finish(open_round, [0, 1, 2])
    assert opt.counters["programs"] == 1
    assert [open_round.resources.held(job) for job in range(3)] == divided


def test_jobs_form_groups_by_the_nodes_that_they_share():
    places = {0: {0: 1}, 1: {1: 2}, 2: {2: 1, 3: 1}, 3: {0: 1, 4: 4}, 4: {3: 1}, 5: {4: 1}}
    groups = [list(group) for group in groups_by_nodes(places)]
    assert sorted(groups) == [[0, 3, 5], [1], [2, 4]]


def test_opt_is_worth_at_least_as_much_as_tune(open_round):
    """In the sum of throughputs relative to the share."""

    def worth(mechanism):
        for job, size in ((0, 2), (1, 1), (2, 1)):
            mechanism.start(open_round, job, {0: size})
        mechanism.finish(open_round, [0, 1, 2])
        total = 0.0
        for job in range(3):
            gpus = open_round.allocation.placement(job).gpus
            share = open_round.sensitivities.of(open_round.view, open_round.resources, job, gpus).fair_throughput
            total += (
                Hungry().throughput(
                    open_round.view.job(job).model,
                    Configuration("plain", sum(gpus.values()), cpus_per_gpu=open_round.resources.held(job).cpus),
                )
                / share
            )
            open_round.resources.release(job)
            open_round.allocation.stop(job)
        return total

    assert worth(Opt(1000)) >= worth(Tune()) - 1e-2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mechanism": "tuned"}, ("mechanism", "'tuned'", "proportional, greedy, tune, opt")),
        ({"policy": "sjf"}, ("policy", "'sjf'", "fifo, srtf, srsf, las")),
        ({"node_limit": 0}, ("node_limit", "0", "positive")),
        ({"round_length": -1.0}, ("round_length", "-1.0")),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(MurmurationError) as error:
        Synergy(**options)
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in ("Synergy", *words))


def test_information_depends_on_the_policy():
    assert Synergy(policy="fifo").information == Synergy(policy="las").information == "none"
    assert Synergy(policy="srtf").information == Synergy(policy="srsf").information == "estimate"


class Large(Hungry):
    """No progress with less than 80 GB of memory for each GPU, more than the proportional 62.5 GB."""

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        memory = configuration.memory_per_gpu
        return 0.0 if memory is not None and memory < 80.0 else super().throughput(model, configuration)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_job_that_does_not_run_on_its_share_is_left_to_the_world(mechanism):
    """Two such jobs on a node of 250 GB, which has enough for both though not for four."""
    workload = Workload.of([JobSpec(i, 0.0, 1, 40.0, "frugal") for i in range(2)])
    scenario = Scenario(restart_delay=0.0, rounds=Rounds(on_events=False, interval=10.0), cpu_memory="shared")
    setup = Setup(ClusterSpec((NODE,)), Large(), scenario)
    result = run_episode(Synergy(mechanism, "fifo", round_length=10.0), Simulator(workload, setup))
    assert result.finished.all()
