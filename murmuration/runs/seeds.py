"""Training runs of one or several seeds, these in processes of their own. Needs torch and ray."""

import multiprocessing
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.managers import SyncManager
from pathlib import Path
from typing import Any

from agents.policies.checkpoint import find_checkpoint
from agents.terminal import ProgressListener
from agents.validation import ValidationFigures
from envs.evaluation.failure import portable
from envs.evaluation.spread import LostCallError
from envs.types import MurmurationError
from murmuration.config.descriptions import SeedRun, TrainingRun
from murmuration.config.provenance import add_provenance, checkpoint_hashes
from murmuration.runs.comparing import compare_and_report
from murmuration.runs.curves import write_learning_curves
from murmuration.runs.dependence import depend_on_parent
from murmuration.runs.policies import load_policies, seed_folders
from murmuration.runs.spreading import find_spread, spread_over_ray
from murmuration.runs.training import build_trainer, train_seed

LOOK_SECONDS = 0.2  # between two looks at what the processes report


def train_and_evaluate(run: TrainingRun, folder: Path) -> None:
    """Train; then compare the best checkpoints with the baselines, in the folder and in `elsewhere` there, if asked to.

    Raises:
        ChoiceError: see `build_trainer`.
        CheckpointError: the run cannot be resumed, or its files cannot be written.
    """
    if run.resumes:
        add_provenance(folder, resumes=list(run.resumes))
    with ProgressListener() as listener:
        trained = train_seeds(run, folder, listener)
    if trained:
        hashes = [checkpoint_hashes(find_checkpoint(each)) for each in seed_folders(folder) or [folder]]
        add_provenance(folder, checkpoint={path: found for each in hashes for path, found in each.items()})
        write_learning_curves(folder)
        if run.evaluation:
            compare_and_report(run.evaluation, folder, load_policies(folder, run.trusted))
        if run.elsewhere:
            compare_and_report(run.elsewhere, folder / "elsewhere", load_policies(folder, run.trusted))


def train_seeds(run: TrainingRun, folder: Path, listener: ProgressListener) -> bool:
    """Train once, or each of several seeds, in folders seed_<seed> of the run's folder.

    Baselines are measured once. Then `run.processes` seeds are trained at a time, each in a process of its own, or all
    of them on the workers of a Ray cluster that was joined; figures are the same. Seeds that have ended are not trained
    again when a run is resumed.

    Returns:
        Whether there is a policy to evaluate.

    Raises:
        ChoiceError: see `build_trainer`.
    """
    first = run.seeds[0]
    if len(run.seeds) == 1:
        return train_seed(first, folder, listener).best_iteration >= 0
    runs = {each.problem.seed: (each, folder / f"seed_{each.problem.seed}") for each in run.seeds}
    at_once, over_ray = min(run.processes or count_cores(), len(runs)), find_spread() is not None
    if at_once == 1 and not over_ray:
        return train_in_turn(runs, listener)
    place_of_work = "on Ray" if over_ray else f"{at_once} at a time"
    listener.note(f"training seeds {min(runs)} to {max(runs)}, {place_of_work}")
    measured = build_trainer(*runs[min(runs)], listener).measure()
    if over_ray:
        return train_over_ray(runs, measured, listener)
    return train_at_once(runs, measured, at_once, listener)


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def train_in_turn(runs: Mapping[int, tuple[SeedRun, Path]], listener: ProgressListener) -> bool:
    """Train seeds one after another in this process; return whether all have a policy."""
    trained, measured = [], dict[str, ValidationFigures]()
    for seed, (run, folder) in runs.items():
        listener.note(f"training seed {seed}, the last one is {max(runs)}")
        state = train_seed(run, folder, listener, measured)
        trained.append(state.best_iteration >= 0)
        measured |= state.baselines
    return all(trained)


