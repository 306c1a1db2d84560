"""The world that a config describes, as plain objects."""

from dataclasses import dataclass

from omegaconf import DictConfig

from envs.performance import PerformanceModel
from envs.scheduling import Scheduler
from envs.simulation import Scenario
from envs.simulation.jit import on_first_compilation
from envs.types import ClusterSpec
from envs.workloads import WorkloadSource
from launch.build import build
from launch.names import ChoiceError
from launch.schedulers import scheduler_nodes


@dataclass(frozen=True)
class World:
    """Where schedulers are compared or trained."""

    cluster: ClusterSpec
    performance: PerformanceModel
    scenario: Scenario
    source: WorkloadSource
    seed: int


def build_world(cfg: DictConfig) -> World:
    """Cluster, performance model, scenario and workload source of a config's groups of the same names, and its seed.

    Raises:
        ChoiceError: an option that no signature has or of another type, or a seed that is none.
    """
    on_first_compilation(
        lambda: print("compiling, once after an installation: ten seconds to half a minute", flush=True)
    )
    if not isinstance(cfg.seed, int) or cfg.seed < 0:
        raise ChoiceError(f"seed is {cfg.seed!r}; it must be a whole number, not negative")
    cluster, performance = build(cfg.cluster), build(cfg.performance)
    source = build(cfg.workload, cluster=cluster, performance=performance)
    return World(cluster, performance, build(cfg.scenario), source, cfg.seed)


def build_schedulers(cfg: DictConfig) -> dict[str, Scheduler]:
    """The schedulers chosen from the library, and the user's own: see `launch.schedulers`.

    Raises:
        ChoiceError: what a `_target_` built is no scheduler, or a name stands for two of them.
    """
    built = {name: build(node) for name, node in scheduler_nodes(cfg).items()}
    for name, scheduler in built.items():
        if not isinstance(scheduler, Scheduler):
            lacks = [method for method in ("reset", "schedule") if not hasattr(scheduler, method)]
            raise ChoiceError(
                f"{name}: {type(scheduler).__name__} has no {' and no '.join(lacks)}; a scheduler needs both"
            )
    return built
