"""Settings of policy gradients: PPO with a group baseline, a critic or both, REINFORCE, IPPO and MAPPO."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from torch import nn

from agents.method import Algorithm, Needs
from agents.on_options.schedule import falling
from agents.problems.options import OptionProblem, OptionSetup
from envs.options import OptionRules
from envs.types import MurmurationError

BASELINES, CRITICS, TURN_RULES = ("group", "critic", "both", "mean"), ("all", "own"), ("auction", "turns", "together")


@dataclass(frozen=True, slots=True)
class GroupPPOSettings:
    """Parameters of policy gradients (`agents.methods.group_ppo.learning`); the defaults are PPO with a group baseline.

    Attributes:
        name: of the method, in messages and checkpoints.
        baseline: what the cost to go of a decision is compared with. "group": that of the group's other episodes at
            this time. "critic": what a critic expects. "both": a critic learns by how much a state differs from the
            group. "mean": the mean over all decisions of the iteration.
        critic: what the critic sees. "all": the jobs that the decision is about, all nodes and the cluster. "own": only
            the node whose turn it is instead of all; needs nodes that take turns.
        turn: the rule of turn in which episodes are played, see `OptionRules`; None for that of the environment. Where
            nodes take turns, the trajectory of an advantage is that of a node, else that of the episode.
        num_workloads: fresh training workloads in an iteration.
        group_size: episodes of each. With a group baseline at least 2; the others are the baseline of each one.
        horizon: in mean JCTs of the workload's episodes, so that it suits jobs of minutes and of days; a cost that
            lies t of them ahead counts exp(-t / horizon).
        gae_lambda: decay of generalised advantages, for each decision; only with a critic. 1 compares whole returns.
        lr: step size of Adam at the beginning; it falls linearly.
        final_lr: at the end, as a fraction of `lr`.
        critic_lr: the same for the critic.
        critic_hidden: width of the critic's layers.
        entropy: weight of the bonus on the entropy of the choice.
        clip: PPO's clip of the ratio of probabilities; None for none, which with one epoch and one minibatch is
            REINFORCE.
        lost_claims: what a choice loses of its advantage, in standard deviations, if it claimed a job that another node
            was given; where nodes act together.
        num_epochs: passes over the decisions of an iteration.
        num_minibatches: steps in each pass.
        max_grad_norm: gradients are scaled down to this norm.
        averaging: weight of an iteration's weights in the moving average that is validated and saved, above 0; 1 takes
            the last ones. Training goes on from the last ones whatever it is.
        temperature: of the softmax over scores, in sampling and learning.
        num_decisions: most decisions of an iteration that are learnt from, an equal share of each workload, drawn at
            random; None for all. Episodes get longer as a policy learns to change running jobs.
        start_only: fraction of the iterations, the first ones, in which jobs are only started, whatever else the rules
            of the environment allow. The option scorer needs no such curriculum: it begins reluctant to change jobs.
        iterations: after which the step size has fallen to its last value; those of the run.
        num_env_runners: additional Ray workers that play; 0 plays in this process.
    """

    needs: ClassVar[Needs] = Needs(("options",), "env=options agent=options (experiment=from_nothing)")

    name: str = "group_ppo"
    baseline: Literal["group", "critic", "both", "mean"] = "group"
    critic: Literal["all", "own"] = "all"
    turn: Literal["auction", "turns", "together"] | None = None
    num_workloads: int = 8
    group_size: int = 8
    horizon: float = 5.0
    gae_lambda: float = 1.0
    lr: float = 8e-3
    final_lr: float = 0.03
    critic_lr: float = 3e-3
    critic_hidden: int = 32
    entropy: float = 0.01
    clip: float | None = 0.2
    lost_claims: float = 0.0
    num_epochs: int = 2
    num_minibatches: int = 6
    max_grad_norm: float = 0.5
    averaging: float = 1.0
    temperature: float = 1.0
    num_decisions: int | None = 12_000
    start_only: float = 0.0
    iterations: int = 200
    num_env_runners: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (("baseline", BASELINES), ("critic", CRITICS), ("turn", (*TURN_RULES, None))):
            if getattr(self, name) not in allowed:
                self._refuse(name, f"one of {', '.join('null' if each is None else each for each in allowed)}")
        for name in ("num_workloads", "group_size", "num_epochs", "num_minibatches", "iterations", "critic_hidden"):
            if getattr(self, name) < 1:
                self._refuse(name, "at least 1")
        if self.compares_groups and self.group_size < 2:
            self._refuse("group_size", f"at least 2 with baseline={self.baseline}; baseline=critic needs no group")
        for name in ("horizon", "lr", "critic_lr", "max_grad_norm", "temperature"):
            if not getattr(self, name) > 0:
                self._refuse(name, "positive")
        if self.clip is not None and not self.clip > 0:
            self._refuse("clip", "positive, or null for no clip")
        for name in ("final_lr", "entropy", "lost_claims", "num_env_runners"):
            if not getattr(self, name) >= 0:
                self._refuse(name, "0 or more")
        for name in ("start_only", "gae_lambda"):
            if not 0 <= getattr(self, name) <= 1:
                self._refuse(name, "from 0 to 1")
        if not 0 < self.averaging <= 1:
            self._refuse("averaging", "above 0 and at most 1")
        if self.gae_lambda < 1 and not self.has_critic:
            self._refuse("gae_lambda", f"1 with baseline={self.baseline}; choose baseline=critic or both")
        if self.num_decisions is not None and self.num_decisions < self.num_workloads:
            self._refuse("num_decisions", f"at least the {self.num_workloads} workloads, or null for all decisions")
        if self.critic == "own" and self.turn == "auction":
            self._refuse("turn", "turns with critic=own: in an auction no single node decides")

    def _refuse(self, name: str, allowed: str) -> None:
        raise MurmurationError(f"{self.name}.{name} is {getattr(self, name)}; it must be {allowed}")

    @property
    def compares_groups(self) -> bool:
        """Whether episodes of one workload are each other's baseline."""
        return self.baseline in ("group", "both")

    @property
    def has_critic(self) -> bool:
        """Whether a critic is trained."""
        return self.baseline in ("critic", "both")

    @property
    def decisions_of_workload(self) -> int | None:
        """Decisions that are learnt from each workload at most; None for all."""
        return None if self.num_decisions is None else self.num_decisions // self.num_workloads

    @property
    def num_episodes(self) -> int:
        """Training episodes of an iteration."""
        return self.num_workloads * self.group_size

    @property
    def num_envs(self) -> int:
        """Episodes that are played in one call."""
        return self.group_size

    def learning_rate(self, iteration: int) -> float:
        """Return the step size of an iteration."""
        return falling(self.lr, self.final_lr, iteration, self.iterations)

    def step_sizes(self, iteration: int) -> list[float]:
        """Return the step sizes of an iteration, of the policy and of the critic."""
        return [falling(lr, self.final_lr, iteration, self.iterations) for lr in (self.lr, self.critic_lr)]

    def temperature_at(self, iteration: int) -> float:
        """Return the temperature of an iteration: always the same."""
        return self.temperature

    def adapt(self, rules: OptionRules, iteration: int) -> OptionRules:
        """Return the rules of an iteration: with the method's rule of turn, and with starts only in the first ones."""
        rules = replace(rules, turn=self.turn or rules.turn)
        return replace(rules, changes="start") if iteration < self.start_only * self.iterations else rules

    def start(self, problem: OptionProblem, network: nn.Module, seed: int) -> Algorithm:
        """Begin training from a network."""
        from agents.methods.group_ppo.learning import GroupConfig
        from agents.on_options.learner import start_on_options

        if self.critic == "own" and (self.turn or problem.worlds[0].rules.turn) != "turns":
            raise MurmurationError(
                f"{self.name}.critic is own, and env.rules.turn is auction, in which no single node decides; set "
                "trainer.method.turn=turns"
            )
        return start_on_options(OptionSetup.of(problem, self, network, seed), GroupConfig)
