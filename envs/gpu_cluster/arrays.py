"""The arrays that the environment's kernels read and write."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from envs.episodes.candidates import QUEUE_ORDERS, Features
from envs.episodes.coupling import SUM_WITH_TRAFFIC
from envs.gpu_cluster.spec import DecisionRules, EnvSpec
from envs.simulation import State, ThroughputTable
from envs.simulation.by_reference import by_reference
from envs.simulation.jit import Records, leaf
from envs.simulation.world import World, batch_world, episode_of
from envs.types import FloatArray, IntArray

Mask = npt.NDArray[np.int8]

RULES = np.dtype(
    (
        np.record,
        [
            ("max_decisions", np.int64),
            ("queue_order", np.int64),  # index into QUEUE_ORDERS
            ("preemptive", np.int64),
            ("elastic", np.int64),
            (
                "seen",
                np.int64,
            ),  # whether the slots have been written at this instant, so only the plan can have changed
            # Counters of the episode.
            ("decision", np.int64),  # joint decisions in this round so far
            ("decisions", np.int64),
            ("claims", np.int64),  # choices other than passing
            ("conflicts", np.int64),  # claims that were refused because another node's claim won
            ("incomplete", np.int64),  # jobs that had fewer than their minimum GPUs at the end of a round
        ],
    ),
    align=True,
)


# Rows of `EnvArrays.scratch`, by node.
(
    CLAIM_DONE,  # 1 once its claim has been granted or refused
    SLOT_JOB,  # the job in the slot that it has chosen, -1 for none
    NEXT_CLAIM,  # the next node that claims the same candidate, -1 for none
) = range(3)


@by_reference
class EnvArrays(NamedTuple):
    """The engine's arrays, the decision rules, observations and choices, of one episode or of a batch.

    In a batch every array except the engine's tables has a leading axis; `episode_arrays` takes out one episode.
    """

    world: World
    rules: Records  # RULES [1]
    heads: IntArray  # [num_candidates]: jobs behind the rows of `queue`, -1 where there is none
    keys: FloatArray  # [num_candidates]
    choice: IntArray  # [num_nodes]: -1 for passing
    gpus: IntArray  # [num_nodes]
    scratch: IntArray  # [3, num_nodes]: rows CLAIM_DONE, SLOT_JOB and NEXT_CLAIM
    equals: (
        IntArray  # [num_gpu_types, most GPUs of a node + 1]: nodes of this type with so many free GPUs, counted so far
    )
    first_claim: IntArray  # [num_candidates]: the first node that claims a candidate, -1 if none
    nodes: Features  # [num_nodes, F_node]
    slots: Features  # [num_nodes, num_slots, F_slot]
    queue: Features  # [num_candidates, F_job]
    cluster: Features  # [F_cluster]
    effects: Features  # [num_nodes, num_choices, F_effect]; F_effect is 0 without `DecisionRules.effects`
    sums: FloatArray  # [5]: of the present node, see `envs.episodes.coupling`
    mask: Mask  # [num_nodes, num_actions]


def allocate(state: State, spec: EnvSpec, rules: DecisionRules, table: ThroughputTable) -> EnvArrays:
    """Allocate arrays for all episodes of a state."""
    batch, nodes = state.nodes.shape
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
        choice=np.zeros((batch, nodes), np.int64),
        gpus=np.zeros((batch, nodes), np.int64),
        scratch=np.zeros((batch, NEXT_CLAIM + 1, nodes), np.int64),
        equals=np.zeros((batch, spec.num_gpu_types, spec.node_gpus + 1), np.int64),
        first_claim=np.zeros((batch, spec.num_candidates), np.int64),
        nodes=np.zeros((batch, nodes, spec.node_features), np.float32),
        slots=np.zeros((batch, nodes, spec.num_slots, spec.slot_features), np.float32),
        queue=np.zeros((batch, spec.num_candidates, spec.job_features), np.float32),
        cluster=np.zeros((batch, spec.cluster_features), np.float32),
        effects=np.zeros((batch, nodes, spec.num_choices, spec.effect_features), np.float32),
        sums=np.zeros((batch, SUM_WITH_TRAFFIC + 1)),
        mask=np.zeros((batch, nodes, spec.num_actions), np.int8),
    )


@leaf
def episode_arrays(batch: EnvArrays, b: int) -> EnvArrays:
    """Return the arrays of one episode of a batch."""
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
        batch.nodes[b],
        batch.slots[b],
        batch.queue[b],
        batch.cluster[b],
        batch.effects[b],
        batch.sums[b],
        batch.mask[b],
    )
