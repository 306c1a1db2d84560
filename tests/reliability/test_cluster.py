"""Two machines, as far as Ray can tell: a cluster of two nodes, of which workers and one node are killed on the way.

In short: a comparison and group PPO lose workers, and calls lose a node. All else that runs on Ray is exhaustive.
"""

import json
import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import ray
import torch
from omegaconf import OmegaConf
from ray._private import services
from ray.cluster_utils import Cluster
from safetensors.torch import load_file

from agents.methods.evolution import EvolutionSettings
from agents.methods.evolution.learning import EvolutionConfig
from agents.on_ray.pieces import LocalTraining, TrainingOnRay
from agents.on_ray.state import explaining_losses
from agents.tags import WORKER_SECONDS
from agents.training import Trainer, TrainingSettings
from baselines import Las, Srtf
from envs.evaluation import compare_schedulers
from envs.evaluation.spread import LostCallError, one_after_another
from envs.evaluation.sweep import sweep
from envs.evaluation.tuning import ProblemSet, RelativeScore
from envs.performance import IdealModel
from envs.scheduling import Scheduler
from envs.simulation import Scenario, Setup
from envs.types import MurmurationError
from murmuration.runs import spreading
from murmuration.runs.commands import find_address, share_modules
from murmuration.runs.spreading import find_spread, join, joined_cluster, spread_over_ray
from tests.conformance.test_training import Told, trainer, weights_of
from tests.golden.playground import jobs, two_nodes
from tests.reliability.faulty import Deadly, Faulty, Fragile, Leaving, Opaque
from tests.reliability.test_crashes import TAUGHT
from tests.unit.agents.curves import scalars
from tests.unit.agents.test_evolution_training import problem_of, setup_of
from tests.unit.agents.worlds import QUICK_PPO, small_world

pytestmark = pytest.mark.slow
STORE = 80_000_000  # bytes of each node's object store
ROWS = [(3.0 * i, 1 + i % 4, 20.0 + 7 * (i % 5)) for i in range(12)]
WORKLOADS = [jobs(*ROWS), jobs(*ROWS[:7]), jobs(*ROWS[2:])]


def waiting(get_node):
    """Wait for a node that has not registered yet, ten minutes at most: Ray itself gives up after 30 seconds."""

    def wait(*arguments):
        for _ in range(6000):
            with suppress(RuntimeError):
                return get_node(*arguments)
            time.sleep(0.1)
        return get_node(*arguments)

    return wait


@pytest.fixture(scope="module")
def cluster():
    """A head of one CPU and a second node of one; the tests run in this order, and the last ones lose the node."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # else workers wait for all other tests
    share_modules()  # as scripts do
    head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(services, "get_node", waiting(services.get_node))
        found = Cluster(initialize_head=True, head_node_args=head)
        found.second = found.add_node(num_cpus=1, object_store_memory=STORE)
    found.wait_for_nodes(timeout=600)
    with joined_cluster(found.address):
        yield found
    assert not ray.is_initialized()
    found.shutdown()


def compare(spread, mark):
    schedulers: dict[str, Scheduler] = {"fragile": Fragile(str(mark)), "las": Las(), "failing": Faulty()}
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
    assert len(calls) == 9


def wait_for(file):
    """Wait until a file exists, ten minutes at most."""
    for _ in range(12_000):
        if file.exists():
            return
        time.sleep(0.05)
    raise TimeoutError(f"{file} is not there")


def wait_unless_first(file, number):
    """Return the number of a call and its node; all calls but the first wait for a file."""
    if number:
        wait_for(file)
    return number, ray.get_runtime_context().get_node_id()


def records_of(comparison, scheduler):
    """The records of a scheduler's first run, to the bit."""
    return comparison.runs[scheduler][0].records.tobytes()


def test_schedulers_that_end_their_workers_cost_only_their_own_rows(cluster, monkeypatch):
    monkeypatch.setattr(spreading, "RETRIES", 1)
    schedulers: dict[str, Scheduler] = {"deadly": Deadly(), "leaving": Leaving(), "opaque": Opaque(), "las": Las()}
    setup = Setup(two_nodes(), IdealModel(), Scenario())
    there = compare_schedulers(schedulers, WORKLOADS[:1], setup, 5, spread=find_spread())
    here = compare_schedulers({"las": Las()}, WORKLOADS[:1], setup, 5)
    assert "no Ray worker could make this call" in there.failures["deadly"].message
    assert there.failures["leaving"].message == "SystemExit: enough"
    assert there.failures["opaque"].message == "OpaqueError: this and that"
    assert 'raise OpaqueError("this", "that")' in there.failures["opaque"].trace()
    assert all("\n" not in str(failure) for failure in there.failures.values())
    assert list(there.runs) == ["las"]
    assert records_of(there, "las") == records_of(here, "las")
    with pytest.raises(LostCallError, match="no Ray worker could make this call"):
        ProblemSet(setup, WORKLOADS[:1], 0, spread_over_ray).outcomes(Deadly())


