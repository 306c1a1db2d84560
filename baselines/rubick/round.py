"""The steps of a round of Rubick on a draft: who holds what, room for claims, growth into what is left."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from baselines.parts.placing import best_fit
from baselines.rubick.curves import GAIN, NOWHERE, Curves
from baselines.rubick.draft import Claim, Draft, Held
from envs.scheduling import ClusterView
from envs.types import Allocation, IntArray, JobId, Placement

Pays = Callable[[JobId, float], bool]  # whether a change that makes a running job faster by a factor pays


class Growth(NamedTuple):
    """A larger share for a job, and what it gains for each GPU more, as a share of its original speed."""

    slope: float
    num_gpus: int  # of the job now; of equal slopes the job with fewer goes first
    job: JobId
    held: Held


def held_now(view: ClusterView, curves: Curves) -> dict[JobId, Held]:
    """What the running jobs hold; of a gang over several types, the type of its first node."""
    found: dict[JobId, Held] = {}
    for job in view.running.tolist():
        gpus = view.placement(job).gpus
        kind = int(view.cluster.node_types[min(gpus)])
        found[job] = Held(gpus, kind, curves.exactly(view, job, kind, sum(gpus.values()), len(gpus)))
    return found


def within_quota(draft: Draft, jobs: Iterable[JobId]) -> set[JobId]:
    """Those guaranteed jobs among `jobs`, in this order, whose minima fit their tenants' quotas together."""
    left: IntArray = draft.view.quotas.copy()
    guaranteed, tenant = draft.view.guaranteed, draft.view.tenant
    kept = set()
    for job in jobs:
        if not guaranteed[job]:
            continue
        held = draft.held[job]
        least = draft.curve(job, held.kind).least.num_gpus or held.num_gpus
        if least <= left[tenant[job]]:
            left[tenant[job]] -= least
            kept.add(job)
    return kept


def place(draft: Draft, claim: Claim) -> bool:
    """Let a job that holds nothing have its least size, on free GPUs or else on what others give; say whether it has.

    GPU types are tried from the fastest on. Where a job of the same curves was refused and nothing has changed since,
    no room is looked for.
    """
    kinds = draft.kinds(claim.job)
    like = (*(id(draft.curve(claim.job, kind)) for kind in kinds), claim._replace(job=-1))
    if draft.refused.get(like) == draft.version:
        return False
    sizes = [(kind, draft.curve(claim.job, kind).least.num_gpus) for kind in kinds]
    for kind, size in sizes:
        if held := draft.find(claim.job, kind, size, draft.free):
            draft.give(claim.job, held)
            return True
    for kind, size in sizes:
        if held := draft.make_room(kind, size, claim):
            draft.give(claim.job, held)
            return True
    draft.refused[like] = draft.version
    return False


def place_spanning(draft: Draft, jobs: Iterable[JobId]) -> None:
    """Start jobs that run on no one type of GPU, as they asked, on several; nobody resizes them later."""
    for job in jobs:
        gpus = best_fit(draft.view, draft.free, job, int(draft.view.num_gpus[job]), ())
        if gpus:
            kind = int(draft.view.cluster.node_types[min(gpus)])
            draft.give(job, Held(gpus, kind, NOWHERE))


def grow(draft: Draft, running: Mapping[JobId, Held], pays: Pays) -> None:
    """Give free GPUs to whoever gains most per GPU, until nobody gains.

    Args:
        draft: changed in place.
        running: what jobs held when the round began; who holds the same still must afford the change.
        pays: whether it does.
    """
    while draft.idle:
        best = max(growths(draft, running, pays), default=None, key=lambda one: (one.slope, -one.num_gpus, -one.job))
        if best is None:
            return
        draft.give(best.job, best.held)


def growths(draft: Draft, running: Mapping[JobId, Held], pays: Pays) -> Iterator[Growth]:
    """Every larger share that a job could have now, on its own node before others, and that pays."""
    for job, held in draft.held.items():
        free = draft.free.copy()
        for node, count in held.gpus.items():
            free[node] += count

        def worth(speed: float, job: JobId = job, held: Held = held) -> bool:
            """Whether a speed is enough of a gain, after the restart if this is one."""
            factor = speed / held.choice.speed if held.choice.speed > 0 else float("inf")
            return factor > 1 + GAIN and (running.get(job) is not held or pays(job, factor))

        for kind in draft.kinds(job):
            curve = draft.curve(job, kind)
            for choice in curve.choices:
                grows = held.num_gpus < choice.num_gpus or kind != held.kind
                if not grows or choice.num_gpus > held.num_gpus + draft.idle or not worth(choice.speed):
                    continue
                found = on_own_node(draft, job, kind, choice.num_gpus) or draft.find(job, kind, choice.num_gpus, free)
                if found and worth(found.choice.speed):
                    more = max(choice.num_gpus - held.num_gpus, 1)
                    slope = (found.choice.speed - held.choice.speed) / curve.original / more
                    yield Growth(slope, held.num_gpus, job, found)


def on_own_node(draft: Draft, job: JobId, kind: int, size: int) -> Held | None:
    """A larger share on the one node where a job is; None if it is on several, or there is no room."""
    held = draft.held[job]
    if len(held.gpus) != 1 or kind != held.kind:
        return None
    (node,) = held.gpus
    if draft.free[node] + held.num_gpus < size:
        return None
    return Held({node: size}, kind, draft.curves.exactly(draft.view, job, kind, size, 1))


def as_wish(draft: Draft, running: Mapping[JobId, Held]) -> Allocation:
    """The draft as an answer: what differs from what runs."""
    wish = draft.view.allocation(keep_running=True)
    for job, held in running.items():
        if draft.held.get(job) is not held:
            wish.stop(job)
    for job, held in draft.in_order().items():
        if running.get(job) is not held:
            wish.place(job, Placement(held.gpus, plan=held.choice.plan))
    return wish
