"""Nodes that choose: the discrete environment as the trainer sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from agents.listener import TrainingListener
from agents.networks import Blueprint, check_network, missing_protocols
from agents.policies.checkpoint import Checkpoint
from agents.problems.problem import Compared, TaskFigures, TrainingWorld, Validated, ValidationPlan
from agents.seeding import Phase, derive_seed
from agents.tags import HEADLINE
from agents.validation import ValidationFigures, best_of, outcome_of, validate_scheduler, validation_workloads
from envs.gpu_cluster import DecisionRules, EnvSpec, Reward, TeamReward
from envs.gpu_cluster.vector import GpuClusterVectorEnv
from envs.simulation import Setup
from envs.types.units import HOUR
from envs.workloads import Workload, WorkloadSource


@dataclass(frozen=True)
class TrainingSetup:
    """Everything that training episodes are made of; it is sent to the workers."""

    setup: Setup
    source: WorkloadSource
    rules: DecisionRules = field(default_factory=DecisionRules)
    reward: Reward = field(default_factory=TeamReward)

    @property
    def spec(self) -> EnvSpec:
        """Sizes of observation and action."""
        return EnvSpec.of(self.setup.cluster, self.rules)

    def vector_env(
        self, num_envs: int, seed: int = 0, group_size: int = 1, split: str = "train"
    ) -> GpuClusterVectorEnv:
        """A batch of training episodes."""
        return GpuClusterVectorEnv(self.setup, self.source, num_envs, self.rules, self.reward, group_size, split, seed)


class ChoiceProblem:
    """The discrete environment, as `TrainingProblem` says; a policy is validated by its sampled actions.

    Args:
        training_setup: the setup of all episodes.
        blueprint: the network.
        task: name of the task, for figures.
    """

    face: ClassVar[str] = "choices"
    network_methods: ClassVar[Mapping[str, str]] = {"logits": "choose"}
    advice: ClassVar[str] = "agent=attention"
    metric: ClassVar[str] = HEADLINE

    def __init__(self, training_setup: TrainingSetup, blueprint: Blueprint, task: str = "") -> None:
        self.training_setup, self.blueprint = training_setup, blueprint
        self.tasks = (task or training_setup.source.name,)
        self._workloads: list[Workload] = []

    def check(self, *, imitates: bool, learns_values: bool) -> list[str]:
        """Check a network like the one to be trained; return notes on what it lacks."""
        network = self.blueprint.build(self.training_setup.spec)
        check_network(network, self.training_setup.spec)
        return missing_protocols(network, imitates=imitates, learns_values=learns_values)

    def build(self, seed: int, start: Mapping[str, Tensor] | None) -> nn.Module:
        """Build the network that training begins with."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, Phase.LEARNING))
            network = self.blueprint.build(self.training_setup.spec)
        if start is not None:
            network.load_state_dict(start, strict=False)
        return network

    def prepare(self, plan: ValidationPlan, listener: TrainingListener) -> int:
        """Choose the validation workloads; return their number."""
        source, wanted = self.training_setup.source, plan.num_validation
        self._workloads = validation_workloads(source, wanted)
        if (found := len(self._workloads)) < wanted:
            listener.note(
                f"validation uses {found} distinct workload{'s' * (found > 1)}, not {wanted}: the validation split of "
                f"{source.name} has no more episodes; a smaller workload.num_jobs gives more"
            )
        return found

    def compared(self) -> Compared:
        """Return all validation workloads."""
        return Compared(self.training_setup.setup, self._workloads)

    def levels(self) -> Mapping[str, float]:
        """Return no further lines."""
        return {}

    def level(self, baseline: ValidationFigures) -> Mapping[str, float]:
        """Return all figures of a baseline."""
        return {f"validation/{name}": value for name, value in baseline.items()}

    def validate(self, network: nn.Module) -> Validated:
        """Validate a policy as a scheduler."""
        figures = validate_scheduler(self.world(network, 0).scheduler, self.training_setup.setup, self._workloads)
        scalars = {**self.level(figures), HEADLINE: figures["mean_jct"] / HOUR}
        return Validated({self.tasks[0]: figures}, scalars)

    def rank(self, figures: TaskFigures) -> tuple[float, ...]:
        """Return fewest starved jobs, then least mean JCT."""
        outcome = outcome_of(figures[self.tasks[0]])
        return (-outcome.num_starved, -outcome.mean_jct)

    def objective_of(self, figures: TaskFigures) -> float:
        """Return the mean JCT in s."""
        return figures[self.tasks[0]]["mean_jct"]

    def standing(self, figures: TaskFigures, baselines: Mapping[str, ValidationFigures]) -> Mapping[str, float]:
        """Return mean JCT, unfinished jobs if any, and the best baseline's mean JCT.

        The baseline is included only if equally many jobs starve: otherwise the means are not comparable.
        """
        latest = figures[self.tasks[0]]
        standing = {"validated": latest["mean_jct"]}
        if latest["num_unfinished"]:
            standing["unfinished"] = latest["num_unfinished"]
        if baselines:
            baseline = outcome_of(baselines[best_of(baselines)])
            if baseline.num_starved == outcome_of(latest).num_starved:
                standing["baseline"] = baseline.mean_jct
        return standing

    def validate_anew(self, policy: nn.Module, tell: Callable[[str], None]) -> TaskFigures:
        """Return nothing: the test split is for that."""
        return {}

    def world(self, network: nn.Module, number: int) -> TrainingWorld:
        """Return where a policy plays."""
        setup = self.training_setup
        return TrainingWorld(self.checkpoint(network, {}).scheduler(), setup.setup, setup.source)

    def checkpoint(self, network: nn.Module, notes: dict[str, Any]) -> Checkpoint:
        """Return a policy as a checkpoint."""
        setup = self.training_setup
        origin = {"source": setup.source.name, "cluster": setup.setup.cluster.name, "sampled": True}
        types = setup.setup.cluster.gpu_types
        return Checkpoint(network, self.blueprint, setup.spec, setup.rules, types, {**notes, **origin})

    def load(self, folder: Path) -> nn.Module:
        """Read the policy of a checkpoint."""
        return Checkpoint.load(folder, (self.blueprint.target,)).network
