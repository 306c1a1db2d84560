"""Random worlds in which nodes have pools and features and jobs have constraints, and a scheduler that tests them."""

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from envs.scheduling import ClusterView
from envs.simulation import EventKind, EventLog, Setup, Simulator
from envs.types import (
    Allocation,
    ClusterError,
    ClusterSpec,
    Constraints,
    JobId,
    JobSpec,
    NodeId,
    NodeSpec,
    name_of_nodes,
)
from envs.workloads import Workload
from tests.conformance.random_worlds import RandomWorld, Whims, random_world


class Bold(Whims):
    """Packs some jobs, and places others without a look at where they may run."""

    packed = 0

    def _scatter(self, view: ClusterView, allocation: Allocation, job: JobId) -> dict[NodeId, int]:
        found = self._choose(view, allocation, job)
        if view.job(job).constraints.exclusive:
            whole = view.cluster.node_gpus
            return {} if any(allocation.free_gpus[node] < whole[node] for node in found) else found
        return found

    def _choose(self, view: ClusterView, allocation: Allocation, job: JobId) -> dict[NodeId, int]:
        draw = self.rng.random()
        if draw < 0.5:
            types = self.rng.permutation(len(view.cluster.gpu_types)).tolist() if draw < 0.2 else None
            if not allocation.pack(job, gpu_types=types, scatter=bool(draw < 0.35)):
                return {}
            self.packed += 1
            found = allocation.placement(job)
            assert found is not None
            spec = view.job(job)
            assert is_allowed(spec, found.gpus, view.cluster), f"pack offers job {job} ({spec.model}) {found.gpus}"
            allocation.stop(job)  # the caller places it, perhaps with more settings
            return dict(found.gpus)
        if draw < 0.8:
            return super()._scatter(view, allocation, job)
        nodes = np.flatnonzero(allocation.free_gpus > 0)
        node = int(self.rng.choice(nodes)) if nodes.size else 0
        return {node: int(view.min_gpus[job])} if allocation.free_gpus[node] >= view.min_gpus[job] else {}


def is_allowed(spec: JobSpec, gpus: Mapping[NodeId, int], cluster: ClusterSpec) -> bool:
    """Whether a job may hold these GPUs, other jobs aside."""
    asked = spec.constraints
    for node, count in gpus.items():
        gpu, pools, features = split(cluster.nodes[node].gpu_type)
        if (asked.gpu_types and gpu not in asked.gpu_types) or (asked.pools and not pools & set(asked.pools)):
            return False
        if not set(asked.features) <= features or (asked.gpus_per_node and count != asked.gpus_per_node):
            return False
    return len(gpus) <= (asked.max_nodes or len(gpus)) and len(gpus) == (asked.num_nodes or len(gpus))


def split(name: str) -> tuple[str, set[str], set[str]]:
    """Return GPU, pools and features of a type."""
    head, _, features = name.partition("#")
    gpu, _, pools = head.partition(":")
    return gpu, set(pools.split("+")), set(features.split("+"))


def constrained_world(
    seed: int, *, shapes: bool = True, pairs: bool = False, plain: bool = False, limits: bool = False
) -> RandomWorld:
    """A random world of which two in three jobs have constraints, on some node each.

    Args:
        seed: determines the world completely.
        shapes: whether jobs ask for numbers of nodes, GPUs on each, and nodes of their own.
        pairs, plain: as for `random_world`.
        limits: whether half of the jobs have time limits, some of them too short.
    """
    world, rng = random_world(seed, plain=plain, pairs=pairs), np.random.default_rng(seed)
    nodes = tuple(
        replace(
            node,
            gpu_type=name_of_nodes(
                node.gpu_type,
                [pool for pool in ("day", "night") if rng.random() < 0.6],
                ["ib"] if rng.random() < 0.4 else [],
            ),
        )
        for node in world.setup.cluster.nodes
    )
    setup = replace(world.setup, cluster=ClusterSpec(nodes, "constrained"))
    jobs = [_constrained(rng, spec, setup, shapes) for spec in world.workload]
    if limits:
        ends = [float(rng.choice([np.inf, np.inf, 32.0, rng.uniform(1.0, 2000.0)])) for _ in jobs]
        jobs = [replace(spec, time_limit=end) for spec, end in zip(jobs, ends, strict=True)]
    return replace(
        world,
        name=f"constrained {world.name}",
        setup=setup,
        workload=replace(Workload.of(jobs, "constrained"), window=world.workload.window),
        scheduler=lambda: Bold(setup.scenario.cpu_memory == "shared", 0.0 if plain else 0.3, 0.25, 0.2),
    )


