"""Training runs built from configs. Needs torch and ray."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from agents import rllib
from agents.bidding import BiddingCheckpoint
from agents.bidding.checkpoint import is_bidding
from agents.bidding.training import BidTrainer, BidTrainingSettings
from agents.branching.training import BranchTrainer, BranchTrainingSettings
from agents.checkpoint import find_checkpoint
from agents.evolution.training import EvolutionTrainer, EvolutionTrainingSettings
from agents.expert_iteration.training import ExpertTrainer, ExpertTrainingSettings
from agents.networks import Blueprint
from agents.options import OptionTrainer
from agents.rllib.branching import BranchSetup
from agents.rllib.evolution import BiddingTask, EvolutionSetup, spec_of
from agents.rllib.expert_iteration import ExpertSetup
from agents.tensorboard import GAIN, HEADLINE, as_code
from agents.terminal import ProgressListener
from agents.training import Trainer, TrainingListener
from envs.bidding import BiddingRules
from envs.options import OptionSettings
from envs.scheduling import Scheduler
from envs.simulation.market import Market
from envs.types import CheckpointError
from launch.arguments import compose_options
from launch.building import build_object
from launch.curves import BID_STATES, write_learning_curves
from launch.errors import ChoiceError
from launch.inputs import RunInputs, build_inputs, build_schedulers
from launch.option_training import build_option_trainer
from launch.policies import describe_market, load_policies, seed_folders
from launch.provenance import add_provenance, checkpoint_hashes, trace_hashes
from launch.registry import registered
from launch.runs import compare_and_report, existing_folder


def train(cfg: DictConfig, folder: Path) -> None:
    """Train; if `evaluate` is true, compare the best checkpoints with the baselines, all in one folder.

    Raises:
        ChoiceError: `seeds` is not a positive whole number, and all errors of `build_trainer`.
        CheckpointError: the run cannot be resumed, or its files cannot be written.
    """
    with ProgressListener() as listener:
        trained = train_seeds(cfg, folder, listener)
    if trained:
        hashes = [checkpoint_hashes(find_checkpoint(each)) for each in seed_folders(folder) or [folder]]
        add_provenance(folder, checkpoint={path: found for each in hashes for path, found in each.items()})
        write_learning_curves(folder)
        if cfg.evaluate:
            compare_and_report(cfg, folder, "test", load_policies(folder, registered(cfg)))


def build_trainer(cfg: DictConfig, folder: Path, listener: TrainingListener) -> Trainer | BidTrainer | OptionTrainer:
    """Build the training run that a config describes.

    Raises:
        ChoiceError: an option that does not exist or has another type, or parts that do not belong together.
    """
    settings, env = build_object(cfg.trainer), build_object(cfg.env)
    if isinstance(env, OptionSettings):
        baselines = {name: partial(_build_scheduler, cfg, name) for name in build_schedulers(cfg)}
        return build_option_trainer(all_tasks(cfg), env, build_object(cfg.agent), settings, baselines, folder, listener)
    bids = isinstance(env, BiddingRules)
    if bids != isinstance(settings, BidTrainingSettings):
        raise ChoiceError(
            "trainer=evolution, branching and expert train policies that bid, and the others do not; choose "
            "env=bidding agent=bidding market=fifo trainer=evolution (experiment=bidding), or none of them"
        )
    if isinstance(settings, BidTrainingSettings):
        return _build_bidding(cfg, env, settings, folder, listener)
    if cfg.start:
        raise ChoiceError("start: only policies that bid start from another one (trainer=evolution); leave it empty")
    if cfg.tasks:
        raise ChoiceError(
            "tasks: only policies that bid train on several tasks (trainer=evolution); name one as task=<name>"
        )
    inputs, market = build_inputs(cfg), build_object(cfg.market) if cfg.get("market") else None
    add_provenance(folder, traces=trace_hashes(inputs.source))
    return Trainer(
        rllib.TrainingSetup(inputs.setup, inputs.source, env.rules, env.reward, market),
        build_object(cfg.agent),
        settings,
        {name: partial(_build_scheduler, cfg, name) for name in build_schedulers(cfg)},
        folder,
        inputs.seed,
        listener,
        describe_market(cfg) if cfg.get("market") else None,
        cfg.task.name if cfg.get("task") else "",
    )


def train_seeds(cfg: DictConfig, folder: Path, listener: TrainingListener) -> bool:
    """Train once, or with `seeds=n` once for each of n seeds, in folders seed_<seed> of the run's folder.

    Seeds that have ended are not trained again when a run is resumed.

    Returns:
        Whether there is a policy to evaluate.

    Raises:
        ChoiceError: `seeds` is not a positive whole number, and all errors of `build_trainer`.
    """
    if not isinstance(cfg.seeds, int) or cfg.seeds < 1:
        raise ChoiceError(f"seeds is {cfg.seeds!r}; it must be a whole number of at least 1")
    if cfg.seeds == 1:
        return train_seed(cfg, folder, listener)
    trained = []
    for seed in range(cfg.seed, cfg.seed + cfg.seeds):
        own = cfg.copy()
        own.seed = seed
        listener.note(f"training seed {seed}, the last one is {cfg.seed + cfg.seeds - 1}")
        trained.append(train_seed(own, folder / f"seed_{seed}", listener))
    return all(trained)


def train_seed(cfg: DictConfig, folder: Path, listener: TrainingListener) -> bool:
    """Train once, and write the configuration for TensorBoard; return whether there is a policy to evaluate."""
    trainer = build_trainer(cfg, folder, listener)
    if not (folder / "tensorboard").exists():
        chosen = {key: OmegaConf.to_container(cfg[key], resolve=True) for key in ("trainer", "agent", "env")}
        settings = {**chosen, "seed": cfg.seed}
        metric = GAIN if isinstance(trainer, BidTrainer) else HEADLINE
        trainer.tensorboard.describe({"configuration": as_code(OmegaConf.to_yaml(cfg))}, settings, metric)
    return trainer.run().best_iteration >= 0


def _build_bidding(
    cfg: DictConfig, rules: BiddingRules, settings: BidTrainingSettings, folder: Path, listener: TrainingListener
) -> BidTrainer:
    if not cfg.get("market"):
        raise ChoiceError("market: policies that bid need one; choose a file of conf/market, such as market=fifo")
    tasks = all_tasks(cfg)
    inputs = next(iter(tasks.values()))
    hashes = [trace_hashes(each.source) for each in tasks.values()]
    add_provenance(folder, traces={path: found for each in hashes for path, found in each.items()})
    blueprint = build_object(cfg.agent)
    made = bidding_tasks(tasks, build_object(cfg.market), rules)
    start = read_start(cfg, blueprint, spec_of(made).num_bids, folder)
    rest = (
        describe_market(cfg),
        folder,
        listener,
        {name: partial(_build_scheduler, cfg, name) for name in build_schedulers(cfg)},
        find_teacher(cfg, settings.teacher),
    )
    if isinstance(settings, BranchTrainingSettings):
        branching = BranchSetup(tuple(made), blueprint, settings.branching, inputs.seed, start)
        return BranchTrainer(branching, settings, *rest)
    if isinstance(settings, ExpertTrainingSettings):
        asking = ExpertSetup(tuple(made), blueprint, settings.method, inputs.seed, start)
        return ExpertTrainer(asking, settings, *rest)
    if isinstance(settings, EvolutionTrainingSettings):
        evolution = EvolutionSetup(tuple(made), blueprint, settings.evolution, inputs.seed, start)
        return EvolutionTrainer(evolution, settings, *rest)
    raise ChoiceError(
        f"trainer: {type(settings).__name__} names no method; choose trainer=evolution, branching or expert"
    )


def all_tasks(cfg: DictConfig) -> dict[str, RunInputs]:
    """Return what each task needs to run by name: the run's own task, then those of `tasks`."""
    tasks = {cfg.task.name if cfg.get("task") else "workload": build_inputs(cfg)}
    for entry in cfg.tasks:
        further, found = build_further(entry)
        tasks[further if further not in tasks else f"{further}-{len(tasks)}"] = found
    return tasks


