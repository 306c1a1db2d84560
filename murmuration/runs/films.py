"""Films of schedulers and policies."""

import os
from collections.abc import Sequence
from pathlib import Path

from envs.episodes.film import film_episode, write_film
from envs.evaluation.files import whole_file
from envs.evaluation.playing import workload_seed
from envs.scheduling import Scheduler
from envs.types import as_line
from envs.workloads import Workload
from murmuration.config.descriptions import ActorRun, FilmRun
from murmuration.config.errors import ChoiceError
from murmuration.config.honoured import build_able
from murmuration.config.inputs import build_inputs, find_workloads


def film_run(run: FilmRun, folder: Path) -> Path:
    """Film the episode of a run; print and return the path of the film.

    Raises:
        ChoiceError: there is no such episode, or not one scheduler.
        MurmurationError: the film cannot be written.
    """
    inputs = build_inputs(run.problem)
    workloads = find_workloads(inputs, run.split)
    if not isinstance(run.episode, int) or not 0 <= run.episode < len(workloads):
        raise ChoiceError(f"episode is {run.episode!r}; it must be a whole number from 0 to {len(workloads) - 1}")
    seed = workload_seed(inputs.seed, run.episode)
    actor = find_actor(run, [workloads[run.episode]])
    if run.checkpoint:
        from agents.policies.watching import watched  # needs torch

        actor = watched(actor)
    task = run.problem.task.name if run.problem.task else ""
    who = Path(run.checkpoint).name if run.checkpoint else next(iter(run.schedulers))
    title = " ".join(filter(None, [who, task and f"on {task}:", workloads[run.episode].name]))
    frames = film_episode(actor, workloads[run.episode], inputs.setup, seed, run.frames, as_line(title))
    with whole_file(folder / run.film) as part:
        write_film(frames, part, run.fps)
    print(f"{len(frames)} pictures of {as_line(workloads[run.episode].name)}: {os.path.relpath(folder / run.film)}")
    return folder / run.film


def find_actor(run: ActorRun, workloads: Sequence[Workload] = ()) -> Scheduler:
    """Return the policy of the checkpoint, or the only scheduler that is chosen.

    Args:
        run: what is chosen.
        workloads: the jobs that it is to play, as far as they are known.

    Raises:
        ChoiceError: several schedulers are chosen, or none, or one that does not honour the constraints of the jobs.
    """
    if run.checkpoint:
        from murmuration.runs.policies import load_policies  # needs torch

        return next(iter(load_policies(run.checkpoint, run.trusted, sampled=run.sampled).values()))
    built = build_able(run.schedulers, workloads)
    if len(built) != 1:
        raise ChoiceError(f"{len(built)} schedulers are chosen ({', '.join(built)}); choose one: scheduler=fifo")
    return next(iter(built.values()))
