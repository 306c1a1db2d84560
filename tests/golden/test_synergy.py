"""Synergy on schedules worked by hand: nodes of 4 GPUs, 12 cores and 250 GB, so 3 cores and 62.5 GB for each GPU."""

import pytest

from baselines import Synergy
from envs.simulation import Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload
from tests.golden.playground import times

EVERY_TEN = Rounds(on_events=False, interval=10.0)
NODE = NodeSpec("plain", 4, cpu_cores=12.0, memory=250.0)
MECHANISMS = ["proportional", "greedy", "tune", "opt"]


class Hungry:
    """On a GPU "hungry" does one sample per second for every 3 cores, up to 2; "frugal" one with 1 core or more."""

    models = ("hungry", "frugal")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        cores = 24.0 if configuration.cpus_per_gpu is None else configuration.cpus_per_gpu
        return configuration.num_gpus * (min(cores / 3, 2.0) if model == "hungry" else min(cores, 1.0))


def play(mechanism, *rows, nodes=1, policy="fifo", rounds=EVERY_TEN) -> RunResult:
    """Jobs (submit, GPUs, samples, model) under shared cores and memory, without restart costs."""
    workload = Workload.of([JobSpec(i, row[0], row[1], row[2], row[3]) for i, row in enumerate(rows)])
    scenario = Scenario(restart_delay=0.0, rounds=rounds, cpu_memory="shared")
    scheduler = Synergy(mechanism, policy, round_length=10.0)
    return run_episode(scheduler, Simulator(workload, Setup(ClusterSpec((NODE,) * nodes), Hungry(), scenario)))


def cores(result, job, time):
    """Whole cores of a job after an instant; each idle GPU keeps 1/64 of its cores."""
    log, found = result.log, None
    for row in range(len(log.events)):
        event = log.events[row]
        if event["job"] == job and event["num_shares"] and event["time"] <= time:
            found = sum(log.placement(row).cpus.values())
    return None if found is None else round(found)


@pytest.mark.parametrize(("mechanism", "hungry"), [("proportional", 6), ("tune", 10), ("opt", 10)])
def test_a_job_that_needs_few_cores_gives_the_rest_away(mechanism, hungry):
    """Two jobs of 2 GPUs on one node of 12 cores: 6 each in proportion. Frugal needs 2, so hungry can have 10 of the
    12 that would saturate it.
    """
    result = play(mechanism, (0, 2, 400, "frugal"), (0, 2, 400, "hungry"))
    assert cores(result, 0, 10) == (6 if mechanism == "proportional" else 2)
    assert cores(result, 1, 10) == hungry


def test_greedy_starts_no_job_below_its_demand():
    """The same under Greedy: hungry needs nearly 12 cores, which are not free beside the 2 of frugal. It waits beside
    two idle GPUs until frugal, at 1 sample/s and GPU, ends at 200. Then it has all cores but a 64th for each idle GPU:
    400 samples at nearly 4 samples/s.
    """
    result = play("greedy", (0, 2, 400, "frugal"), (0, 2, 400, "hungry"))
    assert times(result)[0] == (0, 200)
    assert times(result)[1][0] == 200
    assert times(result)[1][1] == pytest.approx(200 + 400 / (2 * (6 - 1 / 64) / 3))
    assert [record.num_preemptions for record in result] == [0, 0]


def test_tune_gives_the_demand_where_it_fits():
    """Hungry on 1 GPU wants 6 cores, frugal on 3 wants 3: 9 of 12. Hungry does 2 samples/s from 10 on."""
    result = play("tune", (0, 1, 100, "hungry"), (0, 3, 300, "frugal"))
    assert (cores(result, 0, 10), cores(result, 1, 10)) == (6, 3)


def test_tune_leaves_no_gpu_idle_for_lack_of_cores():
    """Three hungry jobs of 1 GPU. The first two have nearly 6 cores each; the first is cut to 3 for the third job's
    share of 3. The cores of the idle GPU, 3 of 12 minus 1/64, go to no job: the next useful amount is 6, which is not
    available.
    """
    result = play("tune", *[(0, 1, 1000, "hungry")] * 3)
    assert sorted(cores(result, job, 10) for job in range(3)) == [3, 3, 6]