@pytest.mark.exhaustive
def test_searches_and_sweeps_are_the_same_though_a_worker_is_killed(cluster, tmp_path):
    setup = Setup(two_nodes(), IdealModel(), Scenario(restart_delay=2.0))
    tables, scores = [], []
    for spread in (find_spread(), None):
        swept = {"fragile": Fragile(str(tmp_path / "in a sweep"))}
        tables.append(sweep(swept, WORKLOADS[:1], (0.5, 0.9), setup, spread=spread).table())
        problems = ProblemSet(setup, WORKLOADS, 0, spread or one_after_another)
        scores.append(RelativeScore([problems], Srtf()).score(Fragile(str(tmp_path / "in a search"))))
    assert (tmp_path / "in a sweep").exists()
    assert (tmp_path / "in a search").exists()
    assert tables[0].equals(tables[1])
    assert scores[0] == scores[1]


@pytest.fixture
def stopped():
    """Stops algorithms after a test, whatever becomes of it, so that the next ones find free CPUs."""
    made = []

    def keep(algorithm):
        made.append(algorithm)
        return algorithm

    yield keep
    for algorithm in made:
        algorithm.stop()
    assert ray.is_initialized()


def die_when(name, runner):
    """Let a runner kill its process at the next call of a method."""
    setattr(runner, name, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))


def kill_next(algorithm, name, numbers):
    """Let the runners with these numbers die in the next iteration."""
    group = algorithm._algorithm.env_runner_group
    group.foreach_env_runner(partial(die_when, name), remote_worker_ids=numbers, local_env_runner=False)
    return group


def train(algorithm):
    """Run an iteration; return its figures without the CPU time of workers, which differs from run to run."""
    return {name: value for name, value in algorithm.train().items() if name != WORKER_SECONDS}


def train_with_losses(algorithm, method):
    """Train while one runner dies in its call of a method, then without it, then while the other one dies too."""
    figures = []
    for number in (1, 2):
        group = kill_next(algorithm, method, [number])
        figures += [train(algorithm)]
        assert number not in group.healthy_env_runner_ids()
        figures += [train(algorithm)]
    return figures


def train_until_all_live(algorithm):
    """Train until Ray has started all runners again, and once more; return the figures of all iterations."""
    group, figures = algorithm._algorithm.env_runner_group, []
    while group.num_healthy_remote_workers() < 2:
        figures.append(train(algorithm))
    return [*figures, train(algorithm)]


def equal(one, other):
    here, there = one.state_dict(), other.state_dict()
    return all(torch.equal(here[name], there[name]) for name in there)


def start_options(num_env_runners):
    """Start group PPO with this number of runners, or here with none."""
    problem = small_world(num_jobs=6).problem()
    settings = replace(QUICK_PPO, num_workloads=4, num_env_runners=num_env_runners)
    return settings.start(problem, problem.build(9, None), 0)


def test_group_ppo_is_the_same_to_the_bit_though_runners_are_killed(cluster, stopped, tmp_path):
    """Without any loss, on Ray or here, the same weights follow; runners that are started again go on too."""
    algorithm, local = stopped(start_options(2)), start_options(0)
    algorithm.train()
    algorithm.save(tmp_path)
    with_losses = train_with_losses(algorithm, "play")
    with_losses += train_until_all_live(algorithm)
    trained = algorithm.network()
    algorithm.restore(tmp_path)
    expected = [pytest.approx(each) for each in with_losses]  # means are taken in the order in which runners answer
    assert [train(algorithm) for _ in with_losses] == expected
    assert equal(algorithm.network(), trained)
    local.train()
    assert [local.train() for _ in with_losses] == expected
    assert equal(local.network(), trained)


@pytest.mark.exhaustive
def test_evolution_strategies_are_the_same_to_the_bit_though_runners_are_killed(cluster, stopped):
    settings = EvolutionSettings(num_pairs=4, num_workloads=1, num_envs=2)
    algorithm = stopped(TrainingOnRay(setup_of(replace(settings, num_env_runners=2), tasks=1), EvolutionConfig))
    figures = train_with_losses(algorithm, "play")
    local = LocalTraining(setup_of(settings, tasks=1), EvolutionConfig)
    assert [local.train() for _ in figures] == [pytest.approx(each, nan_ok=True) for each in figures]
    assert equal(algorithm.network(), local.network())


def copy_states(here, there, last):
    """Copy the saved states of a run without the last one, as if it had been interrupted before."""
    shutil.copytree(here / "checkpoints", there / "checkpoints")
    shutil.rmtree(there / "checkpoints" / "states" / f"iteration_{last:07d}")


