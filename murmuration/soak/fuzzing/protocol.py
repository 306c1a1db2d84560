"""Changed messages to schedulers behind the protocol, from clusters that otherwise behave.

Each session is a small cluster that submits jobs, follows the decisions and reports throughputs. One message in three
is changed: values, events, bytes or their order. A refused session is followed by another one with the same jobs.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from baselines import Afs, Fifo, Gavel, HeSrpt, Las, Optimus, Packing, Sia, Srtf, Starling, Themis, Tiresias
from deployment.messages import (
    Beginning,
    read_decision,
    read_message,
    read_round,
    write_beginning,
    write_error,
    write_round,
)
from deployment.service import Session
from deployment.state import ClusterState, Decision, JobState
from envs.scheduling import Scheduler
from envs.simulation import Information, Scenario, Setup
from envs.types import ClusterSpec, Configuration, JobSpec, MurmurationError, NodeSpec, Placement
from murmuration.config.errors import RunFailedError
from murmuration.soak.fuzzing.changes import change_value, spoil_bytes
from murmuration.soak.fuzzing.count import FuzzCount

CHANGED = 0.36  # of the messages; some changes are none
MOST_SUBMITTED = 12  # jobs of a cluster; then another one begins
MOST_OPEN = 8
DEEP = "nested too deeply"  # is replaced by so many brackets
BRACKETS = 100_000
ALONE = (Fifo, Tiresias, Srtf, Sia, Gavel, Optimus, Afs, Starling, Las, HeSrpt, Themis)
SCHEDULERS: Mapping[str, Callable[[], Scheduler]] = {each.__name__.lower(): each for each in ALONE} | {
    "starling_packed": lambda: Packing(Starling()),
    "tiresias_packed": lambda: Packing(Tiresias()),
}
ODD: tuple[Any, ...] = (None, True, -1, 0, 1, 3, 9, 2**31, 2**63, 2**70, 10**400, 0.5, -0.0, 1e-308, 1e30, 1e308)
ODD += (float("nan"), float("inf"), "", "1", "no", "\x00", "\x1b[2J", "\ud800", "[/x]", "a" * 5000, [], {}, [[]], DEEP)
ODD += ({"gpus": {"0": 1}}, {"gpus": {"0": 1024}}, {"gpus": {"999999999": 1}}, {"0": -1}, [0.0] * 3, [{"job_id": 0}])


@dataclass(frozen=True)
class Workshop:
    """Less than linear scaling on two GPU types; "large" does not run on the slow one."""

    models: tuple[str, ...] = ("small", "large")

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples/s."""
        alone = {"fast": 2.0, "slow": 0.0 if model == "large" else 1.0}[configuration.gpu_type]
        return float(alone * configuration.num_gpus**0.8 * (0.9 if configuration.num_nodes > 1 else 1.0))

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        """Return the fraction of its throughput that a job keeps beside another."""
        return 0.0 if model == other == "large" else 0.7


