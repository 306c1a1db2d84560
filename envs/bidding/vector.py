"""The Gymnasium `VectorEnv` of the bidding environment: one agent bids for all nodes; one call steps many episodes."""

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envs.bidding import columns
from envs.bidding.auction import BidObservation, check_actions, check_form
from envs.bidding.batch import BiddingBatch
from envs.bidding.spec import BiddingRules, BiddingSpec
from envs.episodes import EpisodeVectorEnv, Reward
from envs.episodes.candidates import Features
from envs.episodes.defaults import Illegal
from envs.simulation import Setup
from envs.simulation.seen.market import Market
from envs.types import BoolArray, FloatArray, IntArray
from envs.workloads import WorkloadSource


def features_box(*shape: int) -> spaces.Box:
    """A space of features."""
    return spaces.Box(-columns.LIMIT, columns.LIMIT, shape, np.float32)


def bids_box(*shape: int) -> spaces.Box:
    """A space of actions."""
    return spaces.Box(-1.0, 1.0, shape, np.float32)


def joint_bid_spaces(spec: BiddingSpec) -> tuple[spaces.Dict, spaces.Box]:
    """Return the spaces of one episode's joint observation and joint action."""
    nodes, pairs, edges = spec.num_nodes, spec.num_pairs, spec.most_edges
    observation = spaces.Dict(
        {
            "jobs": features_box(spec.num_job_rows, len(columns.JOB_COLUMNS)),
            "nodes": features_box(nodes, len(columns.NODE_COLUMNS)),
            "pairs": features_box(nodes, pairs, len(columns.PAIR_COLUMNS)),
            "pair_jobs": spaces.Box(-1, spec.num_job_rows - 1, (nodes, pairs), np.int32),
            "cluster": features_box(len(columns.CLUSTER_COLUMNS)),
            "edges": spaces.Box(-1, nodes - 1, (2, edges), np.int32),
            "edge_features": features_box(edges, len(columns.EDGE_COLUMNS)),
            "num_edges": spaces.Box(0, edges, (1,), np.int32),
        }
    )
    return observation, bids_box(nodes, pairs, spec.num_bids)


class BiddingVectorEnv(EpisodeVectorEnv[BiddingBatch, Features]):
    """`num_envs` episodes of the joint problem. An ended episode restarts at the next step (NEXT_STEP).

    The other arguments are those of `EpisodeVectorEnv`.

    Args:
        setup: the cluster, the performance model and the scenario.
        num_envs: number of episodes in one call.
        market: what clears the bids; `FifoMarket()` if None.
        rules: see its class.
        reward: see its class.
    """

    def __init__(
        self,
        setup: Setup,
        source: WorkloadSource,
        num_envs: int = 1,
        market: Market | None = None,
        rules: BiddingRules | None = None,
        reward: Reward | None = None,
        group_size: int = 1,
        split: str = "train",
        seed: int = 0,
        illegal: Illegal = "nothing",
        illegal_penalty: float = 0.0,
    ) -> None:
        batch = BiddingBatch(setup, source.models, source.num_jobs, num_envs, market, rules, reward)
        super().__init__(batch, source, group_size, split, seed, illegal, illegal_penalty)
        self.single_observation_space, self.single_action_space = joint_bid_spaces(batch.spec)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _apply(
        self, actions: Features, fresh: npt.NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Apply joint actions float32[num_envs, num_nodes, num_pairs, num_bids]."""
        return self.batch.step(actions)

    def _mend(self, actions: Features, fresh: BoolArray) -> tuple[Features, IntArray]:
        """Replace the bids of nodes that leave the space by none."""
        shape = self.batch.auction.action_shape
        check_form(actions, shape)
        if self.illegal == "raise":
            check_actions(actions, shape)
            return actions, np.zeros(self.num_envs, np.int64)
        inside: BoolArray = np.asarray((np.abs(actions) <= 1.0).all(axis=(2, 3)))  # NaN is outside
        if inside.all():
            return actions, np.zeros(self.num_envs, np.int64)
        mended: Features = np.where(inside[:, :, None, None], actions, np.float32(0.0))
        return mended, (~inside & ~fresh[:, None]).sum(axis=1)

    def _observation(self) -> BidObservation:
        return {name: array.copy() for name, array in self.batch.observation.items()}
