"""The trainer: stages before a method, the method's iterations, validation, checkpoints, resume. It knows no method."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from agents.curves import LearningCurve, learning_curves
from agents.goal import Goal
from agents.listener import TrainingListener
from agents.loggers import Loggers, open_loggers
from agents.method import Algorithm, Method, Stage, check_pairing
from agents.pictures import picture_episode
from agents.problems.objective import EpisodeObjective
from agents.problems.problem import Compared, TaskFigures, TrainingProblem, ValidationScope
from agents.saving import BEST, SavedStates, best_on_disk, read_state, refusing_writes
from agents.seeding import Phase, derive_seed
from agents.tags import BOUND_LINE, ENV_STEPS, GAIN, HEADLINE, IMITATION, PROGRESS, WORKER_SECONDS
from agents.validation import (
    PLANNER,
    VALIDATION_SEED,
    ValidationFigures,
    audit_training_episode,
    best_of,
    choose_levels,
    mean_bound,
    validate_baselines,
    validate_in_worlds,
    with_ratios,
)
from envs.evaluation.files import write_whole
from envs.evaluation.playing import workload_seed
from envs.scheduling import Scheduler
from envs.types import CheckpointError, MurmurationError
from envs.types.units import HOUR

STATE, STATES = "state.json", "checkpoints/states"
POOR = 1.5  # an imitating policy with this multiple of its teacher's mean JCT has not learnt it
Baselines = Mapping[str, Callable[[], Scheduler]]


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of a training run.

    Attributes:
        method: how the policy is improved, such as `agents.methods.evolution.EvolutionSettings`.
        iterations: of the method.
        validate_every: iterations between validations; each writes checkpoints.
        save_every: iterations between states from which a run can be resumed; validated iterations are saved, too.
        num_validation: distinct workloads of each task's validation split, each as long as a training episode.
        num_compared: the first of these, of the first task, on which the baselines are played too; None for all. Only
            policies that bid may be validated on more.
        num_threads: of torch.
        picture_every: iterations between pictures of a validation episode for TensorBoard; 0 for none.
        teacher: name of a baseline to imitate first, "best" for the best in validation, or "none" for a start from
            nothing.
        imitation: how it is imitated; None where there is no teacher.
        minutes: on the clock after which the method ends before its last iteration; None for no limit.
        objective: what policies that bid are to maximise, and by which their checkpoints are compared; None for
            `LogMerit`. Where the environment has a reward of its own, scripts take its return instead.
    """

    method: Method
    iterations: int = 30
    validate_every: int = 5
    save_every: int = 1
    num_validation: int = 8
    num_compared: int | None = None
    num_threads: int = 1
    picture_every: int = 10
    teacher: str = "none"
    imitation: Stage | None = None
    objective: EpisodeObjective | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.picture_every < 0:
            raise MurmurationError(f"trainer.picture_every is {self.picture_every}; it must not be negative")
        least = min(self.validate_every, self.save_every, self.num_validation, self.num_threads)
        if self.iterations < 0 or least < 1:
            raise MurmurationError(
                "trainer: iterations must not be negative; validate_every, save_every, num_validation and num_threads "
                "at least 1"
            )
        if self.num_compared is not None and self.num_compared < 1:
            raise MurmurationError(f"trainer.num_compared is {self.num_compared}; it must be at least 1, or null")
        if self.minutes is not None and not self.minutes > 0:
            raise MurmurationError(f"trainer.minutes is {self.minutes}; it must be above 0, or null for no limit")
        if self.teacher != "none" and self.imitation is None:
            raise MurmurationError(
                f"trainer.teacher is {self.teacher!r}, but trainer.imitation is not set; choose trainer=imitation, or "
                "trainer.teacher=none"
            )


