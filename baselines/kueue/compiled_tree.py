"""Quotas and shares of a tree of queues as compiled functions; `baselines.kueue.queue_tree` is the reference."""

from typing import NamedTuple

import numpy as np

from baselines.kueue.queue_tree import QueueTree
from envs.simulation.compiled.jit import leaf
from envs.types import BoolArray, FloatArray, IntArray

NEVER, LOWER, ANY = 0, 1, 2
_RULES = {"never": NEVER, "lower_priority": LOWER, "any": ANY}


class Quotas(NamedTuple):
    """A tree; rows are queues in the order of `QueueTree.settings`.

    Attributes:
        parent: int64[num_queues], -1 for none.
        path: int64[num_queues, depth], a queue and all above it, upwards; padded with -1.
        order: int64[num_queues], the deepest queues first.
        first_child: int64[num_queues + 1], where the children of each begin in `children`.
        children: int64[n], those that take jobs before others.
        quota, own, borrow, most, weight: float64[num_queues], see `QueueTree`.
        strict: bool[num_queues].
        within, reclaim: int64[num_queues], NEVER, LOWER or ANY.
        used: float64[num_queues], which changes.
        top: float64[num_queues, 2], the two largest shares of children that borrow; -1 for none.
        top_child: int64[num_queues], which has the larger one.
    """

    parent: IntArray
    path: IntArray
    order: IntArray
    first_child: IntArray
    children: IntArray
    quota: FloatArray
    own: FloatArray
    borrow: FloatArray
    most: FloatArray
    weight: FloatArray
    strict: BoolArray
    within: IntArray
    reclaim: IntArray
    used: FloatArray
    top: FloatArray
    top_child: IntArray


def quotas_of(tree: QueueTree) -> Quotas:
    """Return a tree without use as arrays."""
    names = list(tree.settings)
    number = {name: place for place, name in enumerate(names)}
    rows = list(tree.settings.values())
    depth = max(map(len, tree.path.values()))
    path = np.full((len(names), depth), -1, np.int64)
    for name, above in tree.path.items():
        path[number[name], : len(above)] = [number[each] for each in above]
    below = [sorted(tree.children[name], key=lambda child: bool(tree.children[child])) for name in names]
    count = len(names)
    return Quotas(
        np.array([number[row.parent] if row.parent else -1 for row in rows], np.int64),
        path,
        np.argsort([-len(tree.path[name]) for name in names], kind="stable"),
        np.concatenate([[0], np.cumsum([len(each) for each in below])]).astype(np.int64),
        np.array([number[child] for each in below for child in each], np.int64),
        np.array([tree.quota[name] for name in names]),
        np.array([max(0.0, tree.quota[row.name] - row.lending_limit) for row in rows]),
        np.array([row.borrowing_limit for row in rows], np.float64),
        np.array([tree.most(name) for name in names], np.float64),
        np.array([row.weight for row in rows], np.float64),
        np.array([row.strict for row in rows], np.bool_),
        np.array([_RULES[row.within_queue] for row in rows], np.int64),
        np.array([_RULES[row.reclaim] for row in rows], np.int64),
        np.zeros(count),
        np.full((count, 2), -1.0),
        np.full(count, -1, np.int64),
    )


@leaf
def use_quota(tree: Quotas, queue: int, gpus: float) -> None:
    """Add to what a queue uses; see `QueueTree.use`."""
    node = queue
    while node >= 0:
        before = max(0.0, tree.used[node] - tree.own[node])
        tree.used[node] += gpus
        gpus = max(0.0, tree.used[node] - tree.own[node]) - before
        node = tree.parent[node]


@leaf
def left_for(tree: Quotas, queue: int) -> float:
    """GPUs that a queue may take; see `QueueTree.available`."""
    left = np.inf
    for place in range(tree.path.shape[1] - 1, -1, -1):
        node = tree.path[queue, place]
        if node < 0:
            continue
        if tree.parent[node] < 0:
            left = tree.quota[node] - tree.used[node]
            continue
        stored = tree.quota[node] - tree.own[node] - max(0.0, tree.used[node] - tree.own[node])
        left = min(left, stored + tree.borrow[node]) + max(0.0, tree.own[node] - tree.used[node])
    return float(left)


@leaf
def share_of(tree: Quotas, node: int) -> float:
    """Weighted share of a queue with a weight above 0; see `QueueTree.share`."""
    beyond = tree.used[node] - tree.quota[node]
    if tree.parent[node] < 0 or beyond <= 0:
        return 0.0
    lendable = tree.most[tree.parent[node]]
    ratio = beyond / lendable if lendable > 0 else 0.0
    return float(ratio / tree.weight[node])


@leaf
def share_then(tree: Quotas, node: int, queue: int, gpus: float) -> float:
    """Share of a node if a queue at or below it had so many GPUs more."""
    use_quota(tree, queue, gpus)
    share = share_of(tree, node)
    use_quota(tree, queue, -gpus)
    return share


@leaf
def side_of(tree: Quotas, queue: int, other: int) -> int:
    """Return a queue, or what is above it, just below the lowest queue above it and another one."""
    for place in range(1, tree.path.shape[1]):
        above = tree.path[queue, place]
        for i in range(tree.path.shape[1]):
            if above >= 0 and tree.path[other, i] == above:
                return int(tree.path[queue, place - 1])
    return -1


@leaf
def borrows_on_way(tree: Quotas, queue: int, other: int) -> bool:
    """Return whether a queue, and all above it below its cohort with another one, use more than their quotas."""
    side = side_of(tree, queue, other)
    node = queue
    while True:
        if tree.used[node] <= tree.quota[node]:
            return False
        if node == side:
            return True
        node = tree.parent[node]


@leaf
def find_tops(tree: Quotas) -> None:
    """Note the two largest shares of the children of each queue that use more than their quotas."""
    for node in range(len(tree.parent)):
        tree.top[node, 0] = -1.0
        tree.top[node, 1] = -1.0
        tree.top_child[node] = -1
    for node in range(len(tree.parent)):
        above = tree.parent[node]
        if above >= 0 and tree.used[node] > tree.quota[node]:
            share = share_of(tree, node)
            if share > tree.top[above, 0]:
                tree.top[above, 1] = tree.top[above, 0]
                tree.top[above, 0] = share
                tree.top_child[above] = node
            elif share > tree.top[above, 1]:
                tree.top[above, 1] = share
