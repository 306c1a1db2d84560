"""Training runs built from configs. Needs torch and ray."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from agents.listener import TrainingListener
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
from agents.tensorboard import as_code
from agents.training import STATE, Trainer, TrainingSettings, TrainingState
from agents.validation import ValidationFigures
from envs.bidding import BiddingSettings
from envs.options import OptionSettings
from envs.scheduling import Scheduler
from envs.simulation.market import Market
from envs.types import CheckpointError
from launch.arguments import compose_options
from launch.building import build_object
from launch.errors import ChoiceError
from launch.inputs import RunInputs, build_inputs, build_schedulers
from launch.policies import describe_market
from launch.provenance import add_provenance, checkpoint_hashes, trace_hashes
from launch.registry import registered
from launch.runs import existing_folder


def build_trainer(cfg: DictConfig, folder: Path, listener: TrainingListener) -> Trainer:
    """Build the training run that a config describes.

    Raises:
        ChoiceError: an option that does not exist or has another type, or parts that do not belong together.
        MurmurationError: method, network and environment do not belong together.
    """
    settings, env = build_object(cfg.trainer), build_object(cfg.env)
    if not isinstance(settings, TrainingSettings):
        raise ChoiceError(
            f"trainer: is a {type(settings).__name__}; its _target_ must be agents.training.TrainingSettings"
        )
    make = PROBLEMS.get(type(env))
    if make is None:
        known = ", ".join(f"{cls.__module__}.{cls.__qualname__}" for cls in PROBLEMS)
        raise ChoiceError(f"env: is a {type(env).__name__}; its _target_ must be one of {known}")
    problem, inputs = make(cfg, env, settings, folder)
    return Trainer(
        problem,
        settings,
        {name: partial(_build_scheduler, cfg, name) for name in build_schedulers(cfg)},
        folder,
        inputs.seed,
        listener,
        read_start(cfg, problem, folder),
    )


def bid_problem(
    cfg: DictConfig, env: BiddingSettings, settings: TrainingSettings, folder: Path
) -> tuple[BidProblem, RunInputs]:
    """Return the bidding environment that a config describes, and the inputs of its first task.

    Raises:
        ChoiceError: there is no market, or a further task does not exist.
    """
    if not cfg.get("market"):
        raise ChoiceError("market: policies that bid need one; choose a file of conf/market, such as market=fifo")
    tasks, market = all_tasks(cfg), build_object(cfg.market, Market)
    inputs = next(iter(tasks.values()))
    hashes = [trace_hashes(each.source) for each in tasks.values()]
    add_provenance(folder, traces={path: found for each in hashes for path, found in each.items()})
    made = [BiddingTask(name, each.setup, each.source, market, env.rules, env.reward) for name, each in tasks.items()]
    objective = settings.objective if env.reward is None else Return()
    return BidProblem(made, build_object(cfg.agent, Blueprint), describe_market(cfg), objective), inputs


def option_problem(
    cfg: DictConfig, env: OptionSettings, settings: TrainingSettings, folder: Path
) -> tuple[OptionProblem, RunInputs]:
    """Return the placement environment that a config describes, and the inputs of its first task.

    Raises:
        ChoiceError: there is an option that only policies that bid have, or a further task does not exist.
    """
    if cfg.get("market"):
        raise ChoiceError("market: only policies that bid have one (env=bidding); leave it empty")
    tasks = all_tasks(cfg)
    hashes = [trace_hashes(each.source) for each in tasks.values()]
    add_provenance(folder, traces={path: found for each in hashes for path, found in each.items()})
    made = [OptionTask(name, each.setup, each.source, env.rules, env.reward) for name, each in tasks.items()]
    problem = OptionProblem(made, build_object(cfg.agent, Blueprint))
    check_pairing(settings.method, problem)
    if settings.objective is not None:
        raise ChoiceError("trainer.objective: only policies that bid have one; the others follow env.reward")
    return problem, next(iter(tasks.values()))


def all_tasks(cfg: DictConfig) -> dict[str, RunInputs]:
    """Return what each task needs to run by name: the run's own task, then those of `tasks`."""
    tasks = {cfg.task.name if cfg.get("task") else "workload": build_inputs(cfg)}
    for entry in cfg.tasks:
        further, found = build_further(entry)
        tasks[further if further not in tasks else f"{further}-{len(tasks)}"] = found
    return tasks


# How each kind of environment becomes what is trained, by the class of `env`.
PROBLEMS: Mapping[type, Callable[..., tuple[Any, RunInputs]]] = {
    BiddingSettings: bid_problem,
    OptionSettings: option_problem,
}


def train_seed(
    cfg: DictConfig, folder: Path, listener: TrainingListener, measured: Mapping[str, ValidationFigures] | None = None
) -> TrainingState:
    """Train once, and write the configuration for TensorBoard.

    Args:
        cfg: the configuration.
        folder: of the training seed.
        listener: receives reports.
        measured: figures of baselines in validation, by another seed of the run; they are not played again.
    """
    trainer = build_trainer(cfg, folder, listener)
    trainer.measured = measured or {}
    if not (folder / "tensorboard").exists():
        chosen = {key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("trainer", "agent", "env")}
        settings = {**chosen, "seed": cfg.seed}
        trainer.tensorboard.describe(
            {"configuration": as_code(OmegaConf.to_yaml(cfg))}, settings, trainer.problem.metric
        )
    return trainer.run()


def read_start(cfg: DictConfig, problem: TrainingProblem, folder: Path) -> Mapping[str, Tensor] | None:
    """Read the weights that `start` names, and enter their hashes into the run's provenance.

    Returns:
        None without `start`, and for a run that is resumed, which has weights of its own.

    Raises:
        ChoiceError: there is no such folder, or its policy is for another environment.
        CheckpointError: the policy is missing or damaged, or its network is not that of `agent`.
    """
    if not cfg.start or (folder / STATE).exists():
        return None
    place, bids = find_checkpoint(existing_folder(cfg, "start")), isinstance(problem, BidProblem)
    if bids != is_bidding(place):
        wanted = "bids; give one of experiment=bidding" if bids else "chooses options; give one of env=options"
        raise ChoiceError(f"start={cfg.start}: is no policy that {wanted}")
    try:
        if isinstance(problem, BidProblem):
            own = BiddingCheckpoint.load(place, registered(cfg))
            weights = own.start_for(problem.blueprint, problem.spec.num_bids)
        else:
            assert isinstance(problem, OptionProblem), "other policies than for bids and options have no reader"
            weights = OptionCheckpoint.load(place, registered(cfg)).start_for(problem.blueprint, problem.spec)
    except CheckpointError as error:
        raise CheckpointError(f"start={cfg.start}: {error}") from error
    add_provenance(folder, start=checkpoint_hashes(place))
    return weights


def build_further(entry: str) -> tuple[str, RunInputs]:
    """Build a further task from an entry of `tasks`: a name, and options that modify it, separated by spaces.

    Returns:
        Its name, which says whether it is modified, and what it needs to run.

    Raises:
        ChoiceError: the entry is no text, or there is no such task or option.
    """
    words = entry.split() if isinstance(entry, str) else []
    if not words:
        raise ChoiceError(f"tasks: {entry!r} must be a task and options of it, such as 'rigid-64 workload.load=0.6'")
    name = words[0] if len(words) == 1 else f"{words[0]}-modified"
    return name, build_inputs(compose_options("train", [f"task={words[0]}", *words[1:]], "[]"))


def _build_scheduler(cfg: DictConfig, name: str) -> Scheduler:
    return build_schedulers(cfg)[name]
