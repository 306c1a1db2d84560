"""Search for a scheduler without a language model: evolve constants and an expression, from shortest job first.

python scripts/recipes/program_search.py --task shared-16 --minutes 10 --out best.py
murmuration evaluate-program best.py --task shared-16 --split test --episodes 20

Minutes are of CPU time. Each candidate is the text of a program, evaluated as programs of any search are.
"""

import argparse
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envs.evaluation.files import write_whole
from murmuration.programs.evaluator import ProgramEvaluator

PROGRAM = '''\
"""Found by scripts/recipes/program_search.py."""

import heapq

import numpy as np

ELASTIC, KEEP, BOOST, SPARE, GROW, UP = {constants}


class Evolved:
    """A GPU goes where its gain by key is largest; keys, the less the better, are of `key`.

    ELASTIC: whether sizes may differ from those requested. KEEP: factor on the keys of running jobs; 0 stops none.
    BOOST: what a start is worth beside growing. SPARE: least gain of growing. GROW: sizes that differ by less stay.
    UP: a job moves to a GPU type on which it is so many times faster; 0 moves none.
    """

    def reset(self, cluster, rng):
        self.node_types = cluster.node_types

    def key(self, view, jobs):
        left, gpus, least = view.remaining_time(jobs) + 1.0, view.num_gpus[jobs], view.min_gpus[jobs]
        waited, served = view.time - view.submit_time[jobs] + 1.0, view.attained_service(jobs) + 1.0
        return np.abs({expression}) * np.ones(len(jobs))

    def next_step(self, curve, size, low, high):
        """Return the next size of a job, and how much it gains for each relative growth."""
        if size == 0:
            return next(((n, BOOST) for n in range(low, min(high, len(curve) - 1) + 1) if curve[n] > 0), (0, 0.0))
        best = (0, 0.0)
        for n in range(size + 1, min(high, len(curve) - 1) + 1):
            gain = (1 - curve[size] / max(curve[n], 1e-9)) * size / (n - size)
            if gain > max(best[1], SPARE):
                best = n, gain
        return best

    def sizes(self, view, jobs, keys, curves):
        """Return the number of GPUs of each job that gets some, as if there were no nodes."""
        low, high = (view.min_gpus, view.max_gpus) if ELASTIC else (view.num_gpus, view.num_gpus)
        room, found, heap = int(view.capacity.sum()), {{}}, []
        for i, job in enumerate(jobs):
            size, gain = self.next_step(curves[job], 0, low[job], high[job])
            heap.append((-gain / keys[i], i, 0, size))
        heapq.heapify(heap)
        while heap and room > 0:
            _, i, size, larger = heapq.heappop(heap)
            job = jobs[i]
            if 0 < larger - size <= room:
                room -= larger - size
                found[job] = larger
                more, gain = self.next_step(curves[job], larger, low[job], high[job])
                if more:
                    heapq.heappush(heap, (-gain / keys[i], i, larger, more))
        return found

    def schedule(self, view):
        jobs = np.concatenate([view.running, view.queued])
        keys = self.key(view, jobs)
        keys = np.nan_to_num(np.where(np.arange(len(jobs)) < len(view.running), keys * KEEP, keys), nan=1e30)
        keys = np.clip(keys, 1e-9, 1e30)
        order, jobs = jobs[keys.argsort(kind="stable")].tolist(), jobs.tolist()
        throughputs = {{job: view.throughputs(job) for job in jobs}}
        sizes = self.sizes(view, jobs, keys, {{job: throughputs[job].max(axis=0) for job in jobs}})
        allocation, kept = view.allocation(), {{}}
        for job in view.running.tolist():
            held = view.placement(job)
            if job in sizes and held.num_gpus / GROW < sizes[job] < held.num_gpus * GROW:
                allocation.keep(job)
                kept[job] = held
        for job in [*sorted(set(order) & set(sizes), key=order.index), *order]:
            if allocation.placement(job) is None:
                low = view.min_gpus[job] if ELASTIC else view.num_gpus[job]
                for size in range(sizes.get(job, int(low)), int(low) - 1, -1):
                    types = np.argsort(-throughputs[job][:, size], kind="stable")
                    types = [each for each in types.tolist() if throughputs[job][each, size] > 0]
                    if allocation.pack(job, size, gpu_types=types):
                        break
        for job in order if UP else ():
            if job in kept:
                here = throughputs[job][self.node_types[next(iter(kept[job].gpus))], kept[job].num_gpus]
                faster = throughputs[job][:, kept[job].num_gpus]
                if faster.max() > UP * here > 0:
                    allocation.pack(job, kept[job].num_gpus, gpu_types=[int(faster.argmax())])
        return allocation
'''
START = {"ELASTIC": 0, "KEEP": 0.0, "BOOST": 1.0, "SPARE": 0.1, "GROW": 1.3, "UP": 0.0}  # shortest job first
RANGES = {"KEEP": (0.3, 1.0), "BOOST": (0.1, 30.0), "SPARE": (0.01, 0.5), "GROW": (1.05, 3.0), "UP": (1.1, 4.0)}
NAMES = ("left", "gpus", "least", "waited", "served")
Candidate = tuple[dict[str, float], Any]  # constants by name, and an expression: a name, a number, or (operator, a, b)
PARENTS, PASSING = 10, 0.1  # programs that are kept; what a score of stage 1 may be below the parents' median


