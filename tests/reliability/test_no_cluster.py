"""Clusters that do not answer, are too small or die: one line at once, without Ray's own retries and waits."""

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import ray

from agents.methods.evolution import EvolutionSettings
from agents.methods.evolution.learning import EvolutionConfig
from agents.on_ray.connecting import DIED, try_to_connect
from agents.on_ray.pieces import TrainingOnRay
from agents.on_ray.state import start_ray
from envs.types import MurmurationError
from murmuration.runs.spreading import join
from tests.unit.agents.test_evolution_training import setup_of
from tests.unit.agents.worlds import QUICK_PPO, small_world

REPOSITORY = Path(__file__).resolve().parents[2]
RUN_LOCALLY = """
import os, signal, time
from contextlib import suppress
from pathlib import Path
from murmuration.runs.spreading import join

def below(pid):
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield child
            yield from below(child)

def listening():
    for table in ("tcp", "tcp6"):  # of each socket: number, local address, remote one, state, ..., inode
        rows = [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
        yield from ((row[9], row[1].partition(":")[0]) for row in rows if row[3] == "0A")

join("local")
import ray
print(ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid(), os.environ["RAY_USAGE_STATS_ENABLED"])
files = []
for pid in (os.getpid(), *below(os.getpid())):
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            files.append(os.readlink(file))
print(sorted({place for inode, place in listening() if f"socket:[{inode}]" in files}), flush=True)
(raylet,) = [pid for pid in below(os.getpid()) if Path(f"/proc/{pid}/comm").read_text() == "raylet\\n"]
os.kill(int(raylet), signal.SIGKILL)
time.sleep(600)
"""
LOOPBACK = ["0000000000000000FFFF00000100007F", "0100007F"]  # as the kernel writes ::ffff:127.0.0.1 and 127.0.0.1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_local_ray_is_reached_from_this_machine_only_and_its_death_is_one_line():
    """The raylet is killed while the process waits for something else."""
    words = [sys.executable, "-c", RUN_LOCALLY]
    paths = f"{REPOSITORY / 'scripts'}:{REPOSITORY}"
    ended = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=600)
    assert ended.stderr.splitlines() == [DIED]
    assert ended.returncode == 1
    said = ended.stdout.splitlines()  # Ray may print what its processes logged
    assert any(line.startswith("joined Ray: 1 node") for line in said)
    assert {"True 0", str(LOOPBACK)} <= {*said}


@pytest.mark.parametrize("address", ["local", "auto", "RAY_ADDRESS", None])
def test_a_start_that_takes_too_long_is_one_line(monkeypatch, address):
    """On a busy machine: Ray raises bare exceptions."""

    def time_out(**options):
        raise Exception("The current node timed out during startup.\nThis could happen because ...")

    monkeypatch.setattr(ray, "init", time_out)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address == "RAY_ADDRESS":
        monkeypatch.setenv(address, "auto")
    with pytest.raises(MurmurationError, match="(could not be started|no Ray cluster answers) .*timed out") as error:
        start_ray() if address in (None, "RAY_ADDRESS") else join(address)
    assert "\n" not in str(error.value)


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
    with pytest.raises(
        MurmurationError, match=f"ray.address={address}: no Ray cluster answers there .*refused"
    ) as error:
        join(address)
    assert "\n" not in str(error.value)


def test_a_port_that_does_not_exist_is_one_line(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked to connect"))
    with pytest.raises(MurmurationError, match="no Ray cluster answers there"):
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
