"""An episode that is played through the protocol leaves the log of the direct call, to the bit."""

import itertools
import socket
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from baselines import Fifo, Packing, Srtf, Starling, Tiresias
from deployment.mirror import Mirror, Watched
from deployment.remote import RemoteScheduler
from deployment.service import Session, serve_one
from deployment.sockets import Connection, listen
from envs.scheduling import Scheduler
from envs.simulation import Failures, Information, Scenario, Setup, SimulationView, Simulator, run_episode
from envs.types import JobSpec, MurmurationError
from envs.workloads import Workload
from tests.conformance.random_worlds import random_world
from tests.conformance.worlds import HETEROGENEOUS, HOMOGENEOUS, SCENARIOS, Curved


def busy_workload(seed: int, num_jobs: int = 25, most: int = 12) -> Workload:
    """Elastic and rigid jobs that overload a cluster of twelve GPUs."""
    rng = np.random.default_rng(seed)
    jobs = []
    for i, submit in enumerate(np.cumsum(rng.exponential(4.0, num_jobs))):
        gpus = int(rng.integers(1, 6))
        least, largest = (1, most) if i % 3 else (0, 0)
        jobs.append(JobSpec(i, float(submit), gpus, float(rng.uniform(5, 120)), "any", least, largest))
    return Workload.of(jobs)


class Listening:
    """A scheduler that listens in a thread."""

    def __init__(self, scheduler: Scheduler, setup: Setup, address: str) -> None:
        self.listener, self.said = listen(address), ""
        self.session = Session(scheduler, setup)
        self.thread = threading.Thread(target=self._answer)
        self.thread.start()

    def _answer(self) -> None:
        try:
            connected, _ = self.listener.accept()
        except OSError:
            return
        self.said = serve_one(self.session, Connection(connected))

    def close(self) -> str:
        self.thread.join()
        self.listener.close()
        return self.said


@pytest.fixture
def address(tmp_path) -> str:
    return f"unix:{tmp_path / 's'}"


def same_log(scheduler: Callable[[], Scheduler], setup: Setup, workload: Workload, address: str, seed: int = 0) -> int:
    """Play both ways and compare; return the number of events."""
    direct = run_episode(scheduler(), Simulator(workload, setup, seed))
    listening = Listening(scheduler(), setup, address)
    remote = RemoteScheduler(address)
    try:
        through = run_episode(remote, Simulator(workload, setup, seed), compiled=False)
    finally:
        remote.close()
        listening.listener.shutdown(socket.SHUT_RDWR)  # ends a wait for a cluster that never came
        said = listening.close()
    assert direct.log == through.log
    for name in direct.records.dtype.names or ():
        np.testing.assert_array_equal(direct.records[name], through.records[name], name)
    assert said.startswith("a cluster left after"), said
    return len(direct.log)


@pytest.mark.parametrize(
    ("scheduler", "scenario"),
    [
        *itertools.product((Fifo, Srtf, Tiresias, Starling), ("plain", "both")),
        *itertools.product((Fifo, Tiresias, Starling), ("hidden",)),  # SRTF refuses hidden work
    ],
)
def test_an_episode_through_the_protocol_leaves_the_log_of_the_direct_call(scheduler, scenario, address):
    cluster = HOMOGENEOUS if scenario == "hidden" else HETEROGENEOUS
    assert same_log(scheduler, Setup(cluster, Curved(), SCENARIOS[scenario]), busy_workload(1), address) >= 75


def test_estimates_and_failing_nodes_are_seen_alike(address):
    scenario = Scenario(
        restart_delay=2.0, horizon=1e5, information=Information("estimate"), failures=Failures(300.0, 20.0, 10.0)
    )
    assert same_log(Starling, Setup(HOMOGENEOUS, Curved(), scenario), busy_workload(2), address, seed=3) >= 75