@dataclass
class TrainingState:
    """Progress of a run, part of every saved state.

    Attributes:
        seed: of the run.
        iteration: iterations so far.
        teacher: the baseline that was imitated, or "none".
        baselines: figures of the baselines, by name.
        validation: figures of the policy, by iteration and task.
        best_iteration: of the best validation; -1 before the first.
        objective: what a sweeper minimises, of the best validation; None before the first.
        num_validation: distinct workloads over which these figures are means.
        makespan_share, relative: of the `Goal` by which policies and baselines are compared.
        num_episodes: training episodes of an iteration; 0 where it has no fixed number.
        cpu_time: of each iteration without validation, in s, with that of its workers on Ray.
        progress: what training has cost so far, by the names of `agents.tags.AXES`, with imitation, without validation.
        fresh: figures of the best policy on workloads that did not choose it, by task.
    """

    seed: int
    iteration: int = 0
    teacher: str = "none"
    baselines: dict[str, ValidationFigures] = field(default_factory=dict)
    validation: dict[str, TaskFigures] = field(default_factory=dict)
    best_iteration: int = -1
    objective: float | None = None
    num_validation: int = 0
    makespan_share: float = 0.0
    relative: bool = False
    num_episodes: int = 0
    cpu_time: list[float] = field(default_factory=list, compare=False)
    progress: dict[str, float] = field(default_factory=dict, compare=False)
    fresh: TaskFigures = field(default_factory=dict)

    @property
    def latest(self) -> TaskFigures:
        """The figures of the last validation."""
        return self.validation[max(self.validation, key=int)]

    def add_cost(self, **costs: float) -> None:
        """Add to `progress`."""
        for name, value in costs.items():
            self.progress[name] = self.progress.get(name, 0.0) + value

    def progress_scalars(self) -> dict[str, float]:
        """Return `progress` by tag."""
        return {f"{PROGRESS}/{name}": value for name, value in self.progress.items()}


def measure_baselines(
    baselines: Baselines, compared: Sequence[Compared], goal: Goal, listener: TrainingListener
) -> dict[str, ValidationFigures]:
    """Return the figures of every baseline that can run in this scenario, by name, and report which cannot."""
    listener.phase("baselines", len(baselines))
    count = iter(range(1, len(baselines) + 1))

    def tell(name: str, refusal: str) -> None:
        listener.step(next(count), {})
        if refusal:
            listener.note(f"{name} is skipped: {refusal}")

    if goal.relative:
        worlds = {each.name: (each.setup, each.workloads) for each in compared}
        return validate_in_worlds(baselines, worlds, goal, tell)
    return validate_baselines(baselines, compared[0].setup, compared[0].workloads, tell)


