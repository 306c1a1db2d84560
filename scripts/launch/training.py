"""Training runs built from configs. Needs torch and ray."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from agents import rllib
from agents.evolution.training import EvolutionTrainer, EvolutionTrainingSettings
from agents.rllib.evolution import BiddingTask, EvolutionSetup
from agents.training import Trainer, TrainingListener
from envs.bidding import BiddingRules
from envs.scheduling import Scheduler
from envs.simulation.market import Market
from launch.arguments import compose_options
from launch.building import build_object
from launch.errors import ChoiceError
from launch.inputs import RunInputs, build_inputs, build_schedulers
from launch.policies import describe_market


def build_trainer(cfg: DictConfig, folder: Path, listener: TrainingListener) -> Trainer | EvolutionTrainer:
    """Build the training run that a config describes.

    Raises:
        ChoiceError: an option that does not exist or has another type, or parts that do not belong together.
    """
    settings, env = build_object(cfg.trainer), build_object(cfg.env)
    bids = isinstance(env, BiddingRules)
    if bids != isinstance(settings, EvolutionTrainingSettings):
        raise ChoiceError(
            "trainer=evolution trains policies that bid, and the others do not; choose env=bidding agent=bidding "
            "market=fifo trainer=evolution (experiment=bidding), or none of them"
        )
    if isinstance(settings, EvolutionTrainingSettings):
        return _build_evolution(cfg, env, settings, folder, listener)
    if cfg.tasks:
        raise ChoiceError("tasks: only trainer=evolution draws episodes from several tasks; name one as task=<name>")
    inputs = build_inputs(cfg)
    return Trainer(
        rllib.TrainingSetup(inputs.setup, inputs.source, env.rules, env.reward),
        build_object(cfg.agent),
        settings,
        {name: partial(_build_scheduler, cfg, name) for name in build_schedulers(cfg)},
        folder,
        inputs.seed,
        listener,
    )


def _build_evolution(
    cfg: DictConfig, rules: BiddingRules, settings: EvolutionTrainingSettings, folder: Path, listener: TrainingListener
) -> EvolutionTrainer:
    if not cfg.market:
        raise ChoiceError("market: trainer=evolution needs one; choose a file of conf/market, such as market=fifo")
    inputs = build_inputs(cfg)
    name = cfg.task.name if cfg.get("task") else "workload"
    further = {str(task): build_inputs(compose_options("train", [f"task={task}"], "[]")) for task in cfg.tasks}
    tasks = {name: inputs, **further}
    return EvolutionTrainer(
        EvolutionSetup(
            tuple(bidding_tasks(tasks, build_object(cfg.market), rules)),
            build_object(cfg.agent),
            settings.evolution,
            inputs.seed,
        ),
        settings,
        describe_market(cfg),
        folder,
        listener,
    )


def bidding_tasks(tasks: dict[str, RunInputs], market: Market, rules: BiddingRules) -> Sequence[BiddingTask]:
    """Return what episodes of each task are made of."""
    return [BiddingTask(name, inputs.setup, inputs.source, market, rules) for name, inputs in tasks.items()]


def _build_scheduler(cfg: DictConfig, name: str) -> Scheduler:
    return build_schedulers(cfg)[name]
