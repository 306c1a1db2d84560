"""Training runs of policies that choose options, built from configs. Needs torch and ray."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.options import OptionTrainer, OptionTrainingSettings
from agents.options.group_ppo import GroupSetup, OptionTask
from agents.training import TrainingListener
from envs.options import OptionSettings
from envs.scheduling import Scheduler
from launch.errors import ChoiceError
from launch.inputs import RunInputs
from launch.provenance import add_provenance, trace_hashes


def build_option_trainer(
    tasks: Mapping[str, RunInputs],
    env: OptionSettings,
    agent: Any,
    settings: Any,
    baselines: Mapping[str, Callable[[], Scheduler]],
    folder: Path,
    listener: TrainingListener,
) -> OptionTrainer:
    """Build the training run of a policy that chooses options.

    Args:
        tasks: what each task needs to run, by name; baselines are compared on the first.
        env: rules and reward.
        agent: the blueprint of the network.
        settings: those of the trainer.
        baselines: makers of schedulers by name.
        folder: of the run.
        listener: receives reports.

    Raises:
        ChoiceError: the trainer or the network belong to another environment.
    """
    if not isinstance(settings, OptionTrainingSettings):
        raise ChoiceError(
            f"trainer: {type(settings).__name__} does not train policies that choose options (env=options); choose "
            "trainer=group_ppo, or experiment=from_nothing"
        )
    hashes = [trace_hashes(each.source) for each in tasks.values()]
    add_provenance(folder, traces={path: found for each in hashes for path, found in each.items()})
    made = tuple(
        OptionTask(name, inputs.setup, inputs.source, env.rules, env.reward) for name, inputs in tasks.items()
    )
    seed = next(iter(tasks.values())).seed
    setup = GroupSetup(made, agent, settings.group_ppo, seed, settings.iterations)
    if not hasattr(setup.build(), "scores"):
        raise ChoiceError(f"agent: {agent.target} scores no options (env=options); choose agent=options")
    return OptionTrainer(setup, settings, folder, listener, baselines)
