"""A replica continues as the simulator does, with all that is still to come; a snapshot does not."""

from baselines import Fifo
from envs.simulation import Failures, Information, Scenario, Setup, Simulator
from envs.simulation.seen.replica import Replica
from envs.types import JobSpec
from envs.workloads import Workload
from tests.conformance.random_worlds import random_world
from tests.conformance.worlds import HOMOGENEOUS, Curved
from tests.unit.simulation.test_reference_state import play


def test_it_continues_to_the_same_end_and_leaves_the_simulator_alone():
    """With hidden work, failures and arrivals of random worlds; also after it was overwritten."""
    compared, arrived = 0, 0
    for seed in range(30):
        world = random_world(seed)
        simulator, scheduler = Simulator(world.workload, world.setup, world.seed), Fifo("skip")
        scheduler.reset(world.setup.cluster, simulator.rng)
        if not (play(simulator, scheduler, seed % 7) and simulator.advance()):
            continue
        replica, other = Replica(simulator), Replica(simulator)
        submitted, before = len(simulator.view.num_gpus), simulator.state.jobs.tobytes()
        for copy in (replica, other):
            copy.apply(scheduler.schedule(copy.view))
            play(copy, scheduler, 300)
        replica.copy_from(simulator)
        replica.apply(scheduler.schedule(replica.view))
        play(replica, scheduler, 300)
        assert simulator.state.jobs.tobytes() == before, world.name
        simulator.apply(scheduler.schedule(simulator.view))
        play(simulator, scheduler, 300)
        for copy in (replica, other):
            assert copy.result("").records.tobytes() == simulator.result("").records.tobytes(), world.name
        compared += 1
        arrived += len(simulator.view.num_gpus) > submitted
    assert compared > 15
    assert arrived > 5


def test_it_knows_what_a_snapshot_does_not():
    """A second job, a failure of a node and the work of the first job."""
    scenario = Scenario(information=Information("none"), failures=Failures(mtbf=1e4))
    jobs = Workload.of([JobSpec(0, 0.0, 4, 100.0, "any"), JobSpec(1, 9.0, 4, 50.0, "any")])
    simulator = Simulator(jobs, Setup(HOMOGENEOUS, Curved(), scenario))
    assert simulator.advance()
    replica, snapshot = Replica(simulator), simulator.view.snapshot()
    assert replica.state.jobs["submit"][0, 1] == 9.0
    assert replica.state.jobs["work"][0, 0] == 100.0
    assert replica.state.episode["failing"][0, 0] == 1
    assert not (snapshot.state.jobs["submit"] == 9.0).any()
    assert snapshot.state.episode["failing"][0, 0] == 0