@pytest.mark.exhaustive
def test_a_resumed_run_of_group_ppo_with_one_runner_equals_the_unbroken_one_to_the_bit(cluster, tmp_path):
    settings = replace(TAUGHT, method=replace(QUICK_PPO, num_env_runners=1))
    unbroken = trainer(tmp_path / "unbroken", settings).run()
    copy_states(tmp_path / "unbroken", tmp_path / "resumed", last=3)
    told = Told()
    assert trainer(tmp_path / "resumed", settings, told).run() == unbroken
    assert told.notes == ["resumed after iteration 2"]
    here, there = (weights_of(tmp_path / name / "checkpoints" / "last") for name in ("unbroken", "resumed"))
    assert all(torch.equal(here[name], there[name]) for name in here)
    curves = [scalars(tmp_path / name / "tensorboard" / "policy") for name in ("unbroken", "resumed")]
    for tag in ("train/mean_jct", "learner/policy_loss", "learner/entropy"):
        assert curves[0][tag][-1] == curves[1][tag][-1]


@pytest.mark.exhaustive
def test_a_resumed_run_of_evolution_strategies_with_one_runner_equals_the_unbroken_one(cluster, tmp_path):
    """The unbroken one plays here, without Ray: where episodes are played makes no difference."""
    settings = EvolutionSettings(num_pairs=2, num_workloads=1, num_envs=2)

    def search(name, **changes):
        changed = replace(settings, **changes)
        length = TrainingSettings(changed, iterations=2, validate_every=1, num_validation=2)
        problem = problem_of(setup_of(changed, tasks=1).tasks)
        return Trainer(problem, length, {}, tmp_path / name, 3, Told()).run()

    search("on Ray", num_env_runners=1)
    copy_states(tmp_path / "on Ray", tmp_path / "resumed", last=2)
    assert search("resumed", num_env_runners=1) == search("here")
    here, there = (load_file(tmp_path / name / "checkpoints/last/weights.safetensors") for name in ("here", "resumed"))
    assert all(torch.equal(here[name], there[name]) for name in here)


def sleep_when(name, runner, node, file):
    """Let a runner on this node make a file at the next call of a method, and sleep until its node is lost."""

    def sleep(*_, **__):
        file.touch()
        time.sleep(600)

    if ray.get_runtime_context().get_node_id() == node:
        setattr(runner, name, sleep)


def lose_node_in_iteration(cluster, algorithm, name, file):
    """Remove the second node while a runner there is in a call of a method, and return the iteration's figures."""
    group = algorithm._algorithm.env_runner_group
    node = cluster.second.node_id
    before = group.healthy_env_runner_ids()
    group.foreach_env_runner(partial(sleep_when, name, node=node, file=file), local_env_runner=False)

    def remove():
        wait_for(file)
        cluster.remove_node(cluster.second, allow_graceful=False)

    thread = threading.Thread(target=remove)
    thread.start()
    figures = train(algorithm)
    thread.join()
    assert len(group.healthy_env_runner_ids()) == len(before) - 1
    return figures


@pytest.fixture
def replaced(cluster):
    """Adds a node after a test that loses one."""
    yield cluster
    cluster.second = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    cluster.wait_for_nodes(timeout=600)


@pytest.mark.exhaustive
def test_group_ppo_is_the_same_to_the_bit_though_a_node_is_lost(replaced, stopped, tmp_path):
    """The runner on the other node plays on."""
    algorithm, local = stopped(start_options(2)), start_options(0)
    figures = [lose_node_in_iteration(replaced, algorithm, "play", tmp_path / "in a call"), train(algorithm)]
    assert [local.train() for _ in figures] == [pytest.approx(each) for each in figures]
    assert equal(algorithm.network(), local.network())


@pytest.mark.exhaustive
def test_evolution_strategies_are_the_same_to_the_bit_though_a_node_is_lost(replaced, stopped, tmp_path):
    settings = EvolutionSettings(num_pairs=4, num_workloads=1, num_envs=2)
    algorithm = stopped(TrainingOnRay(setup_of(replace(settings, num_env_runners=2), tasks=1), EvolutionConfig))
    figures = [lose_node_in_iteration(replaced, algorithm, "play", tmp_path / "in a call"), train(algorithm)]
    local = LocalTraining(setup_of(settings, tasks=1), EvolutionConfig)
    assert [local.train() for _ in figures] == [pytest.approx(each, nan_ok=True) for each in figures]
    assert equal(algorithm.network(), local.network())


def test_a_failure_of_ray_in_training_is_one_line():
    said = "Ray has failed .* go on with  resume="
    with pytest.raises(MurmurationError, match=said) as error, explaining_losses():
        raise ray.exceptions.ActorDiedError
    assert "\n" not in str(error.value)


def test_calls_are_made_again_when_a_node_is_lost(cluster, tmp_path):
    calls = [(number,) for number in range(8)]
    found = spread_over_ray(wait_unless_first, (tmp_path / "lost",), calls)
    results: list[Any] = [next(found)]
    cluster.remove_node(cluster.second, allow_graceful=False)
    (tmp_path / "lost").touch()
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
    with pytest.raises(MurmurationError, match="ray.address=auto: no Ray cluster answers there") as error:
        join("auto")
    assert "\n" not in str(error.value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for content in ({"seed": 0}, {"ray": {"address": None}}):
        assert find_address(OmegaConf.create(content)) is None
    with joined_cluster(None):
        pass
