"""Event logs of small worlds and defaults of rules, as they were when the version of the world was last raised.

`python -m tests.golden.world_pins` writes `world_pins.json` for a new `WORLD_VERSION`; `--again` does so for a version
that no release has had.
"""

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from baselines import Fifo, Packing, Srtf
from envs.evaluation.task import hash_text, to_hashable
from envs.performance import Contention, CostBySize, default_model
from envs.scheduling import ClusterView, Scheduler
from envs.simulation import WORLD_VERSION, Information, Rounds, RunResult, Scenario, Setup, Simulator, run_episode
from envs.simulation.scenario import Failures
from envs.types import Allocation, ClusterSpec, ExecutionPlan, JobSpec, NodeSpec
from envs.workloads import Workload
from envs.workloads.workload import used_columns
from murmuration.config.building import import_target
from murmuration.config.choices import CONF
from murmuration.config.describe import compose_comparison
from murmuration.config.inputs import build_inputs
from murmuration.config.tables import read_choices
from tests.conformance.random_worlds import MODELS, Workshop

PINS = Path(__file__).with_name("world_pins.json")
COMMAND = "python -m tests.golden.world_pins"
GROUPS = ("cluster", "contention", "estimator", "failures", "performance", "predictor", "reconfiguration", "scenario")
TARGET = re.compile(r"_target_: (envs\.[\w.]+)")
SLICED = ("resnet18", "resnet50@0.5", "recommendation")
EVENTS = ["time", "kind", "job", "num_shares", "batch_size", "beside"]  # named, so that new columns change nothing
LATER = ("time_limit", "priority", "nice", "begin_time")  # columns of jobs that are newer than the pins
SHARES = ["node", "gpus", "cpus", "memory"]


@dataclass(frozen=True)
class World:
    """A small world and the schedulers that play it, by name."""

    workload: Workload
    setup: Setup
    schedulers: Mapping[str, Callable[[], Scheduler]]

    def play(self) -> dict[str, RunResult]:
        """Play one episode under each scheduler."""
        return {
            name: run_episode(make(), Simulator(self.workload, self.setup, 7)) for name, make in self.schedulers.items()
        }


