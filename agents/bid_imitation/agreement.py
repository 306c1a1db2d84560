"""How often a market decides as a teacher does: without bids, on a policy's bids, and on the bids found for it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agents.bid_imitation.lesson import Lesson
from agents.bid_imitation.targets import Grid, differing, gpus_cleared
from agents.bidding.scheduler import bids_on
from agents.evolution.playing import Game
from agents.networks.bidding import BidNetwork
from envs.bidding import BiddingBatch
from envs.scheduling import Scheduler
from envs.types import IntArray

ANSWERS = {"market": "market alone", "policy": "policy", "found": "bids found for the teacher"}


def measure_agreement(
    network: BidNetwork,
    batch: BiddingBatch,
    make_teacher: Callable[[], Scheduler],
    games: Sequence[Game],
    corrections: int,
) -> dict[str, float]:
    """Compare allocations, job by job, in the rounds that the bids found for the teacher lead to.

    An allocation is the GPUs of each job on each node. The games are played one after another.

    Args:
        network: the policy.
        batch: of one episode.
        make_teacher: makes the teacher.
        games: which episodes.
        corrections: see `agents.bid_imitation.targets.find_bids`.

    Returns:
        `rounds`, their number, and for the `market` alone, the `policy` and the bids `found`: `<answer>_rounds`, the
        share of rounds with the teacher's allocation; `<answer>_jobs`, the share of jobs with the teacher's allocation,
        of those that hold GPUs under the teacher's or the market's own allocation; `<answer>_differing`, the same of
        those that differ in these two, which is 0 for the market alone.
    """
    lesson = Lesson(batch, make_teacher, iter(games), corrections)
    counts: list[IntArray] = []
    while True:
        taught = lesson.ask()
        held, wanted = taught.held[0], taught.taught[0]
        own = gpus_cleared(held, batch.auction.clear(np.zeros_like(taught.bids)), 0)
        said = bids_on(network, batch.observation)
        policy, found = (gpus_cleared(held, batch.auction.clear(bids), 0) for bids in (said, taught.bids))
        counts.append(np.array([count_equal(wanted, own, answer) for answer in (own, policy, found)]))
        if not lesson.play(taught.bids):
            break
    totals = np.sum(counts, axis=0).astype(float)  # [answers, counts]
    figures = {"rounds": float(totals[0, 0])}
    for name, (rounds, same, jobs, same_jobs, differ, same_differing) in zip(ANSWERS, totals.tolist(), strict=True):
        figures[f"{name}_rounds"] = same / rounds
        figures[f"{name}_jobs"] = same_jobs / max(jobs, 1.0)
        figures[f"{name}_differing"] = same_differing / max(differ, 1.0)
    return figures


def describe_agreement(figures: Mapping[str, float], name: str) -> str:
    """Return the figures of one of `ANSWERS`, in a line."""
    return (
        f"as the teacher in {figures[f'{name}_rounds']:.1%} of the rounds, for {figures[f'{name}_jobs']:.1%} of the "
        f"jobs and for {figures[f'{name}_differing']:.1%} of those that differ"
    )


def count_equal(taught: Grid, own: Grid, answer: Grid) -> tuple[int, int, int, int, int, int]:
    """Count one round.

    Args:
        taught: the teacher's allocation.
        own: the market's without bids.
        answer: the market's on some bids.

    Returns:
        1; 1 if the answer is the teacher's allocation; jobs that hold GPUs under the teacher's or the market's own
        allocation; those that the answer gives what the teacher does; jobs that differ in these two allocations; those
        that the answer gives what the teacher does.
    """
    equal = ~differing(taught, answer)
    served, differ = (taught + own).any(axis=1), differing(taught, own)
    return (
        1,
        int(equal.all()),
        int(served.sum()),
        int((served & equal).sum()),
        int(differ.sum()),
        int((differ & equal).sum()),
    )