def draw_tree(rng: random.Random, depth: int = 2) -> Any:
    """Return a random expression over what is known of a job."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(NAMES) if rng.random() < 0.8 else round(10 ** rng.uniform(-1, 4), 3)
    if rng.random() < 0.4:
        return ("**", draw_tree(rng, depth - 1), round(rng.uniform(-1.0, 1.5), 2))
    return (rng.choice("+*/"), draw_tree(rng, depth - 1), draw_tree(rng, depth - 1))


def mutate_tree(rng: random.Random, tree: Any) -> Any:
    """Return the tree with one part changed, wrapped, scaled or replaced."""
    if isinstance(tree, tuple) and rng.random() < 0.6:
        side = rng.choice((1, 2))
        if tree[0] == "**" and side == 2:
            return (*tree[:2], round(tree[2] + rng.gauss(0, 0.3), 2))
        return tuple(mutate_tree(rng, part) if i == side else part for i, part in enumerate(tree))
    change = rng.random()
    if change < 0.3:
        return draw_tree(rng, 1)
    if change < 0.7:
        return ("*", tree, ("**", rng.choice(NAMES), round(rng.uniform(-1.0, 1.0), 2)))
    if change < 0.85:
        return ("+", tree, draw_tree(rng, 1))
    return tree[1] if isinstance(tree, tuple) else tree


def write_tree(tree: Any) -> str:
    """Return a tree as Python; powers are of absolute values."""
    if not isinstance(tree, tuple):
        return str(tree)
    left, right = map(write_tree, tree[1:])
    return f"np.abs({left}) ** {right}" if tree[0] == "**" else f"({left} {tree[0]} {right})"


def mutate(rng: random.Random, parent: Candidate, other: Candidate) -> Candidate:
    """Return a child: constants of two parents, one to three changes."""
    constants = {name: rng.choice((value, value, other[0][name])) for name, value in parent[0].items()}
    tree = parent[1]
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice((*constants, "tree", "tree", "tree"))
        if name == "tree":
            tree = mutate_tree(rng, tree)
        elif name == "ELASTIC":
            constants[name] = 1 - constants[name]
        elif constants[name] == 0 or rng.random() < 0.3:
            low, high = map(math.log, RANGES[name])
            constants[name] = 0.0 if name in ("KEEP", "UP") and rng.random() < 0.2 else math.exp(rng.uniform(low, high))
        else:
            constants[name] *= math.exp(rng.gauss(0, 0.3))
    return constants, tree


def write_program(candidate: Candidate) -> str:
    """Return the text of a candidate."""
    constants = ", ".join(f"{value:.3g}" for value in candidate[0].values())
    return PROGRAM.format(constants=constants, expression=write_tree(candidate[1]))


def search(evaluator: ProgramEvaluator, minutes: float, rng: random.Random, show: Callable[[str], None] = print) -> str:
    """Evolve for so many minutes of CPU time; return the text of the program that is best in stage 3.

    Args:
        evaluator: of programs.
        minutes: of the evaluator and of the programs.
        rng: draws the mutations.
        show: prints a line of the curve.
    """
    used, count = 0.0, 0
    parents: list[tuple[float, float, Candidate]] = []  # scores in stage 2 and 1
    seen: set[str] = set()

    def play(candidate: Candidate, stage: int) -> dict[str, Any]:
        nonlocal used
        found = evaluator.evaluate(write_program(candidate), stage)
        used += found.get("cpu_seconds", 0.0) + found["program_cpu_seconds"]
        return found

    child: Candidate = (START, "left")
    while not parents or used < 54 * minutes:  # the rest is for stage 3
        text = write_program(child)
        if text not in seen:
            count += 1
            first = play(child, 1)["combined_score"]
            least = sorted(each[1] for each in parents)[len(parents) // 2] - PASSING if len(parents) > 2 else -math.inf
            if first > least:
                found = play(child, 2)
                if not parents or found["combined_score"] > parents[0][0]:
                    hours, expression = found.get("mean_jct", math.nan) / 3600, write_tree(child[1])
                    score = f"{found['combined_score']:6.3f}, {hours:.2f} h, {expression}"
                    show(f"{used:5.0f} CPU-s, {count:4} programs: score {score}")
                parents = sorted([*parents, (found["combined_score"], first, child)], key=lambda each: -each[0])
                parents = parents[:PARENTS]
        seen.add(text)
        one, other = (min(rng.sample(range(len(parents)), min(2, len(parents)))) for _ in range(2))
        child = mutate(rng, parents[one][2], parents[other][2])
    finals = [(play(each[2], 3)["combined_score"], write_program(each[2])) for each in parents[:3]]
    best = max(finals)
    show(f"{used:5.0f} CPU-s, {count:4} programs: score {best[0]:6.3f} in stage 3")
    return best[1]


def main() -> None:
    """Search, and write the best program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--task", default="shared-16", help="name of a task")
    parser.add_argument("--minutes", type=float, default=10.0, help="of CPU time")
    parser.add_argument("--seed", type=int, default=0, help="of the search; its workloads are drawn by it, too")
    parser.add_argument("--out", type=Path, default=Path("best.py"), help="where the best program is written")
    given = parser.parse_args()
    evaluator = ProgramEvaluator([given.task], seed=given.seed)
    write_whole(given.out, search(evaluator, given.minutes, random.Random(given.seed)))
    evaluator.close()


if __name__ == "__main__":
    main()
