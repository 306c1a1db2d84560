"""The arrays that the kernels of the options read and write."""

from typing import NamedTuple

import numpy as np

from envs.episodes.candidates import QUEUE_ORDERS, Features
from envs.episodes.coupling import SUM_WITH_TRAFFIC
from envs.episodes.hidden import Doubt
from envs.options.rules import CHANGES, CONTESTED, IDLE, LOSERS, PLACINGS, TURNS, OptionRules
from envs.options.spec import OptionSpec
from envs.options.tuning import TuningTable, tunings_under
from envs.simulation import Setup, State, ThroughputTable
from envs.simulation.compiled.jit import Records, leaf
from envs.simulation.known.predictions import QUARTILES
from envs.simulation.world.arrays import World, episode_of
from envs.types import ClusterSpec, FloatArray, IntArray

RULES = np.dtype(
    (
        np.record,
        [
            ("changes", np.int64),  # index into CHANGES
            ("idle", np.int64),  # index into IDLE
            ("patience", np.float64),
            ("queue_order", np.int64),  # index into QUEUE_ORDERS
            ("max_starts", np.int64),
            ("max_decisions", np.int64),
            ("at_once", np.int64),
            ("distinct_nodes", np.int64),
            ("tune", np.int64),
            ("turn", np.int64),  # index into TURNS
            ("subrounds", np.int64),
            ("losers", np.int64),  # index into LOSERS
            ("contested", np.int64),  # index into CONTESTED
            ("ranks", np.int64),
            ("sees_own", np.int64),  # whether a node sees its own alone
            ("share", np.int64),
            ("room", np.int64),  # for options, without the waiting of each node that acts together
            ("placing", np.int64),  # index into PLACINGS
            ("node_gpus", np.int64),  # GPUs of the largest node
            ("pauses", np.int64),  # whether Python lets time pass: throughputs are hidden, or work is predicted
            # The present round.
            ("decision", np.int64),  # options carried out so far
            ("subround", np.int64),  # of nodes that act together, from 0
            ("gang", np.int64),  # a job that has fewer GPUs in the draft than it needs, -1 for none
            ("last_node", np.int64),  # the node whose turn was last, -1 for none; only where nodes take turns
            ("active", np.int64),  # jobs in the system; the next four: see `envs.options.units`
            ("time_unit", np.float64),
            ("gpu_time_unit", np.float64),
            ("age_unit", np.float64),
            ("service_unit", np.float64),
            # The present decision.
            ("turn_of", np.int64),  # the node whose turn it is, -1 for none
            ("num_options", np.int64),
            ("num_jobs", np.int64),  # rows of jobs
            ("num_candidates", np.int64),  # of these, the first ones: jobs that wait, in queue order
            ("waiting", np.int64),  # all jobs that wait
            ("beyond", np.int64),  # of these, jobs that the free GPUs could hold and that are no candidates
            ("missing", np.int64),  # options that did not fit into the arrays
            # Counters of the episode.
            ("decisions", np.int64),  # decisions with two or more options
            ("broken_gangs", np.int64),  # gangs that no further node could join
            ("full_lists", np.int64),  # decisions with jobs `beyond` the candidates
            ("full_rounds", np.int64),  # rounds that ended after the most decisions though there were options left
            ("left_out", np.int64),  # options that did not fit into the arrays, over all decisions
            ("claims", np.int64),  # choices other than waiting of nodes that act together
            ("lost_claims", np.int64),  # of these, those that got nothing
            ("second_choices", np.int64),  # of these, those that got their next best option
        ],
    ),
    align=True,
)
COUNTERS = (
    "decisions",
    "broken_gangs",
    "full_lists",
    "full_rounds",
    "left_out",
    "claims",
    "lost_claims",
    "second_choices",
)
# Columns of `OptionArrays.what`.
# Kind, row of the job (-1: none), node, GPUs there; for tuning the number of the tuning (`envs.options.tuning`), for
# sharing the job whose GPUs are shared.
OPTION_ACTION, OPTION_ROW, OPTION_NODE, OPTION_AMOUNT = range(4)


class KeptRows(NamedTuple):
    """The rows of the decision before, from which those that have not changed are copied; see `envs.options.carrying`.

    Part of the workspace: whichever decision wrote rows last is the one before.

    Attributes:
        clock: int64[5]: changes of drafts so far; their number when rows were kept; whether any are; rows of jobs kept;
            which half of what others keep beside rows is that of the present decision.
        changed_jobs, changed_nodes: int64[num_jobs] and int64[num_nodes], the number of the last change of each.
        what, options, job_ids, jobs: copies of the fields of this name.
        row_of: int64[num_jobs], the row of each job in `jobs`, if `job_ids` confirms it.
        first_option: int64[num_rows + 1], the first option of each job; the last entry is the end.
        option_before, job_before: int64[capacity] and int64[num_rows], the kept row that each row equals, except for
            jobs in `CHANGING_JOB`; -1 for none.
        node_before: int64[num_nodes], the node if its row is the one before, else -1.
    """

    clock: IntArray
    changed_jobs: IntArray
    changed_nodes: IntArray
    what: IntArray
    options: Features
    job_ids: IntArray
    jobs: Features
    row_of: IntArray
    first_option: IntArray
    option_before: IntArray
    job_before: IntArray
    node_before: IntArray


