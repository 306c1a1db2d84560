"""The search for victims as compiled functions; `baselines.kueue.preemption` is the reference."""

from baselines.kueue.compiled_lines import Lines
from baselines.kueue.compiled_tree import (
    LOWER,
    NEVER,
    Quotas,
    borrows_on_way,
    left_for,
    share_of,
    share_then,
    side_of,
    use_quota,
)
from envs.simulation.compiled.jit import leaf, part

FINAL, INITIAL = 0, 1


@leaf
def least_level(tree: Quotas, lines: Lines, queue: int, own: int, level: int) -> int:
    """Return the most urgent level of a queue whose jobs a job may preempt."""
    return level + 1 if queue == own or tree.reclaim[own] == LOWER else 0


@leaf
def start_line(lines: Lines, queue: int, least: int) -> int:
    """Return the job of a queue that loses first; -1 for none."""
    for level in range(lines.newest.shape[1] - 1, least - 1, -1):
        if lines.newest[queue, level] >= 0:
            return int(lines.newest[queue, level])
    return -1


@leaf
def next_in_line(lines: Lines, j: int, least: int) -> int:
    """Return the job of the same queue that loses next; -1 for none."""
    if lines.older[j] >= 0:
        return int(lines.older[j])
    for level in range(lines.level[j] - 1, least - 1, -1):
        if lines.newest[lines.queue[j], level] >= 0:
            return int(lines.newest[lines.queue[j], level])
    return -1


@leaf
def loses_before(lines: Lines, j: int, k: int, own: int) -> bool:
    """Return whether a job loses before another one."""
    if (lines.queue[j] == own) != (lines.queue[k] == own):
        return bool(lines.queue[k] == own)
    if lines.level[j] != lines.level[k]:
        return bool(lines.level[j] > lines.level[k])
    if lines.since[j] != lines.since[k]:
        return bool(lines.since[j] > lines.since[k])
    return j > k


@leaf
def now_fits(tree: Quotas, own: int, gpus: float) -> bool:
    """Return whether a job whose GPUs are counted already has room."""
    use_quota(tree, own, -gpus)
    fits = left_for(tree, own) >= gpus
    use_quota(tree, own, gpus)
    return bool(fits)


@leaf
def take_victim(tree: Quotas, lines: Lines, j: int, count: int) -> None:
    """Take a job's quota in a search."""
    use_quota(tree, lines.queue[j], -lines.gpus[j])
    lines.taken[count] = j
    lines.is_taken[j] = True


@part
def take_borrowed(tree: Quotas, lines: Lines, head: int) -> int:
    """Search without fair sharing; return the number of jobs taken, negative less 1 if they do not suffice."""
    own, gpus, level, count = lines.queue[head], lines.gpus[head], lines.level[head], 0
    while tree.used[own] <= tree.quota[own]:
        best = -1
        for queue in range(len(tree.parent)):
            j = lines.cursor[queue]
            if queue != own and lines.open_for[queue] and j >= 0 and (best < 0 or loses_before(lines, j, best, own)):
                best = j
        if best < 0:
            break
        queue = lines.queue[best]
        if not borrows_on_way(tree, queue, own):
            lines.cursor[queue] = -1
            continue
        lines.cursor[queue] = next_in_line(lines, best, least_level(tree, lines, queue, own, level))
        take_victim(tree, lines, best, count)
        count += 1
        if now_fits(tree, own, gpus):
            return count
    j = lines.cursor[own] if lines.open_for[own] else -1
    while j >= 0:
        take_victim(tree, lines, j, count)
        count += 1
        if now_fits(tree, own, gpus):
            return count
        j = next_in_line(lines, j, level + 1)
    return -count - 1


@leaf
def has_line(lines: Lines, queue: int) -> bool:
    """Return whether jobs of a queue may still be taken."""
    return bool(lines.open_for[queue] and lines.cursor[queue] >= 0)


@leaf
def winning_child(tree: Quotas, lines: Lines, cohort: int, own: int) -> int:
    """Return the child that wins in a cohort; where none does, prune the cohort and return -1."""
    best = -1
    best_share = 0.0
    for place in range(tree.first_child[cohort], tree.first_child[cohort + 1]):
        child = tree.children[place]
        if lines.pruned[child]:
            continue
        inner = tree.first_child[child + 1] > tree.first_child[child]
        borrows = tree.used[child] > tree.quota[child]
        if not (borrows or lines.on_path[child]) or not (inner or has_line(lines, child)):
            lines.pruned[child] = True
            continue
        share = share_of(tree, child)
        first = best < 0 or share > best_share
        if not first and share == best_share:
            first = inner or loses_before(lines, lines.cursor[child], lines.cursor[best], own)
        if first:
            best = child
            best_share = share
    if best < 0:
        lines.pruned[cohort] = True
    return best


@leaf
def largest_queue(tree: Quotas, lines: Lines, own: int, root: int) -> int:
    """Return the queue to take from next; -1 for none."""
    if root == own:
        return int(own if has_line(lines, own) else -1)
    node = root
    while not lines.pruned[root]:
        best = winning_child(tree, lines, node, own)
        if best < 0:
            node = root
        elif tree.first_child[best + 1] == tree.first_child[best]:
            return int(best)
        else:
            node = best
    return -1


