"""Feature rows carried over from one decision of a round to the next, by compiled kernels.

Within a round only drafts change. An option changes the draft of one job, and with it what the nodes hold on which the
job is before or after. Every other row of a job, a node or an option is the same in the next decision, except for what
depends on the place in the list (`CHANGING_JOB`).

The rows are equal to the bit to those that `write_features` writes anew.
"""

from envs.options.arrays import OPTION_ACTION, OPTION_AMOUNT, OPTION_NODE, OPTION_ROW, OptionArrays
from envs.options.columns import NODE_TYPE_THROUGHPUT
from envs.options.features import (
    compare_types,
    write_cluster,
    write_features,
    write_job,
    write_node,
    write_option,
    write_place,
)
from envs.simulation.compiled.jit import leaf, part

CHANGES, KEPT_AT, ARE_KEPT, KEPT_JOBS, HALF = range(5)  # of `KeptRows.clock`


@leaf
def note_change(a: OptionArrays, j: int) -> None:
    """Note that a job's draft has changed, or will at once; call it before its shares go and after they have come."""
    kept = a.kept
    kept.clock[CHANGES] += 1
    kept.changed_jobs[j] = kept.clock[CHANGES]
    share = a.world.jobs[j].first_share
    while share >= 0:
        kept.changed_nodes[a.world.shares[share].node] = kept.clock[CHANGES]
        share = a.world.shares[share].next_of_job


@leaf
def forget_kept_rows(a: OptionArrays) -> None:
    """Let the next decision write all its rows, as the first one of a round must."""
    a.kept.clock[ARE_KEPT] = 0


@leaf
def find_kept_jobs(a: OptionArrays) -> None:
    """Fill `job_before`."""
    kept = a.kept
    for row in range(a.rules[0].num_jobs):
        j = a.job_ids[row]
        before = kept.row_of[j]
        is_kept = before < kept.clock[KEPT_JOBS] and kept.job_ids[before] == j
        kept.job_before[row] = before if is_kept and kept.changed_jobs[j] <= kept.clock[KEPT_AT] else -1


@leaf
def find_kept_options(a: OptionArrays) -> None:
    """Fill `option_before`. The options of a job follow one another, in the same order in both lists."""
    kept = a.kept
    kept.option_before[0] = -1  # waiting, or the last option in its place
    row = -1
    place = 0
    end = 0
    for option in range(1, a.rules[0].num_options):
        kept.option_before[option] = -1
        if a.what[option, OPTION_ROW] != row:
            row = a.what[option, OPTION_ROW]
            before = kept.job_before[row]
            place = kept.first_option[before] if before >= 0 else 0
            end = kept.first_option[before + 1] if before >= 0 else 0
        if kept.changed_nodes[a.what[option, OPTION_NODE]] > kept.clock[KEPT_AT]:
            continue
        for i in range(place, end):
            if (
                kept.what[i, OPTION_NODE] == a.what[option, OPTION_NODE]
                and kept.what[i, OPTION_AMOUNT] == a.what[option, OPTION_AMOUNT]
                and kept.what[i, OPTION_ACTION] == a.what[option, OPTION_ACTION]
            ):
                kept.option_before[option] = i
                place = i + 1
                break


@leaf
def keep_rows(a: OptionArrays, is_read: bool) -> None:
    """Keep what the next decision needs of the present one, with its rows if they are read."""
    kept = a.kept
    for row in range(a.rules[0].num_jobs):
        kept.job_ids[row] = a.job_ids[row]
        kept.row_of[a.job_ids[row]] = row
        for c in range(a.jobs.shape[1] if is_read else 0):
            kept.jobs[row, c] = a.jobs[row, c]
    row = -1
    for option in range(1, a.rules[0].num_options):
        while row < a.what[option, OPTION_ROW]:
            row += 1
            kept.first_option[row] = option
        for i in range(OPTION_AMOUNT + 1):
            kept.what[option, i] = a.what[option, i]
        for c in range(a.options.shape[1] if is_read else 0):
            kept.options[option, c] = a.options[option, c]
    while row < a.rules[0].num_jobs:
        row += 1
        kept.first_option[row] = a.rules[0].num_options
    kept.clock[KEPT_AT] = kept.clock[CHANGES]
    kept.clock[ARE_KEPT] = 1
    kept.clock[KEPT_JOBS] = a.rules[0].num_jobs


@part
def carry_features(a: OptionArrays, is_read: bool) -> None:
    """Write all rows for the listed options; copy those that have not changed since the decision before.

    Call `forget_kept_rows` at the beginning of a round, and when another episode has used the workspace.

    Args:
        a: the episode.
        is_read: the same in all decisions of a round. If false, rows that have not changed are not copied either, for a
            caller that has kept what follows from them (`KeptRows.option_before`).
    """
    kept = a.kept
    kept.clock[HALF] = 1 - kept.clock[HALF]
    if kept.clock[ARE_KEPT] == 0:
        write_features(a)
        for option in range(a.rules[0].num_options):
            kept.option_before[option] = -1
        for row in range(a.rules[0].num_jobs):
            kept.job_before[row] = -1
        for n in range(len(a.nodes)):
            kept.node_before[n] = -1
        keep_rows(a, is_read)
        return
    compare_types(a)
    for n in range(len(a.nodes)):
        value = a.nodes[n, NODE_TYPE_THROUGHPUT]
        kept.node_before[n] = n
        if kept.changed_nodes[n] > kept.clock[KEPT_AT]:
            write_node(a, n)
            kept.node_before[n] = -1
        if a.rules[0].sees_own == 0:
            a.nodes[n, NODE_TYPE_THROUGHPUT] = a.type_throughput[a.world.nodes[n].gpu_type]
        if value != a.nodes[n, NODE_TYPE_THROUGHPUT]:
            kept.node_before[n] = -1
    write_cluster(a)
    find_kept_jobs(a)
    for row in range(a.rules[0].num_jobs):
        before = kept.job_before[row]
        if before < 0:
            write_job(a, row)
            continue
        for c in range(a.jobs.shape[1] if is_read else 0):
            a.jobs[row, c] = kept.jobs[before, c]
        write_place(a, row)
    find_kept_options(a)
    for option in range(a.rules[0].num_options):
        before = kept.option_before[option]
        if before < 0:
            write_option(a, option)
            continue
        for c in range(a.options.shape[1] if is_read else 0):
            a.options[option, c] = kept.options[before, c]
    keep_rows(a, is_read)
