"""Cores and memory in random worlds: they fit, they are max-min fair, and keeping a job is never refused."""

from envs.simulation import Simulator
from envs.simulation.world.exact import PARTS
from envs.simulation.world.shares import NAMED_CPUS, NAMED_MEMORY
from envs.types import AllocationError
from tests.conformance.random_worlds import RandomWorld, random_world

WORLDS = 60  # about 60 % of the worlds share cores and memory
RESOURCES = (("cpus", NAMED_CPUS, 0), ("memory", NAMED_MEMORY, 1))


def check_amounts(world: RandomWorld, simulator: Simulator) -> tuple[int, int]:
    """Check all nodes; return the numbers of shares that name an amount, and that the world gave less than they use."""
    state, table = simulator.state, simulator.table.cpu_memory
    jobs, shares = state.jobs[0], state.shares[0]
    named, short = 0, 0
    for node in state.nodes[0]:
        rows, at = [], node.first_share
        while at >= 0:
            rows.append(shares[at])
            at = shares[at].next_of_node
        for resource, flag, place in RESOURCES:
            amounts = [row[resource] for row in rows]
            assert sum(amounts) <= node[resource], f"{world.name}: {amounts} of {node[resource]} {resource}"
            assert all(amount >= row.gpus / PARTS for row, amount in zip(rows, amounts, strict=True))
            assert all((amount * PARTS).is_integer() for amount in amounts)
            given = [row for row in rows if not jobs[row.job].named & flag]
            named += len(rows) - len(given)
            saturating = [table.saturating[jobs[row.job].model, node.gpu_type, row.gpus, place] for row in given]
            hungry = [
                row
                for row, enough in zip(given, saturating, strict=True)
                if row[resource] + 1 / PARTS < enough * row.gpus
            ]
            short += len(hungry)
            assert not hungry or sum(amounts) == node[resource], f"{world.name}: {resource} are left over"
            for row in hungry:
                most = max(other[resource] / other.gpus for other in given)
                assert row[resource] / row.gpus >= most - 2 / PARTS, f"{world.name}: {resource} are not divided fairly"
    return named, short


def test_amounts_fit_are_fair_and_can_always_be_kept():
    """After every round: amounts are as the rules say; to keep every job is accepted and changes nothing."""
    named, short = 0, 0
    for seed in range(WORLDS):
        world = random_world(seed)
        if world.setup.scenario.cpu_memory == "unlimited":
            continue
        simulator, scheduler = Simulator(world.workload, world.setup, world.seed), world.scheduler()
        scheduler.reset(world.setup.cluster, simulator.rng)
        for view in simulator.rounds():
            try:
                simulator.apply(scheduler.schedule(view))
            except AllocationError:
                simulator.apply(view.allocation(keep_running=True))
            found = check_amounts(world, simulator)
            named, short = named + found[0], short + found[1]
            events = int(simulator.state.episode[0, 0].log_events)
            allocation = view.allocation()
            for job in view.running.tolist():
                allocation.keep(job)
            simulator.apply(allocation)
            assert simulator.state.episode[0, 0].log_events == events, f"{world.name}: keeping all jobs changed one"
    assert min(named, short) > 100