@dataclass
class Cluster:
    """A cluster that behaves: its jobs, and what they hold.

    Attributes:
        rng: of everything that happens.
        nodes: the nodes.
        observed: whether jobs report throughputs.
        time: seconds.
        specs: all jobs that were submitted.
        done: GPU-seconds of completed jobs.
        held: placements of running jobs.
        down: nodes out of service.
    """

    rng: np.random.Generator
    nodes: ClusterSpec
    observed: bool
    time: float = 0.0
    specs: list[JobSpec] = field(default_factory=list)
    done: dict[int, float] = field(default_factory=dict)
    held: dict[int, Placement] = field(default_factory=dict)
    down: frozenset[int] = frozenset()

    @classmethod
    def draw(cls, rng: np.random.Generator, *, observed: bool) -> "Cluster":
        """Return a cluster of two to four nodes without jobs."""
        gpu_types = ["fast", *rng.choice(["fast", "slow"], int(rng.integers(1, 4))).tolist()]
        nodes = tuple(NodeSpec(gpu_type, int(rng.choice([2, 4]))) for gpu_type in gpu_types)
        return cls(rng, ClusterSpec(nodes, "fuzzed"), observed)

    def begin(self) -> bytes:
        """Return the first message."""
        return write_beginning(Beginning(self.nodes, ("small", "large"), ("", "a"), self.nodes.num_gpus, None))

    def go_on(self, *, again: bool) -> ClusterState:
        """Let time pass, and return the next state; all jobs are new `again` where a new session begins."""
        rng, told = self.rng, 0 if again else len(self.specs)
        self.time += float(rng.exponential(20.0))
        ended = {job: self.time for job in list(self.held) if rng.random() < 0.15}
        for job in ended:
            self._take(job)
        self.done |= ended
        least = 0 if len(self.done) < len(self.specs) else 1
        for _ in range(int(rng.integers(least, 3)) if len(self.specs) - len(self.done) < MOST_OPEN else least):
            self.specs.append(self._draw_job(len(self.specs)))
        self.down = frozenset({int(rng.integers(self.nodes.num_nodes))} if rng.random() < 0.1 else ())
        for job in [job for job, placement in self.held.items() if self.down & set(placement.gpus)]:
            self._take(job)
        states = tuple(self._state(spec.id) for spec in self.specs if spec.id not in self.done)
        return ClusterState(self.time, tuple(self.specs[told:]), dict(self.done if again else ended), self.down, states)

    def _take(self, job: int) -> None:
        """Take a job off its GPUs, which its guest keeps for itself."""
        for other, placement in self.held.items():
            if placement.beside == job:
                self.held[other] = Placement(placement.gpus)
        self.held.pop(job, None)

    def _draw_job(self, job: int) -> JobSpec:
        rng, fast = self.rng, self.nodes.gpus_by_type["fast"]
        gpus = int(rng.integers(1, fast + 1))
        least, most = (1, int(rng.integers(gpus, self.nodes.num_gpus + 1))) if rng.random() < 0.5 else (0, 0)
        model, tenant = str(rng.choice(["small", "large"])), str(rng.choice(["", "a"]))
        return JobSpec(job, self.time, gpus, float(rng.uniform(10, 1e4)), model, least, most, tenant=tenant)

    def _state(self, job: int) -> JobState:
        reported = float(self.rng.lognormal()) if self.observed and job in self.held else float("nan")
        left = float(self.rng.uniform(0, self.specs[job].work))
        return JobState(job, self.held.get(job), float(self.rng.uniform(0, 1e5)), left, throughput=reported)

    def follow(self, decision: Decision) -> None:
        """Do what the scheduler has decided."""
        for job in decision.placements:
            self._take(job)
        self.held |= {job: placement for job, placement in decision.placements.items() if placement}


def find_illegal(nodes: ClusterSpec, specs: Mapping[int, JobSpec], state: ClusterState, decision: Decision) -> str:
    """Return what is wrong with a decision, by a count of GPUs of its own; empty if nothing is."""
    after = {each.job: each.placement for each in state.jobs}
    for job in decision.placements:
        if job not in after:
            return f"job {job} is not open"
    after |= decision.placements
    used: Counter[int] = Counter()
    for job, placement in after.items():
        if placement is None:
            continue
        if not specs[job].min_gpus <= placement.num_gpus <= specs[job].max_gpus:
            return f"job {job} gets {placement.num_gpus} GPUs"
        owner = after.get(placement.beside) if placement.beside is not None else None
        if owner is None or owner.beside is not None or owner.gpus != placement.gpus:
            used.update(placement.gpus)
            if placement.beside is not None and job in decision.placements:
                return f"job {job} is beside a job that holds other GPUs"
    for node, count in used.items():
        if count > (0 if node in state.down else nodes.nodes[node].num_gpus):
            return f"node {node} has too few GPUs"
    return "" if decision.next_decision > state.time else "the next decision lies in the past"