@pytest.mark.parametrize("pairs", [False, True])
def test_random_worlds_with_cores_memory_contention_and_plans_are_seen_alike(tmp_path, pairs):
    compared = 0
    for seed in range(16):
        world = random_world(seed, pairs=pairs)
        information = world.setup.scenario.information
        if information.hides_throughput or information.work == "predicted":
            continue
        try:
            run_episode(world.scheduler(), Simulator(world.workload, world.setup, world.seed))
        except MurmurationError:  # some of these schedulers ask for what does not fit
            continue
        played = same_log(world.scheduler, world.setup, world.workload, f"unix:{tmp_path / str(seed)}", world.seed)
        compared += played
    assert compared > 200


@pytest.mark.parametrize("inner", [Tiresias, Starling])
def test_schedulers_with_pairs_decide_alike_through_the_protocol(inner, tmp_path):
    world = random_world(6, plain=True, pairs=True)
    logs = [run_episode(Packing(inner()), Simulator(world.workload, world.setup, 6)).log]
    assert (logs[0].events["beside"] >= 0).any()
    assert same_log(lambda: Packing(inner()), world.setup, world.workload, f"unix:{tmp_path / 's'}", 6) > 20


def test_predicted_work_is_seen_alike():
    """The mirror's view shows the likely work that the engine's view shows."""
    setup = Setup(HOMOGENEOUS, Curved(), replace(SCENARIOS["plain"], information=Information("predicted")))
    setup.predictor.train([])
    simulator, watched, mirror = Simulator(busy_workload(3), setup), Watched(), None
    scheduler, rounds = Fifo(), 0
    scheduler.reset(setup.cluster, simulator.rng)
    for view in simulator.rounds():
        assert isinstance(view, SimulationView)
        state, copy = watched.read(view)
        mirror = mirror or Mirror(setup, copy.workload.models, copy.workload.tenants, 12)
        seen, jobs = mirror.observe(state), view.queued
        np.testing.assert_array_equal(seen.likely_work(jobs), _packed(view.likely_work(jobs)))
        np.testing.assert_array_equal(seen.remaining_work(jobs), view.remaining_work(jobs))
        simulator.apply(scheduler.schedule(view))
        rounds += 1
    assert rounds > 25


def _packed(rows):
    """Rows without the NaN between their values, as wide as the longest."""
    kept = [row[~np.isnan(row)] for row in rows]
    found = np.full((len(rows), max(map(len, kept), default=1)), np.nan)
    for row, values in zip(found, kept, strict=True):
        row[: len(values)] = values
    return found


def test_profiles_are_refused_and_what_a_simulated_view_believes_is_not_sent(address):
    def hiding(throughput):
        information = Information("none", throughput=throughput)
        return Setup(HOMOGENEOUS, Curved(), Scenario(information=information, batch_sizes="usual"))

    with pytest.raises(MurmurationError, match=r"no profiles were taken .*set information.throughput=observed"):
        Mirror(hiding("profiled"))
    with pytest.raises(MurmurationError, match=r"throughputs are known; set information.throughput=exact"):
        run_episode(RemoteScheduler(address), Simulator(busy_workload(1), hiding("observed")), compiled=False)


def test_pairs_are_refused_for_clusters_that_cannot_make_them():
    with pytest.raises(MurmurationError, match="on a real cluster jobs get GPUs of their own so far"):
        Mirror(random_world(0, pairs=True).setup)


def test_a_socket_file_is_private_and_is_not_taken_from_somebody_who_listens(tmp_path):
    path = tmp_path / "s"
    first = listen(f"unix:{path}")
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(MurmurationError, match="somebody listens there already"):
        listen(f"unix:{path}")
    first.close()
    listen(f"unix:{path}").close()  # a file that a killed process has left
    with pytest.raises(MurmurationError, match="on this machine only"):
        listen("0.0.0.0:7000")
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        with pytest.raises(MurmurationError, match="cannot listen there"):
            listen(f"127.0.0.1:{used.getsockname()[1]}")
