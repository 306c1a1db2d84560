"""Predicted work of jobs in the reference implementation: `docs/world.md`, "What does a scheduler know?"."""

import math
from collections.abc import Sequence

import numpy as np

from envs.performance import plain_model
from envs.scheduling import WorkPredictor
from envs.simulation.reference.throughputs import ReferenceTable
from envs.types import NUM_OUTCOMES, FloatArray, JobFacts, JobId, MurmurationError, Samples, Seconds
from envs.workloads import Workload

SHORTEST: Seconds = 1e-3  # no run time is predicted to be shorter


class ReferencePredictions:
    """The predictions of the setup's predictor for the jobs of one episode.

    It is asked with all facts anew whenever a job was submitted or has ended, also if it could follow an episode.

    Args:
        predictor: the setup's.
        workload: the jobs.
        throughputs: samples/s of each job on its requested GPUs, true ones; or believed ones, set before each look.
    """

    def __init__(self, predictor: WorkPredictor, workload: Workload, throughputs: Sequence[float]) -> None:
        self.predictor, self.workload, self.throughputs = predictor, workload, throughputs
        self.asked = 0, -1  # jobs submitted and ended when the predictor was asked last
        self.run_times: dict[JobId, list[Seconds]] = {}

    def look(self, num_submitted: int, done: dict[JobId, Samples]) -> None:
        """Ask the predictor if a job was submitted or has ended; `done` has the jobs in the system, ascending.

        Raises:
            MurmurationError: the predictor returns something else than ascending run times.
        """
        asked = num_submitted, num_submitted - len(done)
        if asked == self.asked:
            return
        self.asked = asked
        ended = {job: self.workload.spec(job).work for job in range(num_submitted) if job not in done}
        found = np.asarray(self.predictor.predict(self._facts(done), self._facts(ended)), np.float64)
        if found.shape != (len(done), NUM_OUTCOMES):
            raise MurmurationError(
                f"predictor: returned run times of shape {found.shape}; it must be ({len(done)}, {NUM_OUTCOMES})"
            )
        for job, run_times in zip(done, found.tolist(), strict=True):
            if run_times != sorted(run_times) or not all(0 <= seconds < math.inf for seconds in run_times):
                raise MurmurationError("predictor: run times must be finite, not negative and ascending in each row")
            self.run_times[job] = [max(seconds, SHORTEST) for seconds in run_times]

    def work(self, job: JobId) -> list[Samples]:
        """The amounts of work, in ascending order, of which each is as likely; 0 before the predictor was asked."""
        return [seconds * self.throughputs[job] for seconds in self.run_times.get(job, [0.0] * NUM_OUTCOMES)]

    def left(self, job: JobId, done: Samples) -> list[Samples]:
        """The remaining part of these amounts; a job that has outlived them all needs as much again."""
        return [work - done for work in self.work(job) if work > done] or [done]

    def outcomes_left(self, job: JobId, done: Samples) -> FloatArray:
        """float64[NUM_OUTCOMES]: what is left of each amount; NaN for those that are ruled out."""
        left = [work - done if work > done else math.nan for work in self.work(job)]
        if all(math.isnan(amount) for amount in left):
            left[0] = done
        return np.array(left)

    def _facts(self, done: dict[JobId, Samples]) -> JobFacts:
        """What is known of some jobs, which have done so many samples."""
        jobs, specs = self.workload, [self.workload.spec(job) for job in done]
        return JobFacts(
            np.array([spec.submit_time for spec in specs], np.float64),
            np.array([spec.num_gpus for spec in specs], np.int64),
            np.array([plain_model(spec.model) for spec in specs], str),
            np.array([spec.tenant for spec in specs], str),
            np.array([jobs.users[job] if jobs.users else "" for job in done], str),
            np.array([jobs.names[job] if jobs.names else "" for job in done], str),
            np.array([samples / self.throughputs[job] for job, samples in done.items()], np.float64),
        )


def believed_alone(table: ReferenceTable, model: int, num_gpus: int) -> float:
    """Believed samples/s on the requested GPUs of the fastest type; the model's highest where no type has so many."""
    by_size = table.reference()[model].tolist()
    return by_size[min(num_gpus, table.size)] or max(by_size) or 1.0
