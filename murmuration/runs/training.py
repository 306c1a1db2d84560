"""Training runs built from descriptions. Needs torch and ray."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from agents.listener import TrainingListener
from agents.loggers import open_loggers
from agents.loggers.tensorboard import as_code
from agents.method import check_pairing
from agents.networks import Blueprint
from agents.policies import BiddingCheckpoint
from agents.policies.bid_checkpoint import is_bidding
from agents.policies.checkpoint import find_checkpoint
from agents.policies.options.checkpoint import OptionCheckpoint
from agents.problems.bids import BiddingTask, BidProblem
from agents.problems.objective import Return
from agents.problems.options import OptionProblem, OptionTask
from agents.problems.problem import TrainingProblem
from agents.training import STATE, Trainer, TrainingSettings, TrainingState
from agents.validation import ValidationFigures
from envs.bidding import BiddingSettings
from envs.options import OptionSettings
from envs.scheduling import Scheduler
from envs.simulation.seen.market import Market
from envs.types import CheckpointError
from murmuration.config.building import Component, build_object
from murmuration.config.descriptions import SeedRun
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import RunInputs, build_inputs, build_schedulers, find_worlds
from murmuration.config.provenance import add_provenance, checkpoint_hashes, trace_hashes
from murmuration.config.recall import find_folder


def build_trainer(run: SeedRun, folder: Path, listener: TrainingListener) -> Trainer:
    """Build the trainer of a seed.

    Raises:
        ChoiceError: an option that does not exist or has another type, or parts that do not belong together.
        MurmurationError: method, network and environment do not belong together.
    """
    settings, env = build_object(run.trainer), build_object(run.env)
    if not isinstance(settings, TrainingSettings):
        raise ChoiceError(
            f"trainer: is a {type(settings).__name__}; its _target_ must be agents.training.TrainingSettings"
        )
    make = PROBLEMS.get(type(env))
    if make is None:
        known = ", ".join(f"{cls.__module__}.{cls.__qualname__}" for cls in PROBLEMS)
        raise ChoiceError(f"env: is a {type(env).__name__}; its _target_ must be one of {known}")
    problem, inputs = make(run, env, settings, folder)
    return Trainer(
        problem,
        settings,
        {name: partial(_build_scheduler, name, run.schedulers[name]) for name in build_schedulers(run.schedulers)},
        folder,
        inputs.seed,
        listener,
        read_start(run, problem, folder),
        open_loggers(run.loggers, folder, listener.note),
    )


def bid_problem(
    run: SeedRun, env: BiddingSettings, settings: TrainingSettings, folder: Path
) -> tuple[BidProblem, RunInputs]:
    """Return the bidding environment that a run trains in, and the inputs of its first task.

    Raises:
        ChoiceError: there is no market, or a further task does not exist.
    """
    if run.market is None:
        raise ChoiceError("market: policies that bid need one; choose a file of conf/market, such as market=fifo")
    tasks, market = build_tasks(run), build_object(run.market, Market)
    inputs = next(iter(tasks.values()))
    hashes = [trace_hashes(each.source) for each in tasks.values()]
    add_provenance(folder, traces={path: found for each in hashes for path, found in each.items()})
    made = [BiddingTask(name, each.setup, each.source, market, env.rules, env.reward) for name, each in tasks.items()]
    objective = settings.objective if env.reward is None else Return()
    blueprint, worlds = build_object(run.agent, Blueprint), find_worlds(run.problem) if run.problem.world else None
    return BidProblem(made, blueprint, dict(run.market_note), objective, worlds), inputs


def option_problem(
    run: SeedRun, env: OptionSettings, settings: TrainingSettings, folder: Path
) -> tuple[OptionProblem, RunInputs]:
    """Return the placement environment that a run trains in, and the inputs of its first task.

    Raises:
        ChoiceError: there is an option that only policies that bid have, or a further task does not exist.
    """
    if run.market is not None:
        raise ChoiceError("market: only policies that bid have one (env=bidding); leave it empty")
    tasks = build_tasks(run)
    hashes = [trace_hashes(each.source) for each in tasks.values()]
    add_provenance(folder, traces={path: found for each in hashes for path, found in each.items()})
    made = [OptionTask(name, each.setup, each.source, env.rules, env.reward) for name, each in tasks.items()]
    worlds = find_worlds(run.problem) if run.problem.world else None
    problem = OptionProblem(made, build_object(run.agent, Blueprint), worlds)
    check_pairing(settings.method, problem)
    if settings.objective is not None:
        raise ChoiceError("trainer.objective: only policies that bid have one; the others follow env.reward")
    return problem, next(iter(tasks.values()))


def build_tasks(run: SeedRun) -> dict[str, RunInputs]:
    """Return what each task needs to run by name: the run's own task, then the further ones.

    With a distribution of worlds, these are the worlds of validation.

    Raises:
        ChoiceError: there are further tasks beside drawn worlds.
    """
    if run.problem.world:
        if run.further:
            raise ChoiceError("tasks: training in drawn worlds has no further tasks; leave it empty, or world")
        worlds = find_worlds(run.problem)
        drawn = [worlds.world(number) for number in worlds.validation]
        return {each.name: RunInputs(each.setup, each.source, run.problem.seed) for each in drawn}
    tasks = {run.problem.task.name if run.problem.task else "workload": build_inputs(run.problem)}
    for name, problem in run.further:
        tasks[name if name not in tasks else f"{name}-{len(tasks)}"] = build_inputs(problem)
    return tasks


# How each kind of environment becomes what is trained, by the class of `env`.
PROBLEMS: Mapping[type, Callable[..., tuple[Any, RunInputs]]] = {
    BiddingSettings: bid_problem,
    OptionSettings: option_problem,
}


def train_seed(
    run: SeedRun, folder: Path, listener: TrainingListener, measured: Mapping[str, ValidationFigures] | None = None
) -> TrainingState:
    """Train once, and tell the loggers the configuration.

    Args:
        run: what is trained.
        folder: of the training seed.
        listener: receives reports.
        measured: figures of baselines in validation, by another seed of the run; they are not played again.
    """
    trainer = build_trainer(run, folder, listener)
    trainer.measured = measured or {}
    if not (folder / STATE).exists():
        settings = {**{part.key: part.values for part in (run.trainer, run.agent, run.env)}, "seed": run.problem.seed}
        trainer.loggers.describe({"configuration": as_code(run.text)}, settings, trainer.problem.metric)
    return trainer.run()


def read_start(run: SeedRun, problem: TrainingProblem, folder: Path) -> Mapping[str, Tensor] | None:
    """Read the weights that `start` names, and enter their hashes into the run's provenance.

    Returns:
        None without `start`, and for a run that is resumed, which has weights of its own.

    Raises:
        ChoiceError: there is no such folder, or its policy is for another environment.
        CheckpointError: the policy is missing or damaged, or its network is not that of `agent`.
    """
    if not run.start or (folder / STATE).exists():
        return None
    place, bids = find_checkpoint(find_folder(run.start, "start")), isinstance(problem, BidProblem)
    if bids != is_bidding(place):
        wanted = "bids; give one of experiment=bidding" if bids else "chooses options; give one of env=options"
        raise ChoiceError(f"start={run.start}: is no policy that {wanted}")
    try:
        if isinstance(problem, BidProblem):
            own = BiddingCheckpoint.load(place, run.trusted)
            weights = own.start_for(problem.blueprint, problem.spec.num_bids)
        else:
            assert isinstance(problem, OptionProblem), "other policies than for bids and options have no reader"
            weights = OptionCheckpoint.load(place, run.trusted).start_for(problem.blueprint, problem.spec)
    except CheckpointError as error:
        raise CheckpointError(f"start={run.start}: {error}") from error
    add_provenance(folder, start=checkpoint_hashes(place))
    return weights


def _build_scheduler(name: str, component: Component) -> Scheduler:
    return build_schedulers({name: component})[name]
