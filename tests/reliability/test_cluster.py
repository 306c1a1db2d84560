"""Two machines, as far as Ray can tell: a cluster of two nodes, of which workers and one node are killed on the way."""

import json
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import ray
from omegaconf import OmegaConf
from ray.cluster_utils import Cluster

from agents.networks import Blueprint
from agents.rllib.algorithm import PPOAlgorithm
from baselines import Fifo, Las, Srtf
from envs.evaluation import compare_schedulers
from envs.performance import IdealModel
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import Scenario, Setup
from envs.types import Allocation, ClusterSpec
from launch.errors import ChoiceError
from launch.spreading import find_spread, join, joined_cluster, spread_over_ray
from tests.golden.playground import jobs, two_nodes
from tests.unit.agents.worlds import PPO, network, small_world

pytestmark = pytest.mark.slow
DRIVER = os.getpid()
STORE = 80_000_000  # bytes of each node's object store
ROWS = [(3.0 * i, 1 + i % 4, 20.0 + 7 * (i % 5)) for i in range(12)]
WORKLOADS = [jobs(*ROWS), jobs(*ROWS[:7]), jobs(*ROWS[2:])]


@pytest.fixture(scope="module")
def cluster():
    """A head of one CPU and a second node of one; the tests run in this order, and the last ones lose the node."""
    head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    found = Cluster(initialize_head=True, head_node_args=head)
    found.second = found.add_node(num_cpus=1, object_store_memory=STORE)
    found.wait_for_nodes()
    with joined_cluster(OmegaConf.create({"ray": {"address": found.address}})):
        yield found
    assert not ray.is_initialized()
    found.shutdown()


class Fragile:
    """FIFO whose first process that is not the test's own kills itself, in the middle of an episode."""

    def __init__(self, mark: str) -> None:
        self.mark, self.fifo = mark, Fifo()

    def reset(self, cluster: ClusterSpec, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self.rounds = 0
        self.fifo.reset(cluster, rng)

    def schedule(self, view: ClusterView) -> Allocation:
        """Decide as FIFO."""
        self.rounds += 1
        if self.rounds == 3 and os.getpid() != self.driver and not os.path.exists(self.mark):
            open(self.mark, "x").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.fifo.schedule(view)

    driver = DRIVER


class Failing(Fifo):
    """FIFO that fails when the seventh job has arrived."""

    def __init__(self) -> None:
        super().__init__("skip")

    def play(self, simulator: object) -> bool:
        """Refuse."""
        return False

    def schedule(self, view: ClusterView) -> Allocation:
        """Fail, or decide as FIFO."""
        if len(view.num_gpus) == 7:
            raise RuntimeError("not this one")
        return super().schedule(view)


def compare(spread, mark):
    fragile = Fragile(str(mark))
    fragile.driver = DRIVER
    schedulers: dict[str, Scheduler] = {"fragile": fragile, "srtf": Srtf(), "las": Las(), "failing": Failing()}
    setup = Setup(two_nodes(), IdealModel(), Scenario(restart_delay=2.0))
    calls = []
    found = compare_schedulers(
        schedulers, WORKLOADS, setup, 5, spread=spread, resamples=20, progress=lambda *call: calls.append(call)
    )
    content = json.loads(found.to_json())
    del content["cpu_time"]
    return content, found.failures, calls


def test_a_comparison_over_two_nodes_is_the_same_to_the_bit_though_a_worker_is_killed(cluster, tmp_path):
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    there, failures, calls = compare(find_spread(), tmp_path / "killed")
    assert (tmp_path / "killed").exists()
    here, *_ = compare(None, tmp_path / "killed")
    assert there == here
    assert "RuntimeError: not this one" in failures["failing"].message
    assert failures["failing"].episode == 0
    assert len(calls) == 12


def nap(seconds, number):
    time.sleep(seconds)
    return number, ray.get_runtime_context().get_node_id()


def test_training_goes_on_when_a_runner_is_killed(cluster, tmp_path):
    world, blueprint = small_world(num_jobs=6), Blueprint(options={"width": 16, "layers": 1, "heads": 2})
    algorithm = PPOAlgorithm(world, blueprint, replace(PPO, num_env_runners=2), seed=0)
    algorithm.set_network(network(world.spec, seed=9))
    group = algorithm._algorithm.env_runner_group
    first = algorithm.train()
    processes = group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)
    os.kill(processes[0], signal.SIGKILL)
    until = time.monotonic() + 90
    figures = [first]
    again: list[int] = []
    while len(again) < 2 and time.monotonic() < until:  # Ray starts the runner again while training goes on
        figures.append(algorithm.train())
        again = group.foreach_env_runner(lambda runner: os.getpid(), local_env_runner=False)
    assert len(again) == 2
    assert processes[0] not in again
    figures.append(algorithm.train())
    for each in figures:
        assert np.isfinite(each["learner/policy_loss"])
        assert each["train/env_steps"] >= PPO.train_batch_size
    algorithm.save(tmp_path)
    algorithm.restore(tmp_path)
    algorithm.stop()
    assert ray.is_initialized()


def test_calls_are_made_again_when_a_node_is_lost(cluster):
    calls = [(number,) for number in range(8)]
    found = spread_over_ray(nap, (0.5,), calls)
    results = [next(found)]
    cluster.remove_node(cluster.second, allow_graceful=False)
    results += list(found)
    assert [number for number, _ in results] == list(range(8))
    assert len({node for _, node in results[-2:]}) == 1


def test_an_error_of_a_call_is_raised_here(cluster):
    with pytest.raises(ZeroDivisionError):
        list(spread_over_ray(divmod, (1,), [(1,), (0,)]))
    assert list(spread_over_ray(divmod, (1,), [])) == []


def test_without_a_cluster_one_line_says_so(monkeypatch):
    """Runs when the cluster of the other tests may be there or not; a port where nothing listens is none."""

    def refuse(**options):
        raise ConnectionError("Could not find any running Ray instance.\nPlease specify the one to connect to")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ChoiceError, match="ray.address=auto: no Ray cluster answers there") as error:
        join("auto")
    assert "\n" not in str(error.value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with joined_cluster(OmegaConf.create({"seed": 0})), joined_cluster(OmegaConf.create({"ray": {"address": None}})):
        pass
