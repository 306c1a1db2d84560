"""Clusters that do not answer or are too small: one line at once, without Ray's own retries and waits."""

import socket
from dataclasses import replace

import pytest
import ray

from agents.methods.evolution import EvolutionSettings
from agents.methods.evolution.learning import EvolutionConfig
from agents.on_ray.pieces import TrainingOnRay
from envs.types import MurmurationError
from launch.errors import ChoiceError
from launch.spreading import join, try_to_connect
from tests.unit.agents.test_evolution_training import setup_of
from tests.unit.agents.worlds import QUICK_PPO, small_world


@pytest.fixture
def port():
    """A port that nothing listens on: it is taken, but accepts no connection."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "localhost:{}"])
def test_a_port_where_nothing_listens_is_one_line_at_once(monkeypatch, port, form):
    """Ray would try to connect for many minutes."""
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked to connect"))
    address = form.format(port)
    with pytest.raises(ChoiceError, match=f"ray.address={address}: no Ray cluster answers there .*refused") as error:
        join(address)
    assert "\n" not in str(error.value)


def test_a_port_that_does_not_exist_is_one_line(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked to connect"))
    with pytest.raises(ChoiceError, match="no Ray cluster answers there"):
        join("127.0.0.1:99999999")


def test_a_port_that_listens_and_addresses_without_one_are_left_to_ray(port):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        try_to_connect(f"127.0.0.1:{listening.getsockname()[1]}")
    for address in ("auto", "local"):
        try_to_connect(address)
    with pytest.raises(OSError, match="refused"):
        try_to_connect(f"[127.0.0.1]:{port}")


@pytest.fixture
def two_cpus(monkeypatch):
    """What Ray says of a cluster of two nodes with a CPU each."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True}, {"Alive": True}, {"Alive": False}])


def start_options(num_env_runners):
    """Start group PPO with this number of runners."""
    problem = small_world(num_jobs=6).problem()
    replace(QUICK_PPO, num_env_runners=num_env_runners).start(problem, problem.build(0, None), 0)


def test_a_cluster_without_room_for_the_runners_is_one_line(two_cpus):
    """RLlib would wait for ever for CPUs that no node has."""
    said = r"trainer.method.num_env_runners=3 needs 3 CPUs, and Ray has 2 on 2 nodes; lower it, or add machines"
    with pytest.raises(MurmurationError, match=said) as error:
        start_options(3)
    assert "\n" not in str(error.value)


def test_evolution_strategies_say_too_that_there_is_no_room(two_cpus):
    settings = EvolutionSettings(num_pairs=4, num_workloads=1, num_envs=2, num_env_runners=5)
    with pytest.raises(MurmurationError, match="trainer.method.num_env_runners=5 needs 5 CPUs, and Ray has 2"):
        TrainingOnRay(setup_of(settings, tasks=1), EvolutionConfig)


def test_ray_that_was_started_for_it_is_stopped(two_cpus, monkeypatch):
    """The next training in this process shall not find a cluster that this one has left behind."""
    stopped = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "shutdown", lambda: stopped.append(True))
    with pytest.raises(MurmurationError, match="needs 3 CPUs, and Ray has 2"):
        start_options(3)
    assert stopped == [True]
