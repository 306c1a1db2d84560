"""The PettingZoo form of the bidding environment: one agent per node."""

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from pettingzoo import AECEnv

from envs.bidding import columns
from envs.bidding.batch import BiddingBatch
from envs.bidding.spec import BiddingRules
from envs.bidding.vector import bids_box, features_box
from envs.episodes import NodeParallelEnv, Reward
from envs.episodes.candidates import Features
from envs.episodes.defaults import Illegal
from envs.episodes.parallel import AgentObservation
from envs.episodes.scene import FREE, Scene
from envs.episodes.standard import as_turns, ordered_turns
from envs.simulation import Setup
from envs.simulation.seen.market import Market
from envs.types import MurmurationError
from envs.workloads import Workload, WorkloadSource

STATE_PARTS = ("nodes", "pairs", "jobs", "cluster")  # of the joint observation, in `state`


class BiddingEnv(NodeParallelEnv[BiddingBatch, Features]):
    """Nodes of a GPU cluster that bid for training jobs; a market turns all bids into one allocation per round.

    | | |
    |---|---|
    | agents | `node_0` ... `node_{N-1}`, one per node, all alive for the whole episode |
    | observation | dict per agent, see below; float32 except for the mask |
    | action | `Box(-1, 1, (S + K, 6 or 7), float32)`: what the node says about each job that it sees |
    | jobs seen | up to S jobs that run on this node, then K candidates, which all nodes see |
    | reward | shared: minus the integral of the number of jobs in the system, so the return is minus total JCT |
    | termination | all jobs done, or the horizon: unfinished jobs are charged up to it |
    | time | one step is one scheduling round: all nodes bid once, the market clears, time advances to the next round |

    Observation of an agent: `node` [F_node] this node, `pairs` [S + K, F_pair] each job as seen from this node, `jobs`
    [S + K, F_job] the same jobs by themselves, `cluster` [F_cluster] the shared features, `mask` int8[S + K] 1 for rows
    that hold a job. `envs.bidding.columns` explains all features, and the bids: affinity, appetite, priority, size,
    restart, cores, and the batch size where the scenario lets it be chosen. Bids of 0 everywhere leave the market's own
    decision, to the bit. S is the number of GPUs of the largest node, K is `BiddingRules.num_candidates`. Candidates
    that hold GPUs on the node stand in its slots only.

    `infos[agent]` holds `time` (s), `elapsed` (s in this step), the agent's `illegal` actions so far and `edges`, the
    number of directed edges in the coordination graph, which `coordination_graph` returns.

    An action outside its space counts as no bid (`illegal`); one of another shape or type is always an error.

    The other arguments are those of `NodeParallelEnv`.

    Args:
        market: what clears the bids; `FifoMarket()` if None.
        rules: see its class.
    """

    metadata: ClassVar[dict[str, Any]] = {**NodeParallelEnv.metadata, "name": "bidding_v0"}
    reminder = " (all 0 for no bid)"

    def __init__(
        self,
        setup: Setup | None = None,
        source: WorkloadSource | None = None,
        market: Market | None = None,
        rules: BiddingRules | None = None,
        reward: Reward | None = None,
        split: str = "train",
        seed: int | None = None,
        render_mode: str | None = None,
        max_cycles: int | None = None,
        illegal: Illegal = "nothing",
        illegal_penalty: float = 0.0,
    ) -> None:
        super().__init__(setup, source, reward, split, seed, render_mode, max_cycles, illegal, illegal_penalty)
        self._market, self._rules = market, rules
        self._last_bids: list[tuple[int, float]] = []

    def _load(self, workload: Workload) -> None:
        self._last_bids = []
        super()._load(workload)

    def _make_batch(self, num_jobs: int) -> BiddingBatch:
        return BiddingBatch(
            self.setup,
            self.source.models,
            num_jobs,
            market=self._market,
            rules=self._rules,
            reward=self._reward,
            logging=True,
        )

    def observation_space(self, agent: str) -> spaces.Dict:
        """Return bounds and shapes; the same object at every call."""
        return self._spaces[0][agent]

    def action_space(self, agent: str) -> spaces.Box:
        """Return the space of bids; those for empty rows have no effect."""
        return self._spaces[1][agent]

    @cached_property
    def _spaces(self) -> tuple[dict[str, spaces.Dict], dict[str, spaces.Box]]:
        rows, bids = self.batch.spec.num_pairs, self.batch.spec.num_bids
        observation = {
            agent: spaces.Dict(
                {
                    "node": features_box(len(columns.NODE_COLUMNS)),
                    "pairs": features_box(rows, len(columns.PAIR_COLUMNS)),
                    "jobs": features_box(rows, len(columns.JOB_COLUMNS)),
                    "cluster": features_box(len(columns.CLUSTER_COLUMNS)),
                    "mask": spaces.Box(0, 1, (rows,), np.int8),
                }
            )
            for agent in self.possible_agents
        }
        return observation, {agent: bids_box(rows, bids) for agent in self.possible_agents}

    def _mend(self, actions: dict[str, Features]) -> tuple[dict[str, Features], list[str]]:
        """Replace bids outside their space by none."""
        wrong = []
        for agent in self.possible_agents:
            action, space = np.asarray(actions[agent]), self.action_space(agent)
            if space.contains(action):
                continue
            if self.illegal == "raise" or action.shape != space.shape or action.dtype != np.float32:
                raise MurmurationError(
                    f"action of {agent} lies outside its space; give float32{list(space.shape)} in -1 ... 1"
                )
            wrong.append(agent)
        return {**actions, **{agent: np.zeros(self.action_space(agent).shape, np.float32) for agent in wrong}}, wrong

    def _apply(self, actions: dict[str, Features]) -> tuple[float, float, bool]:
        """Clear the bids of one round."""
        joint = np.stack([actions[agent] for agent in self.possible_agents])[None]
        if self.render_mode is not None:
            arrays = self.batch.auction.arrays
            self._last_bids = strongest_bids(joint[0], self.batch.observation["pair_jobs"][0], arrays.listed[0])
        reward, elapsed, ended = self.batch.step(joint)
        return float(reward[0]), float(elapsed[0]), bool(ended[0])

    def _observations(self) -> dict[str, AgentObservation]:
        arrays = self.batch.observation
        rows = arrays["pair_jobs"][0]
        present = rows >= 0
        jobs = np.where(present[:, :, None], arrays["jobs"][0][np.maximum(rows, 0)], np.float32(0.0))
        cluster = arrays["cluster"][0].copy()
        return {
            agent: {
                "node": arrays["nodes"][0, n].copy(),
                "pairs": arrays["pairs"][0, n].copy(),
                "jobs": jobs[n],
                "cluster": cluster,
                "mask": present[n].astype(np.int8),
            }
            for n, agent in enumerate(self.possible_agents)
        }

    def scene(self) -> Scene:
        """Return what a picture shows: the state, the coordination graph, and each node's strongest last bid."""
        edges, _ = self.coordination_graph()
        return Scene.of(self.batch.state, self.cluster, edges.T.astype(np.int64), self._last_bids)

    def _counters(self) -> dict[str, int]:
        return {"edges": int(self.batch.observation["num_edges"][0, 0])}

    def coordination_graph(self) -> tuple[npt.NDArray[np.int32], Features]:
        """Return the edges of this round, int32[2, num_edges] (source, target), and float32[num_edges, F_edge]."""
        arrays = self.batch.observation
        count = int(arrays["num_edges"][0, 0])
        edges, features = arrays["edges"][0, :, :count], arrays["edge_features"][0, :count]
        return edges.astype(np.int32), features.astype(np.float32)

    def state(self) -> npt.NDArray[np.float32]:
        """Return float32[...]: the joint observation of nodes, pairs, jobs and cluster, flat, for central critics."""
        arrays = self.batch.observation
        return np.concatenate([arrays[name][0].ravel() for name in STATE_PARTS], dtype=np.float32)

    def _state_size(self) -> int:
        return sum(getattr(self.batch.auction.arrays, name)[0].size for name in STATE_PARTS)