def _constrained(rng: np.random.Generator, spec: JobSpec, setup: Setup, shapes: bool) -> JobSpec:
    """A job with random constraints under which it runs somewhere; without any if none are found."""
    for _ in range(4 if rng.random() < 0.67 else 0):
        example = setup.cluster.nodes[int(rng.integers(setup.cluster.num_nodes))].gpu_type
        gpu, pools, features = split(example)
        asked = Constraints(
            gpu_types=(gpu, "other") if rng.random() < 0.5 else (),
            pools=tuple(sorted(pools - {""}))[:1] if rng.random() < 0.4 else (),
            features=tuple(features - {""}) if rng.random() < 0.4 else (),
            max_nodes=int(rng.integers(1, 3)) if rng.random() < 0.3 else 0,
            num_nodes=int(rng.integers(1, 4)) if shapes and rng.random() < 0.3 else 0,
            gpus_per_node=int(rng.integers(1, 4)) if shapes and rng.random() < 0.2 else 0,
            exclusive=bool(shapes and rng.random() < 0.25),
        )
        constrained = replace(spec, constraints=asked)
        with contextlib.suppress(ClusterError):
            Simulator(Workload.of([constrained]), setup)
            return constrained
    return spec


def check_log(workload: Workload, cluster: ClusterSpec, log: EventLog) -> int:
    """Assert that every placement keeps to the constraints of its job; return how many have any."""
    held: dict[JobId, set[NodeId]] = {}
    count = 0
    for row, event in enumerate(log.events):
        job, happened = int(event["job"]), event["kind"]
        if happened in (EventKind.START, EventKind.RESIZE):
            spec, gpus = workload.spec(job), log.placement(row).gpus
            assert is_allowed(spec, gpus, cluster), f"job {job} ({spec.model}) on {gpus}"
            held[job] = set(gpus)
            count += bool(spec.constraints)
        elif happened in (EventKind.STOP, EventKind.FINISH, EventKind.INTERRUPT, EventKind.LIMIT):
            held.pop(job, None)
        if row + 1 < len(log.events) and log.events["time"][row + 1] == event["time"]:
            continue
        for job, nodes in held.items():
            alone = workload.spec(job).constraints.exclusive
            assert not alone or not any(nodes & other for key, other in held.items() if key != job)
    return count


HALLS = ClusterSpec(
    tuple(
        NodeSpec(name_of_nodes(gpu, pools, features), gpus)
        for gpu, pools, features, gpus, count in (
            ("new", ["day"], ["ib"], 4, 2),
            ("new", ["day", "night"], [], 4, 1),
            ("old", ["night"], [], 4, 2),
            ("small", [], [], 2, 2),
        )
        for _ in range(count)
    ),
    "halls",
)
ASKED = (
    Constraints(),
    Constraints(gpu_types=("new",)),
    Constraints(gpu_types=("old",)),
    Constraints(pools=("night",)),
    Constraints(pools=("day",), features=("ib",)),
    Constraints(gpu_types=("new", "old"), max_nodes=1),
    Constraints(gpu_types=("old", "small")),
)
SHAPED = (  # and the sizes that some type of `HALLS` divides as they ask
    (Constraints(num_nodes=2), (2, 3, 4, 6, 8)),
    (Constraints(gpus_per_node=2), (2, 4)),
    (Constraints(gpu_types=("old",), gpus_per_node=4), (4, 8)),
    (Constraints(exclusive=True), (1, 2, 4, 6)),
    (Constraints(gpu_types=("new", "old"), exclusive=True, max_nodes=1), (1, 3, 4)),
    (Constraints(gpu_types=("old", "small"), num_nodes=2, exclusive=True), (2, 4)),
)


def halls_workload(seed: int, count: int = 25, *, shapes: bool = False) -> Workload:
    """Jobs with constraints on the nodes of `HALLS`, each of which fits some GPU type that it may use.

    Args:
        seed: determines the jobs completely.
        count: of jobs.
        shapes: whether half of the jobs ask for numbers of nodes, GPUs on each, and nodes of their own.
    """
    rng = np.random.default_rng(seed)
    specs = []
    for i in range(count):
        asked = ASKED[int(rng.integers(len(ASKED)))]
        gpus = int(rng.choice([1, 1, 2, 3, 4] if asked.max_nodes else [1, 1, 2, 3, 4, 6]))
        gpus = 4 if asked.pools == ("night",) and gpus == 6 and rng.random() < 0.5 else gpus
        elastic = bool(rng.random() < 0.5)
        if shapes and i % 2:
            asked, sizes = SHAPED[int(rng.integers(len(SHAPED)))]
            gpus = int(rng.choice(sizes))
        specs.append(
            JobSpec(
                id=i,
                submit_time=float(rng.choice([0.0, 3.0, 7.25, float(rng.uniform(0, 60))])),
                num_gpus=gpus,
                work=float(rng.exponential(40.0)) + 0.5,
                model=str(rng.choice(["any", "large"])) if asked.gpu_types != ("old", "small") else "any",
                min_gpus=int(rng.integers(1, gpus + 1)) if elastic else 0,
                max_gpus=max(gpus, 4 if asked.max_nodes else 6) if elastic else 0,
                constraints=asked,
            )
        )
    return Workload.of(specs, "halls")
