"""Scores of programs: 0 is shortest remaining time first (SRTF), 1 a lower bound that no scheduler can reach.

The world is played in this process; the program decides in another one (`murmuration.programs.arena`).
"""

import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baselines import Srtf
from envs.evaluation.audit import Audit
from envs.evaluation.files import file_hash, write_whole
from envs.evaluation.playing import play_one, simulator_of
from envs.evaluation.task import hash_text
from envs.metrics import job_completion_times
from envs.metrics.bounds import Relaxation
from envs.simulation import WORLD_VERSION, RunResult, Setup
from envs.simulation.compiled.kernel_cache import find_kernel_folder
from envs.types import MurmurationError, Seconds
from envs.workloads import Workload
from murmuration.config.errors import ChoiceError
from murmuration.home import ROOT
from murmuration.library import make_task
from murmuration.programs.arena import LONGEST_PROGRAM, Arena, PlayLimits, ProgramScheduler
from murmuration.programs.feedback import describe_losses, describe_worst

FAILED = -10.0  # the score of a program that fails; FIFO has about -1
STAGES = {1: 150, 2: 420, 3: 2100}  # jobs that are played: about 1, 3 and 15 to 27 CPU-s
ABOVE_BOUND = 1e-6  # relative: rounding
WARM_UP_JOBS = 20
NAME = "program"


@dataclass(frozen=True)
class Reference:
    """The figures by which a program is measured in one workload.

    Attributes:
        alone: float64[num_jobs], least seconds of each job.
        bound: a lower bound on the mean JCT of the measured jobs, in seconds.
        srtf: the mean JCT of SRTF, in seconds.
    """

    alone: Any
    bound: Seconds
    srtf: Seconds

    def score(self, mean_jct: Seconds) -> float:
        """Return 1 - log(mean JCT / bound) / log(SRTF's / bound)."""
        return 1 - math.log(mean_jct / self.bound) / math.log(self.srtf / self.bound)


