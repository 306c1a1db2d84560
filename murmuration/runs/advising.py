"""Schedulers that advise a Slurm cluster."""

import itertools
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from deployment.adapter import ActionRefusedError
from deployment.advising import Adviser, foresee
from deployment.bridge import JOURNAL
from deployment.history import ClusterHistory, ObservedJob, StandIn
from deployment.journal import REFUSED, Journal
from deployment.played import RoundFailedError
from deployment.slurm.adapter import SlurmAdapter
from deployment.slurm.observing import observe_queue
from deployment.slurm.rest import find_adapter
from envs.scheduling import Scheduler
from envs.types import as_line
from murmuration.config.descriptions import AdviceRun
from murmuration.config.errors import RunFailedError
from murmuration.config.inputs import build_inputs
from murmuration.runs.deploying import claim_cluster
from murmuration.runs.films import find_actor
from murmuration.runs.watching import Look, RepeatedFailures, live_looks, say

PATIENCE = 5  # tries to set values back at the end, a second apart


def advise_cluster(run: AdviceRun, folder: Path) -> None:
    """Advise a cluster until it is interrupted, and set all values back; first those of an adviser that was killed.

    Raises:
        ChoiceError: not one scheduler is chosen.
        MurmurationError: the cluster has other nodes than the setup.
        ProtocolError: another process has the journal.
        ClusterTakenError: a bridge, or another adviser, has claimed the cluster.
        ActionRefusedError: Slurm does not answer at the beginning.
        RunFailedError: values could not be set back.
    """
    adapter = find_adapter(run.rest)
    if not run.act and not run.restore:
        with _interrupted_by_signals(), closing(Journal(folder / JOURNAL)) as journal:
            _advise(run, adapter, journal, Adviser(adapter, journal, run.changes_per_minute, act=False))
        return
    state = Path(run.state)
    state.mkdir(parents=True, exist_ok=True)
    with _interrupted_by_signals(), closing(Journal(state / JOURNAL)) as journal, claim_cluster(adapter, state):
        adviser = Adviser(adapter, journal, run.changes_per_minute, act=True)
        restore_values(adviser, adapter)
        if not run.restore:
            _advise(run, adapter, journal, adviser)


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _advise(run: AdviceRun, adapter: SlurmAdapter, journal: Journal, adviser: Adviser) -> None:
    """Advise until the looks end or the user interrupts."""
    setup = build_inputs(run.problem).setup
    setup = replace(setup, scenario=replace(setup.scenario, preemption="never"))  # Slurm stops no job for this
    rounds = AdviceRounds(find_actor(run), StandIn(setup, run.model), adviser, journal, run.ahead)
    print(f"advising {setup.cluster.num_nodes} nodes with {setup.cluster.num_gpus} GPUs; Ctrl-C ends", flush=True)
    try:
        for look in itertools.islice(live_looks(adapter, setup.cluster, run.interval, rounds.left_out), run.looks):
            say([(look.now, line) for line in rounds.take(look)])
    finally:
        restore_values(adviser, adapter)
        print(rounds)


class AdviceRounds:
    """Rounds of advice; their text is the last line: what was done.

    Args:
        scheduler: whose order is followed.
        stand_in: describes jobs to it.
        adviser: carries the order out.
        journal: takes what fails.
        ahead: rounds for which the scheduler is asked.

    Attributes:
        left_out: why a job is not shown to the scheduler, by its name.
    """

    def __init__(self, scheduler: Scheduler, stand_in: StandIn, adviser: Adviser, journal: Journal, ahead: int) -> None:
        self._scheduler, self._stand_in, self._adviser, self._ahead = scheduler, stand_in, adviser, ahead
        self._journal = journal
        self._looks, self._failed = RepeatedFailures("look", journal), RepeatedFailures("round", journal)
        self._seen: object = None
        self._order: Sequence[str] = ()
        self._told, self._num = 0, 0
        self.left_out: dict[str, str] = {}

    def take(self, look: Look) -> list[str]:
        """Advise on what is seen; return what is to be said."""
        if look.failed:
            return self._looks.fail(look.failed)
        said = self._looks.work()
        seen = look.down, {(job.name, job.gpus is None, job.eligible) for job in look.jobs if not job.ended}
        if seen != self._seen:
            history = ClusterHistory(self._stand_in)
            history.look(look.now, look.jobs, look.down)
            self.left_out |= {name: why for name, why in history.left_out.items() if name not in self.left_out}
            try:
                self._order = foresee(self._scheduler, history, self._ahead)
            except RoundFailedError as error:
                return [*said, *self._failed.fail(str(error))]
            said += self._failed.work()
            self._seen, self._num = seen, self._num + 1
        said += self._adviser.advise(look.jobs, self._order, time.monotonic())
        return [*said, *self._left_out()]

    def _left_out(self) -> list[str]:
        """Write and return why jobs are left out, once for each."""
        new = list(self.left_out.items())[self._told :]
        self._told += len(new)
        for name, why in new:
            self._journal.write(REFUSED, "read", job=name, why=why)
        return [f"{why}; left out" for _, why in new]

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self._journal.counts.items())) or "nothing done"
        return f"{self._num} orders asked for; {counts}: {as_line(str(self._journal.path))}"


def restore_values(adviser: Adviser, adapter: SlurmAdapter) -> None:
    """Set all values of an adviser back, and say so.

    Raises:
        RunFailedError: some could not be set back, `PATIENCE` times.
    """
    told: set[str] = set()
    for _ in range(PATIENCE):
        if not adviser.changed:
            return
        try:
            said = adviser.restore(_present(adapter))
        except ActionRefusedError as error:
            said = [str(error)]
        say([(time.time(), line) for line in said if line not in told])
        told.update(said)
        if adviser.changed:
            time.sleep(1.0)
    if adviser.changed:
        names = as_line(", ".join(sorted(adviser.changed)))
        raise RunFailedError(f"nice of the jobs {names} is not set back; lines above say why; try restore=true")


def _present(adapter: SlurmAdapter) -> Sequence[ObservedJob]:
    nodes = [node.name for node in adapter.nodes()]
    return observe_queue(adapter.queue(), nodes, {})
