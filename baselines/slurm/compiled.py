"""Whole episodes of Slurm's policy as compiled code; Python ranks users anew once in each PriorityCalcPeriod."""

import numpy as np

from baselines.compiled.gang import gangs_of
from baselines.slurm.backfilling import run_backfill
from baselines.slurm.job_table import JobTable
from baselines.slurm.memory import Memory, Queue, Rules, compiled_rules, memory_of, queue_of
from baselines.slurm.nodes import Site, site_of
from baselines.slurm.passes import begin_to_watch, count_again, refresh_waiting, start_by_priority
from baselines.slurm.settings import SlurmSettings
from baselines.slurm.usage import Usage
from envs.simulation import SimulatedEpisode
from envs.simulation.compiled.jit import kernel, leaf
from envs.simulation.world.arrays import World
from envs.simulation.world.clock import pass_to_decision
from envs.simulation.world.kernels import LOG_FULL, ROUND, take_effect

RANK = 9  # beside the outcomes of the engine: users must be ranked before the round is decided


@leaf
def ask_for_pass(world: World, rules: Rules, memory: Memory, changed: bool) -> None:
    """Ask for the next backfill pass, if one could do something: after a change, or when priorities change."""
    state, now = memory.state[0], world.episode[0].time
    if state.num_waiting == 0 or not rules.backfill:
        state.due = np.inf
    else:
        soon = (np.floor(now / rules.interval) + 1.0) * rules.interval
        period = (np.floor(now / rules.calc_period) + 1.0) * rules.calc_period
        later = np.ceil(period / rules.interval) * rules.interval
        state.due = min(state.due, soon if changed else max(later, soon))
    state.request = state.due


@leaf
def needs_ranks(world: World, queue: Queue, rules: Rules, memory: Memory) -> bool:
    """Return whether users must be ranked before this round is decided: a period has begun, or a user is new."""
    state, episode = memory.state[0], world.episode[0]
    if not rules.shares or state.ranked:
        return False
    newest = queue.association[episode.next_job - 1] if episode.next_job > state.submitted else -1
    for j in range(state.submitted, episode.next_job):
        newest = max(newest, queue.association[j])
    return bool(newest >= state.known or int(np.floor(episode.time / rules.calc_period)) > state.calculated)


@leaf
def decide_in_turn(world: World, queue: Queue, site: Site, rules: Rules, memory: Memory) -> None:
    """Decide one round."""
    state, episode = memory.state[0], world.episode[0]
    refresh_waiting(world, queue, rules, memory)
    count_again(world, queue, memory)
    changed = (
        state.seen_jobs != episode.next_job
        or state.seen_running != episode.num_running
        or state.seen_up != episode.num_up
    )
    waited = state.num_waiting
    start_by_priority(world, queue, site, rules, memory)
    on_time = np.floor(episode.time / rules.interval) * rules.interval == episode.time
    if rules.backfill and (episode.time >= state.due or (changed and on_time)):
        state.due = np.inf
        run_backfill(world, queue, site, rules, memory)
        changed = False
    ask_for_pass(world, rules, memory, changed)
    state.seen_jobs, state.seen_up = episode.next_job, episode.num_up
    state.seen_running = episode.num_running + waited - state.num_waiting
    state.ranked = 0


@kernel
def play_slurm(world: World, queue: Queue, site: Site, rules: Rules, memory: Memory) -> int:
    """Play until the episode ends (END), the log is full (LOG_FULL), or users must be ranked (RANK).

    In the last two cases, call again to continue.
    """
    state = memory.state[0]
    while True:
        if not state.in_round:
            if take_effect(world) < 0:
                return LOG_FULL
            if state.request >= 0:
                world.episode[0].next_decision = state.request
                state.request = -1.0
            outcome = pass_to_decision(world)
            if outcome != ROUND:
                return outcome
            state.in_round = 1
            if not state.begun:
                begin_to_watch(world, memory)
                state.begun = 1
        if needs_ranks(world, queue, rules, memory):
            return RANK
        decide_in_turn(world, queue, site, rules, memory)
        state.in_round = 0


def play_whole(simulator: SimulatedEpisode, settings: SlurmSettings) -> bool:
    """Play a whole episode; return False and change nothing if a gang fits no one GPU type.

    Args:
        simulator: the episode.
        settings: without preemption.

    Raises:
        MurmurationError: a job asks for more than its partition allows.
    """
    gangs, workload, cluster = gangs_of(simulator), simulator.workload, simulator.cluster
    jobs = simulator.state.jobs[0]
    if gangs is None or np.count_nonzero(jobs["submit"] < np.inf) != len(workload):
        return False
    table = JobTable(settings, cluster)
    for job in workload:
        table.add(job)
    sizes, models = (jobs[name][: len(workload)].copy() for name in ("num_gpus", "model"))
    runs = (simulator.table.consolidated() > 0)[models, :, sizes]
    types = np.array([table.may_use(job, row) for job, row in enumerate(runs)], np.bool_)
    rules, queue = compiled_rules(settings), queue_of(table, sizes, types, settings)
    site = site_of(cluster, table.node_weights)
    memory = memory_of(queue, rules, cluster, len(simulator.state.serving[0]), np.array(table.eligible))
    usage = Usage(settings, table)
    while (outcome := play_slurm(simulator.world, queue, site, rules, memory)) in (LOG_FULL, RANK):
        if outcome == LOG_FULL:
            simulator.grow_log()
        else:
            _rank(simulator, table, usage, rules, memory)
    return True


def _rank(simulator: SimulatedEpisode, table: JobTable, usage: Usage, rules: Rules, memory: Memory) -> None:
    """Bring usage and factors up to date before a round is decided."""
    state, view = memory.state[0], simulator.view
    submitted = int(simulator.state.episode[0, 0].next_job)
    known = max(table.association[int(state.submitted) : submitted], default=-1) + 1
    if known > state.known:
        usage.add(list(table.associations)[int(state.known) : known])
        state.known = known
    if int(np.floor(view.time / rules.calc_period)) > state.calculated:
        held = memory.held[: state.num_held]
        memory.is_held[held] = False
        kept = usage.update(view, held.tolist())
        memory.held[: len(kept)] = kept
        memory.is_held[kept] = True
        state.num_held = len(kept)
    memory.factors[: len(usage.factors)] = usage.factors
    state.ranked = 1