def train_at_once(
    runs: Mapping[int, tuple[SeedRun, Path]],
    measured: Mapping[str, ValidationFigures],
    at_once: int,
    listener: ProgressListener,
) -> bool:
    """Train seeds in several processes; return whether all have a policy.

    Raises:
        MurmurationError: a process has died. An error that ends the training of a seed is raised as it is.
    """
    context = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=context)
    manager.start(depend_on_parent)
    with manager:
        reports = manager.Queue()
        boards = {seed: listener.part(f"seed {seed}") for seed in runs}
        with stopping_at_once(ProcessPoolExecutor(at_once, context, depend_on_parent)) as pool:
            calls = [
                pool.submit(train_apart, list(sys.path), own, place, dict(measured), reports)
                for own, place in runs.values()
            ]
            for _ in until_done(calls):
                show_reports(reports, boards)
            try:
                results = [call.result() for call in calls]
            except BrokenProcessPool as error:
                raise MurmurationError(
                    "seeds: a process that trained a seed has died, perhaps for want of memory; go on with resume= and "
                    "fewer processes="
                ) from error
    return all(results)


def train_over_ray(
    runs: Mapping[int, tuple[SeedRun, Path]],
    measured: Mapping[str, ValidationFigures],
    listener: ProgressListener,
) -> bool:
    """Train each seed on a worker of the Ray cluster; return whether all have a policy.

    A seed whose worker is lost goes on elsewhere, after its last state. All machines see the folder of the run.

    Raises:
        MurmurationError: a seed was lost each time that it was tried. An error that ends training is raised as it is.
    """
    from ray.util.queue import Queue

    reports, ended = Queue(), threading.Event()
    boards = {seed: listener.part(f"seed {seed}") for seed in runs}

    def show_until_ended() -> None:
        while not ended.wait(LOOK_SECONDS):
            show_reports(reports, boards)

    shown = threading.Thread(target=show_until_ended)
    shown.start()
    try:
        common = (os.getcwd(), dict(measured), reports)
        calls = [(own, place.resolve()) for own, place in runs.values()]
        results = list(spread_over_ray(train_there, common, calls))
    finally:
        ended.set()
        shown.join()
        show_reports(reports, boards)
    for seed, result in zip(runs, results, strict=True):
        if isinstance(result, LostCallError):
            raise MurmurationError(f"seed {seed}: {result}")
    return all(results)


def train_there(
    where: str,
    measured: Mapping[str, ValidationFigures],
    reports: "queue.Queue[tuple[int, str, tuple[Any, ...]]]",
    run: SeedRun,
    folder: Path,
) -> bool:
    """Train a seed on a worker, in the working directory of the first process; see `train_apart`."""
    os.chdir(where)
    return train_apart(list(sys.path), run, folder, measured, reports)


@contextmanager
def stopping_at_once(pool: ProcessPoolExecutor) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of processes; after an error or an interrupt these end at once instead of finishing their work."""
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    pool.shutdown()


def until_done(calls: list[Future[bool]]) -> Iterator[None]:
    """Yield every now and then until all calls have ended or one has failed, and once more then."""
    pending = set(calls)
    while pending:
        done, pending = wait(pending, LOOK_SECONDS, FIRST_COMPLETED)
        yield
        if any(call.exception() for call in done):
            return


def show_reports(reports: "queue.Queue[tuple[int, str, tuple[Any, ...]]]", boards: Mapping[int, Any]) -> None:
    """Hand on what processes have reported since the last look."""
    while True:
        try:
            seed, what, values = reports.get_nowait()
        except queue.Empty:
            return
        getattr(boards[seed], what)(*values)


def train_apart(
    path: list[str],
    run: SeedRun,
    folder: Path,
    measured: Mapping[str, ValidationFigures],
    reports: "queue.Queue[tuple[int, str, tuple[Any, ...]]]",
) -> bool:
    """Train a seed in this process, which knows no more than its arguments; return whether it has a policy.

    Args:
        path: where the first process imports from.
        run, folder, measured: see `train_seed`.
        reports: receives (seed, name of the listener's method, its arguments).
    """
    sys.path[:] = path

    def tell(what: str) -> Callable[..., None]:
        return lambda *values: reports.put((run.problem.seed, what, values))

    try:
        return train_seed(run, folder, Reporter(tell), measured).best_iteration >= 0
    except Exception as error:
        raise portable(error) from None


class Reporter:
    """An `agents.listener.TrainingListener` that sends everything to another process."""

    def __init__(self, tell: Callable[[str], Callable[..., None]]) -> None:
        self.phase, self.step, self.note = tell("phase"), tell("step"), tell("note")