def strongest_bids(
    joint: Features, pair_jobs: npt.NDArray[np.generic], listed: npt.NDArray[np.generic]
) -> list[tuple[int, float]]:
    """Return for each node the job with the bid of largest size, and that bid; `FREE` and 0 where a node bids nothing.

    Args:
        joint: float32[num_nodes, num_pairs, num_bids].
        pair_jobs: int[num_nodes, num_pairs], the row of each pair's job, -1 for none.
        listed: int[num_job_rows], the job of each row.
    """
    found = []
    for bids, rows in zip(joint, pair_jobs.astype(np.int64), strict=True):
        sizes = np.where(rows[:, None] >= 0, np.abs(bids), 0.0)
        pair, bid = np.unravel_index(int(sizes.argmax()), sizes.shape)
        job = int(listed.astype(np.int64)[rows[pair]])
        found.append((job, float(bids[pair, bid])) if sizes[pair, bid] > 0 else (FREE, 0.0))
    return found


bidding_env = BiddingEnv  # PettingZoo's usual form of a name
parallel_env = BiddingEnv


def raw_env(**options: Any) -> AECEnv:
    """Return the environment with nodes that bid one after another (PettingZoo's AEC); options of `BiddingEnv`."""
    return as_turns(BiddingEnv(**options))


def env(**options: Any) -> AECEnv:
    """Return `raw_env` with checks of the order of calls."""
    return ordered_turns(BiddingEnv(**options))
