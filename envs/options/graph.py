"""The dynamic coordination graph: which nodes want the same jobs, as lists of edges.

Nodes and jobs form a bipartite graph: a node wants a job if it has an option for it. Two nodes are linked if they want
the same job. The links are found node by node from the lists of the bipartite graph, so that no array here has the size
of jobs times nodes, let alone of jobs times nodes times nodes.
"""

import numpy as np

from envs.simulation.compiled.jit import kernel
from envs.types import IntArray


def wanted_jobs(node_of: IntArray, job_of: IntArray) -> IntArray:
    """Return int64[2, P], the edges between nodes and the jobs that they want, by node and then by job.

    Args:
        node_of: int64[M], the node of each option, -1 for none.
        job_of: int64[M], the job of each option, -1 for none.
    """
    owned = (node_of >= 0) & (job_of >= 0)
    if not owned.any():
        return np.zeros((2, 0), np.int64)
    num_jobs = int(job_of.max()) + 1
    pairs = node_of[owned] * num_jobs + job_of[owned]
    if (np.diff(pairs) < 0).any():  # where nodes act together, options are in this order
        pairs.sort()
    return np.stack(np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], num_jobs))


def linked_nodes(wanted: IntArray, sizes: IntArray, most: int | None = None) -> IntArray:
    """Return int64[2, E], sources and targets of the links between nodes, grouped by target.

    The sources of a node begin with the next one by index and go around, so that with `most` each node has the nearest
    ones that follow it, and all nodes are heard equally often.

    Args:
        wanted: int64[2, P], see `wanted_jobs`; nodes of different decisions want different jobs.
        sizes: int64[D], nodes of each decision, which are numbered on from one decision to the next.
        most: links of each node; None for all.
    """
    nodes, jobs = wanted
    num_nodes, num_jobs = int(sizes.sum()), int(jobs.max(initial=-1)) + 1
    order = np.argsort(jobs, kind="stable")
    limit = np.minimum(sizes - 1, num_nodes if most is None else most)
    edges = np.zeros((2, int((sizes * limit).sum())), np.int64)
    first_job, first_member = starts(nodes, num_nodes), starts(jobs, num_jobs)
    count = link_nodes(jobs, first_job, nodes[order], first_member, sizes, limit, np.full(num_nodes, -1), edges)
    return edges[:, :count]


def starts(groups: IntArray, count: int) -> IntArray:
    """Return int64[count + 1], where each group begins in a list that is sorted by group, and the list's length."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(groups, minlength=count))))


@kernel
def link_nodes(
    jobs: IntArray,
    first_job: IntArray,
    members: IntArray,
    first_member: IntArray,
    sizes: IntArray,
    limit: IntArray,
    marks: IntArray,
    edges: IntArray,
) -> int:
    """Fill `edges` and return their number, see `linked_nodes`.

    Args:
        jobs: int64[P], the jobs of the first node, of the second, and so on.
        first_job: int64[N + 1], where those of each node begin.
        members: int64[P], the nodes of the first job, of the second, and so on.
        first_member: int64[J + 1], where those of each job begin.
        sizes: int64[D], nodes of each decision.
        limit: int64[D], links of each node, at most.
        marks: int64[N], all -1; then the last node to which each was linked.
        edges: int64[2, E], overwritten.
    """
    count, first = 0, 0
    for d in range(len(sizes)):
        size = sizes[d]
        for n in range(first, first + size):
            marked = 0
            for i in range(first_job[n], first_job[n + 1]):
                for k in range(first_member[jobs[i]], first_member[jobs[i] + 1]):
                    marked += marks[members[k]] != n
                    marks[members[k]] = n
                if marked == size:  # usual on an idle cluster, where any node could start any job
                    break
            end = count + limit[d]
            for after in range(1, size):
                m = first + (n - first + after) % size
                if marks[m] == n and count < end:
                    edges[0, count], edges[1, count] = m, n
                    count += 1
        first += size
    return count
