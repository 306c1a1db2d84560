"""Snapshots of an engine's complete state, to compare before and after an action that must change nothing."""

from dataclasses import fields

import numpy as np

from envs.simulation import SimulatedEpisode
from envs.simulation.reference import Job, Node, ReferenceSimulator
from envs.simulation.world.records import JOB
from tests.unit.simulation.plays import Engine, pool_size


def snapshot(engine: Engine) -> list[object]:
    """Copy the state of time, jobs, nodes and log."""
    parts = of_compiled(engine) if isinstance(engine, SimulatedEpisode) else of_reference(engine)
    view = engine.view
    return [*((job, view.placement(job)) for job in view.running.tolist()), *parts]


def of_compiled(simulator: SimulatedEpisode) -> list[object]:
    """Copy all arrays; the positions of share records in their pool do not count."""
    state = simulator.state
    jobs, nodes, episode = state.jobs[0].copy(), state.nodes[0].copy(), state.episode[0].copy()
    nodes["first_share"] = nodes["free_share"] = nodes["planned"] = 0
    for field in JOB.names or ():
        if field == "first_share" or field.startswith("before_"):
            jobs[field] = 0
    arrays = (jobs, nodes, episode, state.heap, state.queued, state.running, state.room, state.events, state.log_shares)
    return [pool_size(state), list(simulator.plans), *map(_bytes, arrays)]


def _bytes(array: np.ndarray) -> bytes:
    """The values of all elements, without what lies between records, which a copy does not keep."""
    return b"".join(array[name].tobytes() for name in array.dtype.names) if array.dtype.names else array.tobytes()


def of_reference(engine: ReferenceSimulator) -> list[object]:
    """Copy every field of every job and node as text, since NaN is not equal to itself."""
    clock = (engine.time, engine.num_submitted, engine.num_rounds, engine.next_tick, engine.stalls, engine.ended)
    system = [job.id for job in engine.active], [node.id for node in engine.dirty]
    log_writer = engine.log_writer
    written = list(log_writer.events), list(log_writer.shares), list(log_writer.plans)
    return [clock, system, written, *(_fields(job) for job in engine.jobs), *(_fields(node) for node in engine.nodes)]


def _fields(record: Job | Node) -> str:
    plain = [getattr(record, field.name) for field in fields(record) if field.name != "shares"]
    shares = [
        (share.job.id, share.node.id, share.gpus, share.cpus, share.memory, share.network, share.cpu_stage)
        for share in record.shares
    ]
    return repr((plain, shares))