@part
def take_by_shares(tree: Quotas, lines: Lines, head: int, root: int, rule: int) -> int:
    """Search by one strategy; return the number of jobs taken, negative less 1 if they do not suffice."""
    own, gpus, level, count = lines.queue[head], lines.gpus[head], lines.level[head], 0
    queue = largest_queue(tree, lines, own, root)
    while queue >= 0:
        least = least_level(tree, lines, queue, own, level)
        free = queue == own or tree.used[own] <= tree.quota[own]
        mine, theirs, below = 0.0, 0.0, -1
        if not free:
            below = side_of(tree, queue, own)
            mine, theirs = share_of(tree, side_of(tree, own, queue)), share_of(tree, below)
        while lines.cursor[queue] >= 0:
            j = lines.cursor[queue]
            lines.cursor[queue] = next_in_line(lines, j, least)
            passes = free or (
                mine < theirs if rule == INITIAL else mine <= share_then(tree, below, queue, -lines.gpus[j])
            )
            if passes:
                take_victim(tree, lines, j, count)
                count += 1
                if now_fits(tree, own, gpus):
                    return count
                break
        queue = largest_queue(tree, lines, own, root)
    return -count - 1


@leaf
def skip_taken(lines: Lines, j: int, end: int, least: int) -> int:
    """Return the first job from `j` on that was passed over: not taken, and before `end`."""
    while j >= 0 and j != end and lines.is_taken[j]:
        j = next_in_line(lines, j, least)
    return j if j != end else -1


@part
def take_from_rest(tree: Quotas, lines: Lines, head: int, root: int, count: int) -> int:
    """Try what the first strategy has passed over, one job of each queue; results as above."""
    own, gpus, level = lines.queue[head], lines.gpus[head], lines.level[head]
    for queue in range(len(tree.parent)):
        lines.pruned[queue] = False
        end = lines.cursor[queue]
        least = least_level(tree, lines, queue, own, level)
        if lines.open_for[queue]:
            lines.cursor[queue] = skip_taken(lines, start_line(lines, queue, least), end, least)
    queue = largest_queue(tree, lines, own, root)
    while queue >= 0:
        mine, theirs = 0.0, 0.0
        if queue != own:
            mine, theirs = share_of(tree, side_of(tree, own, queue)), share_of(tree, side_of(tree, queue, own))
        if mine < theirs:
            j = lines.cursor[queue]
            lines.cursor[queue] = -1
            take_victim(tree, lines, j, count)
            count += 1
            if now_fits(tree, own, gpus):
                return count
        lines.pruned[queue] = True
        queue = largest_queue(tree, lines, own, root)
    return -count - 1


@part
def search_victims(tree: Quotas, lines: Lines, head: int, fair: bool, first: int, second: bool) -> int:
    """Write the jobs to preempt for a job into `taken`; return their number. The tree stays as it is."""
    own, gpus, level = lines.queue[head], lines.gpus[head], lines.level[head]
    if gpus > tree.most[own]:
        return 0
    root = own
    while tree.parent[root] >= 0:
        root = tree.parent[root]
    found = False
    for queue in range(len(tree.parent)):
        lines.pruned[queue] = False
        lines.on_path[queue] = False
        others = tree.used[queue] > tree.quota[queue] and tree.reclaim[own] != NEVER and side_of(tree, queue, own) >= 0
        lines.open_for[queue] = tree.within[own] != NEVER if queue == own else others
        lines.cursor[queue] = -1
        if lines.open_for[queue]:
            lines.cursor[queue] = start_line(lines, queue, least_level(tree, lines, queue, own, level))
            found = found or lines.cursor[queue] >= 0
    if not found:
        return 0
    node = own
    while node >= 0:
        lines.on_path[node] = True
        node = tree.parent[node]
    use_quota(tree, own, gpus)
    if fair:
        count = take_by_shares(tree, lines, head, root, first)
        if count < 0 and second:
            count = take_from_rest(tree, lines, head, root, -count - 1)
    else:
        count = take_borrowed(tree, lines, head)
    reached = count > 0
    count = count if reached else -count - 1
    kept = give_back(tree, lines, own, gpus, count, reached)
    use_quota(tree, own, -gpus)
    return kept


@leaf
def give_back(tree: Quotas, lines: Lines, own: int, gpus: float, count: int, reached: bool) -> int:
    """Undo a search; keep in `taken` the jobs without which there is no room, and return their number."""
    for place in range(count - 2, -1, -1):
        j = lines.taken[place]
        if reached:
            use_quota(tree, lines.queue[j], lines.gpus[j])
            if now_fits(tree, own, gpus):
                lines.is_taken[j] = False
            else:
                use_quota(tree, lines.queue[j], -lines.gpus[j])
    kept = 0
    for place in range(count):
        j = lines.taken[place]
        if lines.is_taken[j]:
            use_quota(tree, lines.queue[j], lines.gpus[j])
            lines.is_taken[j] = False
            if reached:
                lines.taken[kept] = j
                kept += 1
    return kept
