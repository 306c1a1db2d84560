"""How the servers' simultaneous choices become one plan, by a stated rule.

All choices of one joint decision refer to the same observation. They take effect in this order:

1. changes of jobs that run on the choosing server, server by server; one that would break the job's GPU range,
   because another server changed the same job, is refused;
2. claims on waiting jobs, candidate by candidate: the largest claim wins, ties go to the server on which the job
   runs faster, then to the lower index. Further claims on the same job join it only while it is below its least
   GPUs (a gang over several servers); all others are refused.

Refused choices count as conflicts; who lost may choose again, since the round goes on until all pass.
"""

from typing import Any

from envs.gpu_cluster.observe import amount_allowed, least_gpus, runs_elsewhere, runs_on
from envs.simulation.jit import jit
from envs.simulation.kernels import clear_job, placement_rate, set_share, share_on
from envs.types import FloatArray, IntArray

Records = Any


@jit
def job_in_slot(nodes: Records, shares: Records, n: int, slot: int) -> int:
    """The job shown in a slot of a server; -1 if the slot is empty."""
    share = nodes[n].first_share
    for _ in range(slot):
        if share < 0:
            return -1
        share = shares[share].next_of_node
    return int(shares[share].job) if share >= 0 else -1


@jit
def change_here(
    episode: Records,
    rules: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    touched: IntArray,
    rates: FloatArray,
    j: int,
    n: int,
    gpus: int,
) -> bool:
    """Set the GPUs of a job that runs on server `n`; False if that is refused."""
    here = share_on(jobs, shares, j, n)
    if here == 0 or gpus - here > nodes[n].free:
        return False
    total = jobs[j].gpus - here + gpus
    if gpus > 0:
        if total < jobs[j].min_gpus or not amount_allowed(rules, jobs[j], gpus, total):
            return False
        runs_here = runs_on(rates, jobs[j].model, nodes[n].gpu_type, total)
        if not runs_here or not runs_elsewhere(nodes, shares, rates, jobs[j], n, total):
            return False
    set_share(episode, jobs, nodes, shares, touched, j, n, gpus)
    return True


@jit
def best_claim(
    jobs: Records,
    nodes: Records,
    rates: FloatArray,
    j: int,
    candidate: int,
    choice: IntArray,
    gpus: IntArray,
    done: IntArray,
) -> int:
    """The server whose claim on a candidate comes next; -1 if none is left."""
    best = -1
    best_rate = 0.0
    for n in range(len(nodes)):
        if done[n] or choice[n] != candidate:
            continue
        rate = rates[jobs[j].model, nodes[n].gpu_type, min(gpus[n], rates.shape[2] - 1), 0]
        if best < 0 or gpus[n] > gpus[best] or (gpus[n] == gpus[best] and rate > best_rate):
            best = n
            best_rate = rate
    return best


@jit
def take_claims(
    episode: Records,
    rules: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    touched: IntArray,
    rates: FloatArray,
    heads: IntArray,
    choice: IntArray,
    gpus: IntArray,
    done: IntArray,
) -> None:
    """Resolve the claims on waiting jobs; `done` int64[num_servers] is scratch."""
    for c in range(len(heads)):
        j = heads[c]
        if j < 0:
            continue
        while True:
            n = best_claim(jobs, nodes, rates, j, c, choice, gpus, done)
            if n < 0:
                break
            done[n] = 1
            rules[0].claims += 1
            job = jobs[j]
            fits = share_on(jobs, shares, j, n) == 0 and 1 <= gpus[n] <= nodes[n].free
            wanted = job.gpus < least_gpus(rules, job) and amount_allowed(rules, job, gpus[n], job.gpus + gpus[n])
            if not (fits and wanted):
                rules[0].conflicts += 1
                continue
            set_share(episode, jobs, nodes, shares, touched, j, n, gpus[n])


@jit
def decide(
    episode: Records,
    rules: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    touched: IntArray,
    rates: FloatArray,
    heads: IntArray,
    choice: IntArray,
    gpus: IntArray,
    done: IntArray,
    slot_jobs: IntArray,
) -> bool:
    """Take one joint decision (`choice` and `gpus` int64[num_servers], -1 for nothing); say if the round is over."""
    candidates = len(heads)
    passed = True
    for n in range(len(nodes)):  # read all slots before any of them moves
        done[n] = 0
        slot_jobs[n] = -1
        if choice[n] >= 0:
            passed = False
        if choice[n] >= candidates:
            slot_jobs[n] = job_in_slot(nodes, shares, n, choice[n] - candidates)
    rules[0].decision += 1
    rules[0].decisions += 1
    if not passed:
        for n in range(len(nodes)):
            if choice[n] >= candidates:
                rules[0].claims += 1
                j = slot_jobs[n]
                if j < 0 or not change_here(episode, rules, jobs, nodes, shares, touched, rates, j, n, gpus[n]):
                    rules[0].conflicts += 1
        take_claims(episode, rules, jobs, nodes, shares, touched, rates, heads, choice, gpus, done)
    return passed or rules[0].decision >= rules[0].max_decisions


@jit
def drop_incomplete(
    episode: Records,
    rules: Records,
    jobs: Records,
    nodes: Records,
    shares: Records,
    touched: IntArray,
    rates: FloatArray,
) -> None:
    """At the end of a round, jobs below their least GPUs, and mixes of GPU types that do not run, give theirs back."""
    for i in range(episode[0].num_touched):
        j = touched[i]
        job = jobs[j]
        if job.gpus == 0:
            continue
        runs = placement_rate(episode, job, nodes, shares, rates, job.first_share) > 0
        if job.gpus < least_gpus(rules, job) or not runs:
            clear_job(episode, jobs, nodes, shares, touched, j)
            rules[0].incomplete += 1
    rules[0].decision = 0
