"""The inputs of a run, built from its config: cluster, performance model, scenario, workloads and schedulers."""

from dataclasses import dataclass

from omegaconf import DictConfig

from envs.performance import PerformanceModel
from envs.scheduling import Scheduler, ThroughputEstimator
from envs.simulation import Scenario, Setup
from envs.simulation.jit import on_first_compilation
from envs.types import ClusterSpec
from envs.workloads import WorkloadSource
from launch.building import build_object
from launch.errors import ChoiceError

# Top-level keys of configs that are not schedulers of the user's own.
RESERVED_KEYS = (
    "agent",
    "cluster",
    "env",
    "estimator",
    "market",
    "performance",
    "ray",
    "scenario",
    "schedulers",
    "task",
    "trainer",
    "workload",
)


@dataclass(frozen=True)
class RunInputs:
    """Everything that schedulers are compared or trained with."""

    setup: Setup
    source: WorkloadSource
    seed: int


def build_inputs(cfg: DictConfig) -> RunInputs:
    """Build cluster, performance model, scenario and workload source from the groups of these names; add the seed.

    Raises:
        ChoiceError: an option that no signature has or that has another type, or a seed that is not a whole number.
    """
    on_first_compilation(
        lambda: print("compiling, once after an installation: ten seconds to some minutes", flush=True)
    )
    if not isinstance(cfg.seed, int) or cfg.seed < 0:
        raise ChoiceError(f"seed is {cfg.seed!r}; it must be a whole number, not negative")
    setup = Setup(
        build_object(cfg.cluster, ClusterSpec),
        build_object(cfg.performance, PerformanceModel),
        build_object(cfg.scenario, Scenario),
        *([build_object(cfg.estimator, ThroughputEstimator)] if cfg.get("estimator") else []),
    )
    source = build_object(cfg.workload, WorkloadSource, cluster=setup.cluster, performance=setup.performance)
    return RunInputs(setup, source, cfg.seed)


def build_schedulers(cfg: DictConfig) -> dict[str, Scheduler]:
    """Build the schedulers chosen from the library and the user's own, by name.

    Raises:
        ChoiceError: an object that is no scheduler, or one name for two of them.
    """
    built = {name: build_object(node) for name, node in find_schedulers(cfg).items()}
    for name, scheduler in built.items():
        if not isinstance(scheduler, Scheduler):
            lacks = [method for method in ("reset", "schedule") if not hasattr(scheduler, method)]
            raise ChoiceError(
                f"{name}: {type(scheduler).__name__} has no {' and no '.join(lacks)}; a scheduler needs both"
            )
    return built


def find_schedulers(cfg: DictConfig) -> dict[str, DictConfig]:
    """Config nodes of schedulers by name; the user's own are all further top-level keys with a `_target_`.

    Raises:
        ChoiceError: one of the user's own is also under `schedulers`, where it would be ignored.
    """
    others = {str(name): node for name, node in cfg.items() if name not in RESERVED_KEYS}
    own = {name: node for name, node in others.items() if isinstance(node, DictConfig) and "_target_" in node}
    library = {str(name): node for name, node in cfg.schedulers.items()}
    for name in own:
        if "_target_" in library.get(name, ()):
            raise ChoiceError(f"{name}: is a scheduler of the library and one of your own; give yours another name")
        if name in library:
            options = ", ".join(f"{name}.{option}" for option in library[name])
            raise ChoiceError(
                f"schedulers.{name}: {name} is a scheduler of your own, whose options are not under schedulers; "
                f"write {options}=<value>"
            )
    return {**library, **own}