class Naming(Srtf):
    """SRTF that names a plan, a batch size or cores in what it starts, in turn."""

    def schedule(self, view: ClusterView) -> Allocation:
        """Return what SRTF does, with more said of the jobs that start."""
        allocation = super().schedule(view)
        for job in view.queued.tolist():
            placement = allocation.placement(job)
            if placement is None or len(placement.gpus) > 1:
                continue
            ((node, gpus),) = placement.gpus.items()
            offered = view.batch_range(job, view.cluster.nodes[node].gpu_type, gpus)
            if job % 3 == 0 and gpus % 2 == 0:
                allocation.place(job, replace(placement, plan=ExecutionPlan(data=gpus // 2, tensor=2)))
            elif job % 3 == 2 and offered is not None:
                allocation.place(job, replace(placement, batch_size=min(max(100, offered[0]), offered[1])))
            else:
                allocation.place(job, replace(placement, cpus={node: 1.3 * gpus}))
        return allocation


def worlds() -> dict[str, World]:
    """Return a task, a world with all rules for whole GPUs, one of slices, pairs and beliefs, one with limits, and one
    in which jobs are held too."""
    inputs = build_inputs(compose_comparison(["task=shared-16"]).problem)
    simple = {"fifo": Fifo, "srtf": Srtf}
    jobs = _jobs(MODELS[:3], 24, 8, 48.0)
    limited = Workload.of([replace(job, time_limit=30.0 + 40.0 * (job.id % 7)) for job in jobs], "limited")
    return {
        "shared-16": World(inputs.source.evaluation()[0], inputs.setup, simple),
        "every rule": World(jobs, _every_rule(), {**simple, "naming": Naming}),
        "slices": World(
            _jobs(("resnet18", "resnet50@0.5", "recommendation"), 24, 1, 2000.0), _slices(), {"pairs": _packed}
        ),
        "limits": World(limited, _every_rule("limit"), {**simple, "easy": _easy}),
        "holds": World(Workload.of([_hold(job) for job in limited], "holds"), _every_rule(), simple),
    }


def _hold(job: JobSpec) -> JobSpec:
    """Return a job with a begin time or a dependency."""
    if job.id % 3 == 0 or not job.id:
        return replace(job, begin_time=job.submit_time + 100.0 * (job.id % 5))
    return replace(job, dependency=f"{('afterok', 'afterany', 'afternotok')[job.id % 4 % 3]}:{job.id // 2}")


def _easy() -> Scheduler:
    return Fifo(backfill="easy")


def _packed() -> Scheduler:
    return Packing(Srtf())


def _jobs(models: tuple[str, ...], count: int, most: int, throughput: float) -> Workload:
    """Jobs of 1 to `most` GPUs of two tenants, which take minutes at a throughput (samples/s) on each GPU."""
    rng = np.random.default_rng(5)
    specs = [
        JobSpec(
            i,
            float(rng.uniform(0.0, 600.0)),
            gpus := int(rng.integers(1, most + 1)),
            throughput * gpus * (20.0 + float(rng.exponential(200.0))),
            models[i % len(models)],
            max_gpus=min(2 * gpus, most),
            tenant="ab"[i % 2],
            guaranteed=i % 4 == 0,
        )
        for i in range(count)
    ]
    return Workload.of(specs, "pinned")


def _every_rule(work: Literal["estimate", "limit"] = "estimate") -> Setup:
    scenario = Scenario(
        start_delay=4.0,
        reconfiguration=CostBySize(restart=3.0),
        cpu_memory="shared",
        contention=Contention("measured"),
        failures=Failures(mtbf=900.0, repair_time=60.0, checkpoint_interval=50.0),
        quotas={"a": 4},
        worker_shares="equal",
        rounds=Rounds(interval=45.0),
        information=Information(work),
    )
    nodes = [NodeSpec("swift", 8, 48.5, 500.0, inter_node_bandwidth=0.2)] * 2
    nodes += [NodeSpec("plain", 4, 31.3, 187.77, inter_node_bandwidth=0.02)] * 2
    return Setup(ClusterSpec(tuple(nodes), "pinned"), Workshop(), scenario)


def _slices() -> Setup:
    nodes = (NodeSpec("V100", 4), NodeSpec("V100/2", 2), NodeSpec("V100/4", 2))
    information = Information(throughput="observed")
    scenario = Scenario(sharing="pairs", batch_sizes="usual", information=information)
    return Setup(ClusterSpec(nodes, "slices"), default_model(), scenario)


def describe_run(result: RunResult) -> str:
    """Return a hash of an event log, with six digits of its figures."""
    log = result.log
    plans = [log.plans[plan] if plan >= 0 else None for plan in log.events["plan"].tolist()]
    return _hash([log.events[EVENTS], log.shares[SHARES], plans])


def _hash(value: Any) -> str:
    return hash_text(json.dumps(to_hashable(value), sort_keys=True))


def find_defaults() -> dict[str, dict[str, Any]]:
    """Return the defaults of nodes and of all classes and functions that problems are made of, by name and option.

    Hashes of tasks leave out what has its default, so another default has to raise the version.
    """
    texts = [text for group in GROUPS for text in read_choices(CONF / group).values()]
    targets = {"envs.types.NodeSpec", *TARGET.findall("\n".join(texts))}
    return {name: dict(_defaults_of(import_target("conf", name))) for name in sorted(targets)}


def _defaults_of(built: Any) -> Iterator[tuple[str, Any]]:
    made = {each.name: each.default_factory for each in dataclasses.fields(built)} if _is_data(built) else {}
    for name, parameter in inspect.signature(built).parameters.items():
        if parameter.default is not parameter.empty:
            factory = made.get(name, dataclasses.MISSING)
            yield name, to_hashable(parameter.default if factory is dataclasses.MISSING else factory())


def _is_data(built: Any) -> bool:
    return isinstance(built, type) and dataclasses.is_dataclass(built)


def find_pins() -> dict[str, Any]:
    """Play the worlds; return what `world_pins.json` holds."""
    played: dict[str, Any] = {}
    for name, world in worlds().items():
        jobs = world.workload.jobs
        used = [name for name in jobs.dtype.names or () if name not in LATER or name in used_columns(jobs)]
        waits = [world.workload.dependencies] if world.workload.dependencies else []
        inputs = _hash([jobs[used], *waits, world.workload.models, world.setup.cluster, world.setup.scenario])
        played[name] = {"inputs": inputs, **{each: describe_run(run) for each, run in world.play().items()}}
    return {"world_version": WORLD_VERSION, "defaults": find_defaults(), "played": played}


def main() -> None:
    """Write the pins, unless they are of this version already."""
    found, pinned = find_pins(), json.loads(PINS.read_text(encoding="utf-8")) if PINS.exists() else {}
    same_version = pinned.get("world_version") == WORLD_VERSION
    if same_version and found["played"] != pinned["played"] and "--again" not in sys.argv:
        sys.exit(
            f"the pins are of version {WORLD_VERSION} already, and the world plays differently: raise WORLD_VERSION in "
            "envs/simulation/version.py, or give --again if no release has had this version"
        )
    PINS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{PINS.name}: written for version {WORLD_VERSION} of the world")


if __name__ == "__main__":
    main()