def find_teacher(cfg: DictConfig, name: str) -> Callable[[], Scheduler] | None:
    """Return a maker of the chosen scheduler of this name; None without a name.

    Raises:
        ChoiceError: it is not among the chosen schedulers.
    """
    if not name:
        return None
    if name not in (chosen := build_schedulers(cfg)):
        raise ChoiceError(f"trainer.teacher={name}: is not chosen; add scheduler=[{name}], or take one of {[*chosen]}")
    return partial(_build_scheduler, cfg, name)


def read_start(cfg: DictConfig, blueprint: Blueprint, num_bids: int, folder: Path) -> Mapping[str, Tensor] | None:
    """Read the weights that `start` names, and enter their hashes into the run's provenance.

    Returns:
        None without `start`, and for a run that is resumed, which has weights of its own.

    Raises:
        ChoiceError: there is no such folder, or its policy does not bid.
        CheckpointError: the policy is missing or damaged, or its network is not that of `agent`.
    """
    if not cfg.start or any((folder / name).exists() for name in BID_STATES):
        return None
    place = find_checkpoint(existing_folder(cfg, "start"))
    if not is_bidding(place):
        raise ChoiceError(f"start={cfg.start}: is no policy that bids; give one of experiment=bidding")
    try:
        weights = BiddingCheckpoint.load(place, registered(cfg)).start_for(blueprint, num_bids)
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


def bidding_tasks(tasks: dict[str, RunInputs], market: Market, rules: BiddingRules) -> Sequence[BiddingTask]:
    """Return what episodes of each task are made of."""
    return [BiddingTask(name, inputs.setup, inputs.source, market, rules) for name, inputs in tasks.items()]


def _build_scheduler(cfg: DictConfig, name: str) -> Scheduler:
    return build_schedulers(cfg)[name]