def test_greedy_leaves_gpus_idle():
    """Three hungry jobs of 1 GPU want 6 cores each of 12: two run, the third waits beside two idle GPUs.

    At 2 samples/s the first ends at 50, and the third starts; the second has some 64ths less and ends just after it.
    """
    result = play("greedy", *[(0, 1, 100, "hungry")] * 3)
    assert [cores(result, job, 10) for job in (0, 1, 2)] == [6, 6, None]
    assert [record.num_preemptions for record in result] == [0, 0, 0]
    assert [start for start, _ in times(result)] == [0, 0, 50]
    assert [end for _, end in times(result)] == pytest.approx([50, 50, 100], abs=1)


def test_opt_finds_the_best_division():
    """One node: hungry on 2 GPUs and hungry on 1, frugal on 1. Saturated they would need 12 + 6 + 1 = 19 of 12 cores.
    No job falls below the throughput of its share (6, 3, 1): 2 cores remain. Per job, one more core per GPU adds 1 / 3,
    so they go to the job of one GPU. Its grid has 5: so 6, 5, 1.
    """
    result = play("opt", (0, 2, 1000, "hungry"), (0, 1, 1000, "hungry"), (0, 1, 1000, "frugal"))
    assert [cores(result, job, 10) for job in range(3)] == [6, 5, 1]
    assert result.counters["programs"] > 0
    assert result.counters["stopped_programs"] == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_policy_chooses_the_running_jobs(mechanism):
    """4 GPUs; A (4 GPUs, 400 samples at 1/s and GPU) at 0, B (4 GPUs, 40) at 5. Shortest first: B has them at 10."""
    result = play(mechanism, (0, 4, 400, "frugal"), (5, 4, 40, "frugal"), policy="srtf")
    assert times(result)[1] == (10, 20)
    assert [record.num_preemptions for record in result] == [1, 0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_job_that_continues_stays_where_it_is(mechanism):
    """Amounts change, GPUs do not: no restart in the whole run under any mechanism (frugal jobs need few cores)."""
    result = play(mechanism, *[(0, 1, 100, "frugal")] * 8, nodes=2)
    assert all(record.num_restarts == 0 for record in result)
    assert result.finished.all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_with_unlimited_cores_only_the_policy_matters(mechanism):
    """Unlimited cores: hungry does 2 samples/s per GPU under every mechanism."""
    workload = Workload.of([JobSpec(i, 0.0, 2, 80.0, "hungry") for i in range(4)])
    scenario = Scenario(restart_delay=0.0, rounds=EVERY_TEN)
    scheduler = Synergy(mechanism, "fifo", round_length=10.0)
    result = run_episode(scheduler, Simulator(workload, Setup(ClusterSpec((NODE, NODE)), Hungry(), scenario)))
    assert times(result) == [(0, 20)] * 4


class OnTwoTypes:
    """One sample per second on a slow GPU, two on a fast one, whatever the cores and memory."""

    models = ("any",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return configuration.num_gpus * (2.0 if configuration.gpu_type == "fast" else 1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("literal", "restart", "end"),
    [(False, 2.0, 24.5), (False, 20.0, 40), (True, 2.0, 40)],
    ids=["the move pays", "the move does not pay", "literal"],
)
def test_a_long_job_leaves_the_slow_type_when_that_pays(mechanism, literal, restart, end):
    """40 and 160 samples. t=0: A on the fast node until 5, B on the slow one. The round at 5 finds B with 140 samples
    left: 35 s where it is, 17.5 s on the fast node plus the restart.
    """
    workload = Workload.of([JobSpec(0, 0.0, 4, 40.0, "any"), JobSpec(1, 0.0, 4, 160.0, "any")])
    cluster = ClusterSpec(tuple(NodeSpec(name, 4, cpu_cores=12.0, memory=250.0) for name in ("slow", "fast")))
    scenario = Scenario(restart_delay=restart, rounds=Rounds(on_events=False, interval=5.0), cpu_memory="shared")
    scheduler = Synergy(mechanism, "srtf", round_length=5.0, literal=literal)
    result = run_episode(scheduler, Simulator(workload, Setup(cluster, OnTwoTypes(), scenario)))
    assert times(result) == [(0, 5), (0, end)]
