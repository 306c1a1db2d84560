"""The compiled check for net progress, which ends runs that would never end; `docs/world.md` has the rule.

It runs once in `max_futile_rounds` rounds. It visits the jobs in the system only if nothing has arrived or completed
since the last check, so it costs events nothing; `envs.simulation.world.kernels.note_least` makes up for that.
"""

from envs.simulation.compiled.jit import leaf, part
from envs.simulation.world.arrays import World
from envs.simulation.world.kernels import note_least, remaining_work
from envs.simulation.world.ordered_set import next_member
from envs.types import IntArray

LEAST_SECONDS = 1e-6  # simulated time for each round; below it the clock stands still
DELAYS = 10.0  # longest restart delays without net progress, before which no run is ended


@leaf
def note_progress(world: World, words: IntArray) -> bool:
    """Record the jobs of a set that have fewer samples left than at any check before; return whether there are any."""
    found = False
    j = next_member(words, len(world.jobs), 0)
    while j >= 0:
        job = world.jobs[j]
        note_least(world, job)
        left = remaining_work(job, world.episode[0].time)
        if left < job.least:
            job.least = left
            found = True
        j = next_member(words, len(world.jobs), j + 1)
    return found


@part
def progress_has_ceased(world: World) -> bool:
    """Check for net progress since the last check; return whether the episode must end for lack of it."""
    episode = world.episode[0]
    events = episode.num_events > episode.checked_events
    stands_still = not events and episode.time - episode.checked_time < LEAST_SECONDS * episode.max_futile_rounds
    progress = events
    if not events:
        waiting, running = note_progress(world, world.queued), note_progress(world, world.running)
        progress = waiting or running
    episode.next_check = episode.num_rounds + episode.max_futile_rounds
    episode.checked_events = episode.num_events
    episode.checked_time = episode.time
    if progress:
        episode.progress_time = episode.time
        episode.progress_restarts = episode.num_restarts
    futile = (
        episode.num_restarts - episode.progress_restarts >= episode.max_futile_rounds
        and episode.time - episode.progress_time >= DELAYS * episode.longest_delay
    )
    return bool(stands_still or futile)