class JointClaims(NamedTuple):
    """Working memory for nodes that act together; see `envs.options.together`.

    Attributes:
        first: int64[num_nodes + 1], the first option of each node; the last entry is the end.
        place: int64[num_nodes].
        claims: int64[num_nodes], the nodes that claim something, by falling margin.
        margins: float64[num_nodes], of these.
        given: int64[num_jobs], the kind of what was carried out for a job in this sub-round, 0 for nothing.
        lost: int64[num_nodes], 1 for a node whose claim got nothing.
        log_probability: float64[num_nodes], of what each node has chosen; only policies write it.
        chosen: int64[num_nodes], the place of the option of each node, -1 for a node without options.
        scores: float64[capacity], of the listed options.
    """

    first: IntArray
    place: IntArray
    claims: IntArray
    margins: FloatArray
    given: IntArray
    lost: IntArray
    log_probability: FloatArray
    chosen: IntArray
    scores: FloatArray


class OptionArrays(NamedTuple):
    """The engine's arrays, the rules, and the options of one decision.

    `world`, `rules`, `refused` and `waited` hold one episode or, with a leading axis, a batch; `option_arrays` takes
    out one episode. The others are a workspace, overwritten by each decision of each episode: of `options` and `what`
    the first `rules.num_options` rows count, of `jobs` and `job_ids` the first `rules.num_jobs`.
    """

    world: World
    rules: Records  # RULES [1]
    refused: IntArray  # [num_jobs]: the last round in which a gang of this job was given up, plus 1
    waited: IntArray  # [num_nodes]: 1 for a node whose part of the round has ended; only where nodes take turns
    heads: IntArray  # [num_candidates]: the first waiting jobs, -1 where there is none
    keys: FloatArray  # [num_candidates]
    what: IntArray  # [capacity, 4]: see OPTION_ACTION
    options: Features  # [capacity, option_features], see `OptionSpec`
    job_ids: IntArray  # [num_rows]: jobs behind the rows of `jobs`
    jobs: Features  # [num_rows, job_features]
    nodes: Features  # [num_nodes, NUM_NODE_COLUMNS]
    cluster: Features  # [NUM_CLUSTER_COLUMNS]
    sums: FloatArray  # [num_nodes + 1, 5]: see `envs.episodes.coupling`; the last row is scratch
    equals_before: IntArray  # [num_nodes]: 1 for an empty node that equals an empty one of lower index, or has waited
    classes: IntArray  # [num_nodes]: nodes of one class have equal hardware
    seen: IntArray  # [num_classes]
    type_throughput: FloatArray  # [num_gpu_types]: see NODE_TYPE_THROUGHPUT
    tunings: TuningTable
    doubt: Doubt  # without rows where throughputs are exact
    likely: FloatArray  # float64[B, num_jobs, 2], see `quantiles_left`; without jobs where no work is predicted
    kept: KeptRows
    joint: JointClaims


def allocate_options(
    state: State, world: World, rules: OptionRules, setup: Setup, table: ThroughputTable, capacity: int
) -> OptionArrays:
    """Allocate arrays for all episodes of a state, for at most `capacity` options of a decision.

    Args:
        state: the episodes.
        world: the state and its tables for kernels.
        rules: see its class.
        setup: of the episodes.
        table: throughputs of the models that may be tuned.
        capacity: options of a decision, at most.
    """
    spec, candidates = OptionSpec(), rules.candidates(setup.cluster)
    batch, nodes = state.nodes.shape
    rows = min(candidates + (1 + rules.share) * int(state.nodes["num_gpus"][0].sum()), state.jobs.shape[1])
    classes = node_classes(state)
    room, capacity = capacity, capacity + nodes * (rules.turn == "together")
    return OptionArrays(
        world=world,
        rules=_records(state, rules, setup, room),
        refused=np.zeros(state.jobs.shape, np.int64),
        waited=np.zeros((batch, nodes), np.int64),
        heads=np.full(candidates, -1, np.int64),
        keys=np.zeros(candidates),
        what=np.zeros((capacity, OPTION_AMOUNT + 1), np.int64),
        options=np.zeros((capacity, spec.option_features), np.float32),
        job_ids=np.zeros(rows, np.int64),
        jobs=np.zeros((rows, spec.job_features), np.float32),
        nodes=np.zeros((nodes, spec.node_features), np.float32),
        cluster=np.zeros(spec.cluster_features, np.float32),
        sums=np.zeros((nodes + 1, SUM_WITH_TRAFFIC + 1)),
        equals_before=np.zeros(nodes, np.int64),
        classes=classes,
        seen=np.zeros(classes.max() + 1, np.int64),
        type_throughput=np.zeros(state.room.shape[1]),
        tunings=tunings_under(rules, setup, table),
        doubt=no_doubt(),
        likely=np.zeros((batch, 0, len(QUARTILES))),
        kept=_no_rows(state.jobs.shape[1], nodes, capacity, rows, spec),
        joint=_no_claims(state.jobs.shape[1], nodes, capacity),
    )