class Trainer:
    """One training run in one folder.

    The folder receives `checkpoints/best` and `checkpoints/last` (weights and description), `checkpoints/states` (the
    last few iterations, to resume), `state.json` (progress, for readers) and what the loggers write.

    Args:
        problem: what is trained: environment, tasks and network.
        settings: the method, and the length of the run.
        baselines: makers of schedulers by name, as teachers and for comparison. They are arguments because `agents`
            does not import baselines.
        folder: folder of the run.
        seed: seed of all random draws. One seed gives one result, and a resumed run gives that of an uninterrupted
            one, to the bit, in this process and on Ray's workers.
        listener: receives reports on progress.
        start: weights by name with which training begins; None for fresh ones.
        loggers: receive the curves; None for TensorBoard's files in the folder.

    Raises:
        MurmurationError: method, network and environment do not belong together, or there is no such teacher.
    """

    def __init__(
        self,
        problem: TrainingProblem,
        settings: TrainingSettings,
        baselines: Baselines,
        folder: Path,
        seed: int,
        listener: TrainingListener,
        start: Mapping[str, Tensor] | None = None,
        loggers: Loggers | None = None,
    ) -> None:
        check_pairing(settings.method, problem)
        if settings.teacher not in ("best", "none", *baselines):
            raise MurmurationError(
                f"trainer.teacher is {settings.teacher!r}; it must be best, none or one of {', '.join(baselines)}"
            )
        if settings.imitation is not None and settings.teacher != "none":
            check_pairing(settings.imitation, problem)
        self.problem, self.settings, self.baselines = problem, settings, baselines
        self.folder, self.listener, self.start = folder, listener, start
        self.state = TrainingState(seed)
        self.measured: Mapping[str, ValidationFigures] = {}  # of baselines, by another run on the same workloads
        self.saved = SavedStates(folder / STATES)
        self.loggers = open_loggers(["tensorboard"], folder, listener.note) if loggers is None else loggers

    def run(self) -> TrainingState:
        """Train to the end, or resume from the folder's newest undamaged state.

        Raises:
            NetworkError: the network breaks its protocol; nothing has been started.
            CheckpointError: the states of an earlier run are all damaged, or the disk is full; the run can be resumed
                from the states before.
            ImpossibleResultError: an audited episode contradicts its event log.
        """
        settings = self.settings
        torch.set_num_threads(settings.num_threads)
        self.problem.check()
        torch.manual_seed(self.state.seed)
        resumed = self._restore()
        scope = ValidationScope(settings.num_validation, settings.num_compared, settings.method.num_envs)
        with closing(self.loggers):
            found = self.problem.prepare(scope, self.listener)
            goal = self.problem.goal
            self.state.makespan_share, self.state.relative = goal.makespan_share, goal.relative
            self._accept(found, resumed)
            self._compare(anew=resumed is None)
            network = self.problem.build(self.state.seed, self.start)
            if resumed is None:
                self._imitate(network)
            algorithm = settings.method.start(self.problem, network, self.state.seed)
            self.state.num_episodes = settings.method.num_episodes
            try:
                if resumed:
                    algorithm.restore(resumed)
                    self.listener.note(f"resumed after iteration {self.state.iteration}")
                else:
                    self._validate(algorithm)
                    self._save(algorithm)
                self._improve(algorithm)
                if self.start is not None and self.state.best_iteration == 0:
                    self.listener.note("no checkpoint is ahead of the policy that training began with, which is kept")
                self._validate_anew()
            finally:
                algorithm.stop()
        return self.state

    def measure(self) -> dict[str, ValidationFigures]:
        """Return the figures of the baselines, which other training seeds can take as `measured`; train nothing."""
        resumed = self.saved.intact(self.listener.note, self.folder / STATE)
        if resumed is not None:
            return read_state(resumed / STATE, TrainingState).baselines
        settings = self.settings
        scope = ValidationScope(settings.num_validation, settings.num_compared, settings.method.num_envs)
        self.problem.prepare(scope, self.listener)
        return measure_baselines(self.baselines, self.problem.compared(), self.problem.goal, self.listener)

    @property
    def _imitates(self) -> bool:
        stage = self.settings.imitation
        return self.settings.teacher != "none" and stage is not None and not stage.is_off

    def _accept(self, found: int, resumed: Path | None) -> None:
        """Keep the number of validation workloads.

        Raises:
            CheckpointError: a resumed run had another one.
        """
        if resumed and self.state.num_validation != found:
            raise CheckpointError(
                f"{resumed}: was validated on {self.state.num_validation} workloads, this run would use {found}; keep "
                "trainer.num_validation and the workload, or start a new run"
            )
        self.state.num_validation = found

    def _compare(self, *, anew: bool) -> None:
        """Measure the baselines; draw those that the policy is to pass, and the bound, as horizontal lines."""
        compared, goal = self.problem.compared(), self.problem.goal
        if anew:
            known = {name: self.measured[name] for name in self.baselines if name in self.measured}
            others = {name: make for name, make in self.baselines.items() if name not in known}
            played = {**known, **measure_baselines(others, compared, goal, self.listener)}
            self.state.baselines = with_ratios(played) if goal.relative else played
            self._choose_teacher(sum(len(each.workloads) for each in compared))
        last, known = self.settings.iterations, self.state.baselines
        # From random weights, a policy passes one baseline after the other. One that bids begins beside the best.
        passes_all = self.state.teacher == "none" and self.problem.metric != GAIN
        for name in known if passes_all else choose_levels(known, goal, self.state.teacher, PLANNER):
            self.loggers.draw_level(self.problem.level(known[name]), last, name)
        if self.problem.metric == HEADLINE:
            bound = mean_bound(compared[0].setup, compared[0].workloads)
            self.loggers.draw_level({HEADLINE: bound / HOUR}, last, BOUND_LINE)

    def _choose_teacher(self, found: int) -> None:
        """Settle which baseline is imitated, and report the best one."""
        self.state.teacher = self.settings.teacher
        if not self.state.baselines and self.state.teacher == "none":
            return
        best = best_of(self.state.baselines, self.problem.goal)
        if self.state.teacher == "best":
            self.state.teacher = best
        figures = self.state.baselines[best]
        undone = f", {figures['num_starved']:.3g} jobs starved" if figures["num_starved"] else ""
        self.listener.note(
            f"best baseline on {found} validation workload{'s' * (found > 1)}: {best}, {self.problem.goal} "
            f"{self.problem.goal.said(self.problem.goal.cost(figures))}{undone}; teacher: {self.state.teacher}"
        )

    def _imitate(self, network: nn.Module) -> None:
        stage = self.settings.imitation
        if stage is None or not self._imitates:
            return
        self.listener.phase(stage.name, 1)
        began, cpu = time.perf_counter(), time.process_time()

        def progress(done: int, total: int, figures: Mapping[str, float]) -> None:
            learnt = {f"imitation/{name}": value for name, value in figures.items() if name != "env_steps"}
            self.state.add_cost(env_steps=figures.get("env_steps", 0.0))
            self.listener.step(done, {"total": total, **learnt})
            self.loggers.write(learnt, done, IMITATION)

        stage.run(self.problem, network, self.baselines[self.state.teacher], self.state.seed, progress)
        self.state.add_cost(cpu_seconds=time.process_time() - cpu, wall_seconds=time.perf_counter() - began)

    def _improve(self, algorithm: Algorithm) -> None:
        settings, state = self.settings, self.state
        self.listener.phase(settings.method.name, settings.iterations)
        end = time.perf_counter() + 60 * (math.inf if settings.minutes is None else settings.minutes)
        while state.iteration < settings.iterations:
            began, cpu = time.perf_counter(), time.process_time()
            figures = algorithm.train()
            state.iteration += 1
            spent = time.perf_counter() - began
            cpu_spent = time.process_time() - cpu + figures.get(WORKER_SECONDS, 0.0)
            state.cpu_time.append(cpu_spent)
            state.add_cost(cpu_seconds=cpu_spent, wall_seconds=spent)
            figures["throughput/cpu_seconds"] = cpu_spent
            if ENV_STEPS in figures:
                state.add_cost(env_steps=figures[ENV_STEPS])
                figures["throughput/steps_per_second"] = figures[ENV_STEPS] / spent
            self.loggers.write({**figures, **state.progress_scalars()}, state.iteration)
            is_last = state.iteration == settings.iterations or time.perf_counter() > end
            validates = state.iteration % settings.validate_every == 0 or is_last
            if validates:
                self._validate(algorithm)
            if validates or state.iteration % settings.save_every == 0:
                self._save(algorithm)
            self.listener.step(state.iteration, {**figures, **self.problem.standing(state.latest, state.baselines)})
            if is_last:
                break

    def _validate(self, algorithm: Algorithm) -> None:
        network, state = algorithm.network(), self.state
        figures, scalars = self.problem.validate(network, state.baselines)
        world = self.problem.world(network, state.iteration)
        sample = derive_seed(state.seed, Phase.AUDIT, state.iteration)
        audit_training_episode(world.scheduler, world.setup, world.source, sample)
        if state.iteration == 0:
            self._compare_with_teacher(figures)
            state.add_cost(env_steps=0.0, cpu_seconds=0.0, wall_seconds=0.0)
            scalars = {**scalars, **state.progress_scalars()}
        best = self.problem.rank(state.validation[str(state.best_iteration)]) if state.best_iteration >= 0 else None
        state.validation[str(state.iteration)] = figures
        self.loggers.write(scalars, state.iteration)
        self._tell_passed(figures)
        self._picture(network)
        self.loggers.flush()
        if best is None or self.problem.rank(figures) > best:
            state.best_iteration, state.objective = state.iteration, self.problem.objective_of(figures)
            with refusing_writes(self.folder):
                self.problem.checkpoint(network, self._notes()).save(self.folder / BEST)

    def _tell_passed(self, figures: TaskFigures) -> None:
        """Report the cost of a policy that learns from nothing, and which baselines it has passed."""
        state, goal = self.state, self.problem.goal
        standing = self.problem.standing(figures, state.baselines)
        cost = standing.get("ratio", standing.get("validated"))
        if cost is None or state.teacher != "none" or not state.baselines:
            return
        known = {name: goal.cost(own) for name, own in state.baselines.items()}
        order = sorted(known, key=lambda name: -known[name])
        passed = [name for name in order if known[name] > cost]
        text = f"{sum(state.cpu_time):,.0f} CPU-s: {goal} {goal.said(cost)}, passed: {', '.join(passed) or 'none'}"
        ahead = order[len(passed) :]
        self.listener.note(f"{text}; next: {ahead[0]} ({goal.said(known[ahead[0]])})" if ahead else text)

    def _picture(self, network: nn.Module) -> None:
        """Write the learning curve, and every `picture_every` iterations and at the end, a validation workload."""
        if self.problem.metric == GAIN:
            curve = LearningCurve(self.state.validation, self.state.num_episodes, self.state.cpu_time)
            self.loggers.show({"learning_curve": learning_curves({f"seed {self.state.seed}": curve})}, 0)
        every, now = self.settings.picture_every, self.state.iteration
        if every and (now % every == 0 or now == self.settings.iterations):
            world, first = self.problem.world(network, 0), self.problem.compared()[0].workloads[0]
            seed = workload_seed(VALIDATION_SEED, 0)
            self.loggers.show(picture_episode(world.scheduler, first, world.setup, seed), now)

    def _compare_with_teacher(self, student: TaskFigures) -> None:
        """Report that imitation has not learnt its teacher: not every allocation follows from the observation."""
        teacher, own = self.state.baselines.get(self.state.teacher), next(iter(student.values()))
        if teacher and self._imitates and own["mean_jct"] > POOR * teacher["mean_jct"]:
            self.listener.note(
                f"imitation has not learnt {self.state.teacher}: the policy's mean JCT is {own['mean_jct']:,.0f} s, "
                f"the teacher's {teacher['mean_jct']:,.0f} s; try another trainer.teacher or more "
                "trainer.imitation.num_workloads"
            )

    def _validate_anew(self) -> None:
        """Validate the best checkpoint on workloads that did not choose it."""
        if self.state.best_iteration < 0:
            return  # removed, and nothing was validated since
        self.state.fresh = self.problem.validate_anew(self.problem.load(self.folder / BEST), self.listener.note)
        with refusing_writes(self.folder):
            self._write_state(self.folder)

    def _notes(self) -> dict[str, object]:
        state = self.state
        return {
            "seed": state.seed,
            "iteration": state.iteration,
            "method": self.settings.method.name,
            "teacher": state.teacher,
            "tasks": list(self.problem.tasks),
            "validation": state.validation.get(str(state.iteration), {}),
            "num_validation": state.num_validation,
        }

    def _save(self, algorithm: Algorithm) -> None:
        """Save the resumable state."""

        def write(folder: Path) -> None:
            algorithm.save(folder)
            self._write_state(folder)

        with refusing_writes(self.folder):
            last = self.folder / "checkpoints" / "last"
            self.problem.checkpoint(algorithm.network(), self._notes()).save(last)
            self.saved.save(self.state.iteration, write)
            self._write_state(self.folder)

    def _write_state(self, folder: Path) -> None:
        write_whole(folder / STATE, json.dumps(asdict(self.state), indent=2) + "\n")

    def _restore(self) -> Path | None:
        """Read the progress of the newest undamaged state, and return its folder; None for a new run."""
        path = self.saved.intact(self.listener.note, self.folder / STATE)
        if path is None:
            return None
        self.state = read_state(path / STATE, TrainingState)
        self.state.best_iteration = best_on_disk(self.state.best_iteration, self.folder / BEST, self.listener.note)
        self.loggers.continue_after(self.state.iteration, self.state.progress)
        return path