def change(rng: random.Random, line: bytes, earlier: bytes) -> bytes:
    """Return a changed message.

    Args:
        rng: draws the change.
        line: the message.
        earlier: an earlier one of the same session.
    """
    how = rng.random()
    if how < 0.8:
        document = json.loads(line)
        for _ in range(rng.randint(1, 2)):
            document = change_value(rng, document, ODD)
        text = json.dumps(document).encode()
        return text.replace(json.dumps(DEEP).encode(), b"[" * BRACKETS + b"]" * BRACKETS) + b"\n"
    if how < 0.85:
        events = json.loads(line)
        rng.shuffle(events["events"])
        return json.dumps(events | {"now": events["now"] * rng.random()}).encode() + b"\n"
    if how < 0.9:
        return earlier if rng.random() < 0.7 else write_error(0.0, "no")
    return spoil_bytes(line, rng)


def fuzz_protocol(inputs: int, seed: int) -> FuzzCount:
    """Send messages to schedulers, a third of them changed.

    Args:
        inputs: messages.
        seed: of everything.

    Raises:
        RunFailedError: an honest message was refused, a changed one ended in another error than a refusal of one line,
            an answer took too long, or an order was illegal.
    """
    count, made = FuzzCount("protocol"), list(SCHEDULERS)
    for number in range(inputs):  # of sessions, as far as they are needed
        if count.inputs >= inputs:
            break
        rng = np.random.default_rng((seed, number))
        name, observed = made[number % len(made)], bool((number + number // len(made)) % 2)
        scenario = Scenario(
            information=Information("exact", throughput="observed" if observed else "exact"),
            batch_sizes="usual" if observed else "chosen",
            sharing="pairs" if name.endswith("_packed") else "off",
        )
        setup = Setup(ClusterSpec((NodeSpec("fast", 4),)), Workshop(), scenario)
        cluster = Cluster.draw(rng, observed=observed)
        while len(cluster.specs) < MOST_SUBMITTED and count.inputs < inputs:
            play_session(count, number, Session(SCHEDULERS[name](), setup), cluster, inputs)
    return count


def play_session(count: FuzzCount, seed: int, session: Session, cluster: Cluster, most: int) -> None:
    """Play one session until it is refused, until a changed message, or until there are enough messages.

    Args:
        count: of the messages.
        seed: names the session in errors.
        session: with a scheduler.
        cluster: goes on from where it is.
        most: messages of the count.
    """
    specs: dict[int, JobSpec] = {}
    sent, changed, begun = [cluster.begin()], False, False
    while count.inputs < most and not changed and len(cluster.specs) < MOST_SUBMITTED:
        state = cluster.go_on(again=not specs) if begun else None
        honest = write_round(state) if state is not None else sent[0]
        changed = bool(cluster.rng.random() < CHANGED)
        draws = random.Random(int(cluster.rng.integers(2**62)))
        line = change(draws, honest, draws.choice(sent)) if changed else honest
        changed = line != honest
        sent.append(line)
        answers: list[Decision] = []
        read = partial(answer, session, line, cluster.nodes, specs, answers, begun=begun, honest=not changed)
        count.check(seed, read, changed=changed)
        if changed or not answers:
            return
        if begun:
            cluster.follow(answers[0])
        begun = True


def answer(
    session: Session,
    line: bytes,
    nodes: ClusterSpec,
    specs: dict[int, JobSpec],
    answers: list[Decision],
    *,
    begun: bool,
    honest: bool,
) -> None:
    """Ask a session, and check its answer.

    Args:
        session: the session.
        line: the message.
        nodes: of the cluster.
        specs: jobs by id; those that the message submits are added.
        answers: takes the decision.
        begun: whether the session has begun.
        honest: whether the message is as it should be.

    Raises:
        RunFailedError: an honest message was refused, or an order is illegal.
        MurmurationError: a changed message was refused.
    """
    try:
        found = read_decision(read_message(session.answer(line), "answer")[1])
    except MurmurationError as error:
        if honest:
            raise RunFailedError(f"an honest message was refused: {error}") from error
        raise
    if begun:
        state = read_round(*read_message(line, "message"))
        specs |= {spec.id: spec for spec in state.submitted}
        wrong = find_illegal(nodes, specs, state, found)
        if wrong:
            raise RunFailedError(f"an illegal order: {wrong}; {found}")
    answers.append(found)
