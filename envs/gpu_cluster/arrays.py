"""What the environment's kernels read and write, under one name."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from envs.gpu_cluster.spec import QUEUE_ORDERS, DecisionRules, EnvSpec
from envs.simulation import SpeedTable, State
from envs.simulation.jit import leaf
from envs.simulation.world import World, batch_world, episode_of
from envs.types import FloatArray, IntArray

Records = Any
Features = npt.NDArray[np.float32]
Mask = npt.NDArray[np.int8]

RULES = np.dtype(
    (
        np.record,
        [
            ("max_decisions", np.int64),
            ("queue_order", np.int64),  # index into spec.QUEUE_ORDERS
            ("preemptive", np.int64),
            ("elastic", np.int64),
            ("seen", np.int64),  # whether the slots were written at this instant, so that only the plan can differ
            # Counters of the episode.
            ("decision", np.int64),  # joint decisions taken in this round so far
            ("decisions", np.int64),
            ("claims", np.int64),  # choices other than nothing
            ("conflicts", np.int64),  # claims refused because another server's won
            ("incomplete", np.int64),  # jobs whose claims never reached their least GPUs by the end of a round
        ],
    ),
    align=True,
)


class EnvArrays(NamedTuple):
    """A world, the rules of deciding on it, and what is observed and chosen; of one episode or of a batch.

    In a batch every array but the world's tables has a leading axis; `episode_arrays` takes one episode out.
    """

    world: World
    rules: Records  # RULES [1]
    heads: IntArray  # [num_candidates]: jobs behind the rows of `queue`, -1 where there is none
    keys: FloatArray  # [num_candidates]
    choice: IntArray  # [num_servers]: -1 for nothing
    gpus: IntArray  # [num_servers]
    scratch: IntArray  # [3, num_servers]
    equals: IntArray  # [num_gpu_types, most GPUs of a node + 1]: servers of a kind counted so far
    first_claim: IntArray  # [num_candidates]: lists of servers by the candidate that they claim
    servers: Features  # [num_servers, F_server]
    slots: Features  # [num_servers, num_slots, F_slot]
    queue: Features  # [num_candidates, F_job]
    cluster: Features  # [F_cluster]
    mask: Mask  # [num_servers, num_actions]


def allocate(state: State, spec: EnvSpec, rules: DecisionRules, table: SpeedTable) -> EnvArrays:
    """Arrays for all episodes of a state."""
    batch, servers = state.nodes.shape
    records = np.zeros((batch, 1), RULES)
    records["max_decisions"] = rules.max_decisions
    records["queue_order"] = QUEUE_ORDERS.index(rules.queue_order)
    records["preemptive"] = rules.preemptive
    records["elastic"] = rules.elastic
    return EnvArrays(
        world=batch_world(state, table),
        rules=records,
        heads=np.full((batch, spec.num_candidates), -1, np.int64),
        keys=np.zeros((batch, spec.num_candidates)),
        choice=np.zeros((batch, servers), np.int64),
        gpus=np.zeros((batch, servers), np.int64),
        scratch=np.zeros((batch, 3, servers), np.int64),
        equals=np.zeros((batch, spec.num_gpu_types, spec.node_gpus + 1), np.int64),
        first_claim=np.zeros((batch, spec.num_candidates), np.int64),
        servers=np.zeros((batch, servers, spec.server_features), np.float32),
        slots=np.zeros((batch, servers, spec.num_slots, spec.slot_features), np.float32),
        queue=np.zeros((batch, spec.num_candidates, spec.job_features), np.float32),
        cluster=np.zeros((batch, spec.cluster_features), np.float32),
        mask=np.zeros((batch, servers, spec.num_actions), np.int8),
    )


@leaf
def episode_arrays(batch: EnvArrays, b: int) -> EnvArrays:
    """One episode of a batch."""
    return EnvArrays(
        episode_of(batch.world, b),
        batch.rules[b],
        batch.heads[b],
        batch.keys[b],
        batch.choice[b],
        batch.gpus[b],
        batch.scratch[b],
        batch.equals[b],
        batch.first_claim[b],
        batch.servers[b],
        batch.slots[b],
        batch.queue[b],
        batch.cluster[b],
        batch.mask[b],
    )