class ProgramEvaluator:
    """Evaluates programs on workloads of one task.

    Args:
        options: the task and options of it, as on the command line: "full-64", "workload.load=0.8".
        split: "validation" for a search, "test" for what it found.
        seed: workloads and everything random are drawn by it; None plays the task's fixed workloads.
        limits: of a program in one workload.

    Raises:
        ChoiceError: there is no such task or split, or SRTF cannot play it.
        MurmurationError: programs cannot decide in this task, such as where throughputs are hidden.
    """

    def __init__(
        self,
        options: Sequence[str],
        split: str = "validation",
        seed: int | None = None,
        limits: PlayLimits | None = None,
    ) -> None:
        self.options, self.split, self.seed = list(options), split, seed
        self._limits = limits or PlayLimits()
        self._task = make_task(*options)
        self.setup: Setup = self._task.setup
        if self.setup.scenario.information.hides_throughput:
            raise ChoiceError(
                f"{options[0]}: throughputs are hidden, which the protocol of programs does not show; set "
                "scenario.information.throughput=exact"
            )
        self._workloads: list[Workload] = []
        self._references: dict[str, Reference] = {}
        self._audit = Audit(self.setup)
        warm_up = self._task.source.episode(np.random.default_rng(0))
        self._arena = Arena(self.setup, warm_up.slice(0, WARM_UP_JOBS))

    def evaluate(self, text: str, stage: int = 3, episodes: int | None = None) -> dict[str, Any]:
        """Play a program, and return `combined_score`, figures, and `artifacts` with what is to be said of it.

        A program that fails in one workload has the score `FAILED`, and `artifacts["error"]` says why.

        Args:
            text: the program.
            stage: 1 to 3, each with more jobs (`STAGES`).
            episodes: the number of workloads, in place of a stage's.
        """
        began = time.process_time()
        if len(text) > LONGEST_PROGRAM:
            return _failed(f"the program has {len(text):,} characters; at most {LONGEST_PROGRAM:,} are read")
        workloads = self._chosen(stage) if episodes is None else self._first(episodes)
        program = ProgramScheduler(self._arena, text, self._limits)
        runs, references, cpu_seconds = [], [], 0.0
        for index, workload in enumerate(workloads):
            reference = self._reference(index, workload)
            world = simulator_of(workloads, self.setup, self.seed or 0, index)
            try:
                found = play_one(NAME, program, world, index, self._audit, refusable=False)
            finally:
                program.close()
            cpu_seconds += program.used.get("cpu_seconds", 0.0)
            problem = _problem_of(found, reference)
            if problem:
                return _failed(f"{problem} (workload {index + 1} of {len(workloads)}, {workload.name})", cpu_seconds)
            assert isinstance(found, RunResult)
            runs.append(found)
            references.append(reference)
        figures = _figures(runs, references)
        figures |= {"cpu_seconds": time.process_time() - began, "program_cpu_seconds": cpu_seconds}
        artifacts = describe_losses(runs, [each.alone for each in references])
        artifacts |= {"worst_jobs": describe_worst(runs, [each.alone for each in references])}
        artifacts["played"] = (
            f"{self.split}, {sum(map(len, workloads)):,} jobs; confined: {'; '.join(program.measures)}"
        )
        return {**figures, "artifacts": artifacts}

    def close(self) -> None:
        """End the process of programs."""
        self._arena.close()

    def _first(self, episodes: int) -> list[Workload]:
        """Return the first workloads of the split; those of a seed are drawn when they are first needed."""
        if self.seed is None:
            fixed = self._task.workloads(self.split)
            if len(fixed) < episodes:
                raise ChoiceError(f"episodes {episodes}: split {self.split} has {len(fixed)}; give fewer, or a seed")
            return list(fixed[:episodes])
        while len(self._workloads) < episodes:
            rng = np.random.default_rng([self.seed, len(self._workloads)])
            self._workloads.append(self._task.source.episode(rng, self.split))
        return self._workloads[:episodes]

    def _chosen(self, stage: int) -> list[Workload]:
        """Return as many workloads as have the jobs of a stage, the first one cut where it has more."""
        most, (first,) = STAGES[stage], self._first(1)
        if len(first) > most:
            start, end = first.window
            cut = first.slice(0, most, start=0.0, name=f"{first.name}-cut", window=(start, end))
            return [cut if cut.measured.any() else first.slice(0, most, start=0.0, name=f"{first.name}-cut")]
        fixed = None if self.seed is not None else len(self._task.workloads(self.split))
        count = max(most // max(len(first), 1), 1)
        return self._first(count if fixed is None else min(count, fixed))

    def _reference(self, index: int, workload: Workload) -> Reference:
        """Return what a program is measured by, from memory, the disk, or as it is computed now."""
        source = [*self.options, str(self.seed), str(index), str(WORLD_VERSION), str(workload.window)]
        source += [file_hash(path) for path in sorted((ROOT / "envs" / "metrics").glob("*.py"))]  # bounds
        key = hash_text("\n".join([*source, hash_text(workload.jobs.tobytes().hex())]))
        if key in self._references:
            return self._references[key]
        folder = find_kernel_folder()
        path = None if folder is None else folder / f"reference_{key}.json"
        relaxation = Relaxation.of(workload, self.setup, any_batch=self.setup.scenario.batch_sizes != "usual")
        if path is not None and path.is_file():
            bound, srtf = json.loads(path.read_text(encoding="utf-8"))
        else:
            bound = relaxation.of_jobs(np.flatnonzero(workload.measured)).mean_jct()  # as tables have it
            world = simulator_of([workload] * (index + 1), self.setup, self.seed or 0, index)
            found = play_one("srtf", Srtf(), world, index, self._audit, refusable=True)
            if not isinstance(found, RunResult):
                raise ChoiceError(f"{self.options[0]}: SRTF, by which programs are measured, cannot play it: {found}")
            srtf = _mean_jct(found)
            if path is not None:
                write_whole(path, json.dumps([bound, srtf]))
        self._references[key] = Reference(relaxation.alone, bound, srtf)
        return self._references[key]


def _mean_jct(run: RunResult) -> Seconds:
    """Return the mean JCT of the measured jobs; NaN if one was never finished."""
    return float(job_completion_times(run.records[run.records["measured"]]).mean())


def _problem_of(found: Any, reference: Reference) -> str:
    """Return why a play has no figure; empty if it has."""
    if not isinstance(found, RunResult):
        return f"failed at t = {found.time:,.0f} s: {found.message}"
    mean_jct = _mean_jct(found)
    if math.isnan(mean_jct):
        left = int(np.isnan(found.records["finish_time"][found.records["measured"]]).sum())
        return f"{left} measured jobs were never finished: each job must get GPUs until it ends"
    names_plans = bool((found.log.events["plan"] >= 0).any())
    if mean_jct < reference.bound * (1 - ABOVE_BOUND) and not names_plans:
        return f"the result cannot be: its mean JCT of {mean_jct:g} s is below the bound, {reference.bound:g} s"
    return ""


def _figures(runs: Sequence[RunResult], references: Sequence[Reference]) -> dict[str, Any]:
    means = np.array([_mean_jct(run) for run in runs])
    scores = [reference.score(mean) for mean, reference in zip(means, references, strict=True)]
    return {
        "combined_score": float(np.mean(scores)),
        "mean_jct": float(means.mean()),
        "ratio_to_srtf": float(np.exp(np.mean([np.log(m / r.srtf) for m, r in zip(means, references, strict=True)]))),
        "ratio_to_bound": float(np.exp(np.mean([np.log(m / r.bound) for m, r in zip(means, references, strict=True)]))),
        "workloads": len(runs),
        "jobs": int(sum(int(run.workload.measured.sum()) for run in runs)),
    }


def _failed(why: str, cpu_seconds: float = 0.0) -> dict[str, Any]:
    return {"combined_score": FAILED, "program_cpu_seconds": cpu_seconds, "artifacts": {"error": why}}


def read_program(path: Path) -> str:
    """Return the text of a program.

    Raises:
        ChoiceError: the file cannot be read, or is no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ChoiceError(f"{path}: cannot be read ({error}); give a file of Python") from None


def answer_requests(evaluator: ProgramEvaluator) -> None:
    """Answer lines of standard input, {"program": path, "stage": 1}, with one JSON object on one line each."""
    for line in sys.stdin:
        with redirect_stdout(sys.stderr):
            asked = json.loads(line)
            try:
                found = evaluator.evaluate(read_program(Path(asked["program"])), int(asked.get("stage", 3)))
            except MurmurationError as error:
                found = _failed(str(error))
        print(json.dumps(found), flush=True)
