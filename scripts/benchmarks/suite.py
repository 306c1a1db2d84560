"""How much is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omegaconf import DictConfig

from benchmarks.worlds import Size
from envs.scheduling import Scheduler
from launch.build import build
from launch.names import ChoiceError, near
from launch.world import build_schedulers

SIZES = (Size(8, 160), Size(64, 1000), Size(1000, 16000), Size(12500, 100000))


@dataclass(frozen=True, slots=True)
class Suite:
    """One choice of sizes and repeats."""

    schedulers: Mapping[str, Scheduler] = field(default_factory=dict)  # whose decisions are timed
    data: str = ""  # folder with traces/; what needs it is left out without
    num_sizes: int = len(SIZES)  # of 8/160, 64/1,000, 1,000/16,000 and 12,500/100,000 servers/jobs, smallest first
    repeats: int = 3  # the best counts
    part: int = 200  # arrivals that the reference engine plays where it cannot play all
    steps: int = 100  # of the environment, in each repeat
    twin_seconds: float = 10.0  # that the environment's plain twin gets
    cold: float = 512.0  # MB of environments stepped in turn, more than caches hold
    candidates: Sequence[int] = (64, 256)  # lengths of the shown queue besides 16
    decisions: int = 3  # of each scheduler after its first
    decision_limit: float = 20.0  # seconds on the clock
    rounds: int = 200  # of a minute, beside published simulators
    iterations: int = 2  # of PPO
    batch: int = 8192  # environment steps of an iteration, learned from in eighths
    fresh: bool = True  # whether a start without compiled kernels is timed
    million: bool = True  # whether 1,000,000 jobs on 100,000 GPUs are played

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Those measured."""
        return SIZES[: self.num_sizes]


def suite_of(cfg: DictConfig) -> Suite:
    """The suite that a config names.

    Raises:
        ChoiceError: there is none of that name, or an option that does not exist.
    """
    if cfg.suite not in cfg.suites:
        there = ", ".join(map(str, cfg.suites))
        raise ChoiceError(
            f"suite={cfg.suite}: no such suite{near(cfg.suite, map(str, cfg.suites))}; there are: {there}"
        )
    suite: Suite = build(cfg.suites[cfg.suite], schedulers=build_schedulers(cfg), data=cfg.data)
    return suite
