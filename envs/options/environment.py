"""The PettingZoo forms of the options environment: one agent per node."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from envs.episodes import NodeParallelEnv, Reward
from envs.episodes.defaults import Illegal
from envs.episodes.parallel import AgentObservation
from envs.episodes.standard import as_turns
from envs.options.arrays import OPTION_ACTION
from envs.options.batch import ListedOptions, OptionBatch
from envs.options.columns import WAIT
from envs.options.graph import linked_nodes, starts, wanted_jobs
from envs.options.padding import (
    check_room,
    job_rows,
    joint_state,
    mask_box,
    most_jobs,
    option_features_box,
    padded_mask,
    padded_rows,
    state_shapes,
)
from envs.options.rules import OptionRules
from envs.options.spec import OptionSpec
from envs.options.turns import NodesInTurn
from envs.simulation import Setup
from envs.types import FloatArray, IntArray, MurmurationError
from envs.workloads import Workload, WorkloadSource

OptionAction = int | Mapping[str, Any]  # a place, or with a bid or scores: {"option": place, "bid": number}
AgentSpace = spaces.Discrete[np.int64] | spaces.Dict


class OptionEnv(NodeParallelEnv[OptionBatch, OptionAction]):
    """Nodes of a GPU cluster that choose what to do with training jobs, one option at a time or together.

    | | |
    |---|---|
    | agents | `node_0` ... `node_{N-1}`, one per node, all alive for the whole episode |
    | observation | dict per agent, see below; float32 except for the mask |
    | action, `turn="auction"` | {"option": `Discrete(1 + max_options)`, "bid": `Box(float32[1])`} |
    | action, `turn="turns"` | `Discrete(1 + max_options)` |
    | action, `turn="together"` | {"option": `Discrete(1 + max_options)`, "scores": `Box(float32[1 + max_options])`} |
    | the same with `contested="drawn"` and `losers="nothing"` | `Discrete(1 + max_options)` |
    | choice | 0 waits; any other is one of this node's options: start, join, resize, move or evict a job |
    | reward | shared: minus the integral of the number of jobs in the system, so the return is minus total JCT |
    | termination | all jobs done, or the horizon: unfinished jobs are charged up to it |
    | time | does not advance while nodes decide; it does when a round ends |

    In an auction all nodes choose at once, and the choice with the highest bid is carried out alone (of equal bids that
    of the lowest node). If it is waiting, the round ends. Nodes that have no option take no part. Where nodes take
    turns, the choice of the node whose turn it is counts; the mask of the others allows 0 alone. Where they act
    together, all choices count, and conflicts are settled by the scores that each node gives to its options, the first
    of which is that of waiting (`envs.options.together`). `OptionRules` states the rules.

    Observation of an agent: `node` [F_node] this node, `options` [1 + max_options, F_option] waiting and this node's
    options, `jobs` [1 + max_options, F_job] the job of each, `cluster` [F_cluster] the shared features, and int8[1 +
    max_options], 1 for choices that are allowed: `action_mask` where an action is one number, else `mask`. Where nodes
    act together, `infos[agent]["lost"]` is 1 after a claim that got nothing, and the coordination graph is part of the
    observation: `edges` int64[max_links] names other nodes with an option for the same job, those that follow by
    index first, and `option_jobs` int64[1 + max_options] the job of each choice; -1 stands behind them and for none.
    Jobs are numbered as in `state`, and with `view="own"` as the node sees them. `coordination_graph` returns both
    graphs as a whole. `envs.options.columns` explains the features.

    Options are in the order of `envs.options.listing`. Those of a node beyond the first `max_options` cannot be chosen;
    `infos[agent]["left_out"]` has their number. `infos[agent]` also holds `time` (s), `elapsed` (s in this step),
    `turn` (the node whose turn it is, -1 in an auction), the `COUNTERS` of the episode, of which `unlisted` are the
    options for which the batch had no room, and the agent's `illegal` actions so far.

    The other arguments are those of `NodeParallelEnv`.

    Args:
        rules: see its class.
        reward: see its class.
        max_options: of each node.
        max_links: nodes to which an observation can link each node.
    """

    metadata: ClassVar[dict[str, Any]] = {**NodeParallelEnv.metadata, "name": "options_v0"}
    reminder = " (option 0 waits)"

    def __init__(
        self,
        setup: Setup | None = None,
        source: WorkloadSource | None = None,
        rules: OptionRules | None = None,
        reward: Reward | None = None,
        split: str = "train",
        seed: int | None = None,
        render_mode: str | None = None,
        max_cycles: int | None = None,
        illegal: Illegal = "nothing",
        illegal_penalty: float = 0.0,
        max_options: int = 128,
        max_links: int = 32,
    ) -> None:
        super().__init__(setup, source, reward, split, seed, render_mode, max_cycles, illegal, illegal_penalty)
        check_room(max_options=max_options, max_links=max_links)
        self.rules, self.max_options, self.max_links = rules or OptionRules(), max_options, max_links
        self._options: ListedOptions | None = None
        self._own: list[IntArray] = []  # the places of each node's options among all
        self._waiting: list[int] = []  # the place of each node's waiting, -1 where it is not offered
        self._lost = np.zeros(self.cluster.num_nodes, np.int64)

    @property
    def takes_turns(self) -> bool:
        """Whether nodes choose one after another."""
        return self.rules.turn == "turns"

    @property
    def acts_together(self) -> bool:
        """Whether all nodes choose at the same time and all choices count."""
        return self.rules.turn == "together"

    @property
    def is_one_number(self) -> bool:
        """Whether an action is the choice alone."""
        drawn = self.rules.contested == "drawn" and self.rules.losers == "nothing"
        return self.takes_turns or (self.acts_together and drawn)

    @property
    def turn(self) -> int:
        """The node whose turn it is, -1 otherwise."""
        return self._present.turn

    @property
    def _present(self) -> ListedOptions:
        """The options of the present decision."""
        if self._options is None:
            raise MurmurationError("no episode has begun; call reset() first")
        return self._options

    def _make_batch(self, num_jobs: int) -> OptionBatch:
        models = self.source.models
        return OptionBatch(self.setup, models, num_jobs, rules=self.rules, reward=self._reward, logging=True)

    def _load(self, workload: Workload) -> None:
        super()._load(workload)
        self._lost[:] = 0
        self._look()

    def _look(self) -> None:
        """List the options of the present decision by node."""
        self._options = self.batch.options()
        node_of, waits = self._options.node_of, self._options.what[:, OPTION_ACTION] == WAIT
        nodes = range(self.cluster.num_nodes)
        self._own = [np.flatnonzero((node_of == n) & ~waits) for n in nodes]
        self._waiting = [int(np.append(np.flatnonzero(waits & (node_of == n)), -1)[0]) for n in nodes]
        if not self.acts_together:
            self._waiting = [0 if waits[0] else -1] * len(nodes)

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return bounds and shapes; the same object at every call."""
        return self._spaces[0][agent]

    def action_space(self, agent: str) -> AgentSpace:
        """Return the space of all choices, allowed or not; the mask tells which are allowed."""
        return self._spaces[1][agent]

    @cached_property
    def _spaces(self) -> tuple[dict[str, spaces.Dict], dict[str, AgentSpace]]:
        rows, spec = 1 + self.max_options, OptionSpec()
        observation = {
            agent: spaces.Dict(
                {
                    "node": option_features_box(spec.node_features),
                    "options": option_features_box(rows, spec.option_features),
                    "jobs": option_features_box(rows, spec.job_features),
                    "cluster": option_features_box(spec.cluster_features),
                    self.mask_name: mask_box(rows),
                    **(self._graph_spaces() if self.acts_together else {}),
                }
            )
            for agent in self.possible_agents
        }
        return observation, {agent: self._action_space(rows) for agent in self.possible_agents}

    def _graph_spaces(self) -> dict[str, spaces.Box]:
        most = {"edges": self.cluster.num_nodes, "option_jobs": most_jobs(self.batch)}
        room = {"edges": self.max_links, "option_jobs": 1 + self.max_options}
        return {name: spaces.Box(-1, count - 1, (room[name],), np.int64) for name, count in most.items()}

    def _action_space(self, rows: int) -> AgentSpace:
        choice: spaces.Discrete[np.int64] = spaces.Discrete(rows)
        if self.is_one_number:
            return choice
        name, count = ("scores", rows) if self.acts_together else ("bid", 1)
        return spaces.Dict({"option": choice, name: spaces.Box(-np.inf, np.inf, (count,), np.float32)})

    @property
    def mask_name(self) -> str:
        """The mask's name in observations: PettingZoo knows `action_mask` for actions that are one number."""
        return "action_mask" if self.is_one_number else "mask"

    def _mask(self, n: int) -> npt.NDArray[np.int8]:
        """int8[1 + max_options]: what a node may choose."""
        mask = padded_mask(1 + len(self._own[n]), 1 + self.max_options)
        if len(self._own[n]) > 0 and self._waiting[n] < 0:
            mask[0] = 0
        return mask

    def _mend(self, actions: dict[str, OptionAction]) -> tuple[dict[str, OptionAction], list[str]]:
        """Replace choices that are not allowed by waiting or, where that is not allowed, by the first option."""
        mended, wrong = dict(actions), []
        for n, agent in enumerate(self.possible_agents):
            choice, values = self._read(agent, actions[agent])
            mask = self._mask(n)
            if 0 <= choice < len(mask) and mask[choice] and not np.isnan(values).any():
                continue
            if self.illegal == "raise":
                raise MurmurationError(
                    f"action {actions[agent]} of {agent} is not allowed; choose an option where {self.mask_name} is 1"
                    + ("" if self.is_one_number else ", and numbers beside it")
                )
            wrong.append(agent)
            first = int(np.argmax(mask))
            lowest = {"scores": np.zeros(len(mask))} if self.acts_together else {"bid": -np.inf}
            mended[agent] = first if self.is_one_number else {"option": first, **lowest}
        return mended, wrong

    def _read(self, agent: str, action: OptionAction) -> tuple[int, FloatArray]:
        """Return the choice of an action, and its bid or scores."""
        if self.is_one_number:
            return read_action(agent, action, "", 0)
        return read_action(agent, action, *(("scores", 1 + self.max_options) if self.acts_together else ("bid", 1)))

    def _apply(self, actions: dict[str, OptionAction]) -> tuple[float, float, bool]:
        """Carry out the choice that counts, or all."""
        if self.acts_together:
            return self._apply_all(actions)
        n = self.turn if self.takes_turns else self._winner(actions)
        choice, _ = self._read("", actions[self.possible_agents[n]])
        place = int(self._own[n][choice - 1]) if choice > 0 else 0
        reward, elapsed, ended = self.batch.step(np.array([place]))
        self._look()
        return float(reward[0]), float(elapsed[0]), bool(ended[0])

    def _apply_all(self, actions: dict[str, OptionAction]) -> tuple[float, float, bool]:
        """Carry out the choices of all nodes."""
        chosen, scores = np.full(self.cluster.num_nodes, -1), np.full(len(self._present.what), -np.inf)
        for n, agent in enumerate(self.possible_agents):
            choice, values = self._read("", actions[agent])
            own = self._own[n][: self.max_options]
            if len(own):
                chosen[n] = own[choice - 1] if choice > 0 else self._waiting[n]
            if len(values):
                scores[own] = values[1 : 1 + len(own)]
                scores[self._waiting[n]] = values[0] if self._waiting[n] >= 0 else scores[self._waiting[n]]
        reward, elapsed, ended, self._lost = self.batch.step_together(chosen, scores)
        self._look()
        return float(reward[0]), float(elapsed[0]), bool(ended[0])

    def _winner(self, actions: dict[str, OptionAction]) -> int:
        """Return the node with the highest bid of those that have an option, the lowest of equals."""
        bids = {
            n: float(self._read("", actions[agent])[1][0])
            for n, agent in enumerate(self.possible_agents)
            if len(self._own[n])
        }
        return max(bids, key=lambda n: (bids[n], -n))

    def _observations(self) -> dict[str, AgentObservation]:
        options, rows = self._present, 1 + self.max_options
        found: dict[str, AgentObservation] = {}
        for n, agent in enumerate(self.possible_agents):
            own = self._own[n][: self.max_options]
            shown = np.zeros((1 + len(own), options.options.shape[1]), np.float32)
            shown[0] = options.options[self._waiting[n]] if self._waiting[n] >= 0 else 0.0
            shown[1:] = options.options[own]
            jobs = np.zeros((1 + len(own), options.jobs.shape[1]), np.float32)
            jobs[1:] = job_rows(options, own)
            found[agent] = {
                "node": options.nodes[n].copy(),
                "options": padded_rows(shown, rows),
                "jobs": padded_rows(jobs, rows),
                "cluster": options.cluster.copy(),
                self.mask_name: self._mask(n),
            }
        if self.acts_together:
            edges, jobs_of = self._graph()
            for n, agent in enumerate(self.possible_agents):
                found[agent]["edges"] = edges[n].copy()
                found[agent]["option_jobs"] = renumbered(jobs_of[n]) if self.rules.view == "own" else jobs_of[n].copy()
        return found

    def coordination_graph(self) -> tuple[IntArray, IntArray]:
        """Return the graphs of this decision, without padding.

        Returns:
            int64[2, E], sources and targets of the links between nodes, and int64[2, P], nodes and the rows of the jobs
            in `state` for which they have options.
        """
        wanted = wanted_jobs(self._present.node_of, self._present.job_of)
        return linked_nodes(wanted, np.array([self.cluster.num_nodes])), wanted

    def _graph(self) -> tuple[IntArray, IntArray]:
        """Return int64[num_nodes, max_links] and int64[num_nodes, 1 + max_options], -1 where there is none."""
        options, count = self._present, self.cluster.num_nodes
        wanted = wanted_jobs(options.node_of, options.job_of)
        sources, targets = linked_nodes(wanted, np.array([count]), self.max_links)
        edges, jobs_of = np.full((count, self.max_links), -1), np.full((count, 1 + self.max_options), -1)
        edges[targets, np.arange(len(targets)) - starts(targets, count)[targets]] = sources
        for n, own in enumerate(self._own):
            own = own[: self.max_options]
            jobs_of[n, 1 : 1 + len(own)] = options.job_of[own]
        return edges, jobs_of

    def _counters(self) -> dict[str, int]:
        counters = self.batch.counters()
        return {**counters, "unlisted": counters.pop("left_out"), "turn": self.turn}

    def _agent_info(self, n: int) -> dict[str, Any]:
        lost = {"lost": int(self._lost[n])} if self.acts_together else {}
        return {"left_out": max(len(self._own[n]) - self.max_options, 0), **lost}

    def state(self) -> npt.NDArray[np.float32]:
        """Return float32[...]: nodes, jobs and the cluster, flat, for central critics, see `state_parts`.

        Where nodes act together, `edges` and `option_jobs` of all nodes follow.
        """
        rows = joint_state(self.batch, self._present)
        if not self.acts_together:
            return rows
        return np.concatenate((rows, *(part.ravel() for part in self._graph())), dtype=np.float32)

    def state_parts(self, state: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the parts of a joint state: a row for each node and job, the cluster, and the graph."""
        found, begin = {}, 0
        for name, shape in self._state_shapes().items():
            end = begin + math.prod(shape)
            found[name], begin = state[begin:end].reshape(shape), end
        return found

    def _state_shapes(self) -> dict[str, tuple[int, ...]]:
        nodes = self.cluster.num_nodes
        graph = {"edges": (nodes, self.max_links), "option_jobs": (nodes, 1 + self.max_options)}
        return {**state_shapes(self.batch), **(graph if self.acts_together else {})}

    def _state_size(self) -> int:
        return sum(math.prod(shape) for shape in self._state_shapes().values())


def renumbered(rows: IntArray) -> IntArray:
    """Return the numbers of jobs counted from 0 in their order, so that they tell nothing of other jobs; -1 stays."""
    found = rows.copy()
    found[rows >= 0] = np.unique(rows[rows >= 0], return_inverse=True)[1]
    return found


def read_action(agent: str, action: OptionAction, name: str, count: int) -> tuple[int, FloatArray]:
    """Return the choice of an action, and float64[count], the numbers under a name beside it.

    Raises:
        MurmurationError: it has another form.
    """
    try:
        if not count:
            return int(cast(int, action)), np.zeros(0)
        parts = cast(Mapping[str, Any], action)
        return int(parts["option"]), np.asarray(parts[name], np.float64).reshape(count)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        form = f'{{"option": number, "{name}": float32[{count}]}}' if count else "one number"
        raise MurmurationError(f"action of {agent} is {action!r}; give {form}") from error


parallel_env = OptionEnv  # PettingZoo's usual name


def raw_env(**options: Any) -> AECEnv:
    """Return the environment with nodes that act one after another (PettingZoo's AEC); options of `OptionEnv`.

    In an auction and together all nodes act in every decision. Where nodes take turns, the one whose turn it is acts.
    """
    parallel = OptionEnv(**options)
    return NodesInTurn(parallel) if parallel.takes_turns else as_turns(parallel)


def env(**options: Any) -> AECEnv:
    """Return `raw_env` with checks of the order of calls."""
    return OrderEnforcingWrapper(raw_env(**options))