def _records(state: State, rules: OptionRules, setup: Setup, room: int) -> Records:
    """Return the rules of every episode, RULES [B, 1]."""
    records = np.zeros((len(state.nodes), 1), RULES)
    records["changes"] = CHANGES.index(rules.changes_in(setup))
    records["queue_order"] = QUEUE_ORDERS.index(rules.queue_order)
    records["idle"] = IDLE.index(rules.idle)
    records["patience"] = rules.patience
    records["max_starts"] = rules.max_starts
    records["max_decisions"] = rules.decisions(setup.cluster)
    records["at_once"] = rules.at_once(setup.cluster)
    records["distinct_nodes"] = rules.distinct_nodes
    records["tune"] = rules.tune
    records["share"] = rules.shares(setup)
    records["turn"] = TURNS.index(rules.turn)
    records["subrounds"], records["ranks"] = rules.subrounds, rules.ranks and rules.turn == "together"
    records["losers"] = LOSERS.index(rules.losers)
    records["contested"] = CONTESTED.index(rules.contested)
    records["sees_own"] = rules.view == "own"
    records["room"] = room
    records["placing"] = PLACINGS.index(rules.placing)
    records["node_gpus"] = state.nodes["num_gpus"][0].max()
    for name in ("gang", "last_node", "turn_of"):
        records[name] = -1
    return records


def _no_claims(num_jobs: int, num_nodes: int, capacity: int) -> JointClaims:
    def whole(size: int) -> IntArray:
        return np.zeros(size, np.int64)

    return JointClaims(
        first=whole(num_nodes + 1),
        place=whole(num_nodes),
        claims=whole(num_nodes),
        margins=np.zeros(num_nodes),
        given=whole(num_jobs),
        lost=whole(num_nodes),
        log_probability=np.zeros(num_nodes),
        chosen=whole(num_nodes),
        scores=np.zeros(capacity),
    )


def no_doubt() -> Doubt:
    """Return what is known of throughputs that are exact: without rows, all of it."""
    return Doubt(np.zeros((0, 1, 1, 1)), np.zeros((0, 1, 1, 1), np.int64))


def _no_rows(num_jobs: int, num_nodes: int, capacity: int, rows: int, spec: OptionSpec) -> KeptRows:
    return KeptRows(
        clock=np.zeros(5, np.int64),
        changed_jobs=np.zeros(num_jobs, np.int64),
        changed_nodes=np.zeros(num_nodes, np.int64),
        what=np.zeros((capacity, OPTION_AMOUNT + 1), np.int64),
        options=np.zeros((capacity, spec.option_features), np.float32),
        job_ids=np.zeros(rows, np.int64),
        jobs=np.zeros((rows, spec.job_features), np.float32),
        row_of=np.zeros(num_jobs, np.int64),
        first_option=np.zeros(rows + 1, np.int64),
        option_before=np.zeros(capacity, np.int64),
        job_before=np.zeros(rows, np.int64),
        node_before=np.zeros(num_nodes, np.int64),
    )


def node_classes(state: State) -> IntArray:
    """Return int64[num_nodes]: a number for each node, the same for nodes of equal hardware."""
    fields = [state.nodes[name][0] for name in ("gpu_type", "num_gpus", "cpus", "memory", "link")]
    _, classes = np.unique(np.stack(fields, axis=1).astype(np.float64), axis=0, return_inverse=True)
    return classes.reshape(-1).astype(np.int64)


@leaf
def option_arrays(batch: OptionArrays, b: int) -> OptionArrays:
    """Return the arrays of one episode of a batch."""
    return OptionArrays(
        episode_of(batch.world, b),
        batch.rules[b],
        batch.refused[b],
        batch.waited[b],
        batch.heads,
        batch.keys,
        batch.what,
        batch.options,
        batch.job_ids,
        batch.jobs,
        batch.nodes,
        batch.cluster,
        batch.sums,
        batch.equals_before,
        batch.classes,
        batch.seen,
        batch.type_throughput,
        batch.tunings,
        batch.doubt,
        batch.likely[b],
        batch.kept,
        batch.joint,
    )


def fix_sizes(jobs: Records, rules: OptionRules, cluster: ClusterSpec) -> None:
    """Where jobs are placed by best fit, give them the one size that they request, unless no GPU type has so many GPUs.

    Args:
        jobs: records of an episode's jobs, changed in place.
        rules: see its class.
        cluster: the nodes.
    """
    if rules.placing == "best_fit":
        largest = np.bincount(cluster.node_types, cluster.node_gpus).max()
        for name in ("min_gpus", "max_gpus"):
            jobs[name] = np.where(jobs["num_gpus"] <= largest, jobs["num_gpus"], jobs[name])
