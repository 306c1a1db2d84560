"""Named job streams: three made for the suite, and two with the moments of public traces from small measured tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from envs.types import Seconds, TraceError
from envs.workloads.distributions import (
    AllAtOnce,
    ArrivalProcess,
    Arrivals,
    Durations,
    LogNormal,
    MarkovModulated,
    Quantiles,
)


@dataclass(frozen=True)
class JobStream:
    """Distributions of job sizes, durations and arrivals. The offered load sets the arrival rate, not the stream."""

    sizes: Mapping[int, float]  # GPUs requested -> share of jobs
    durations: Mapping[int, Durations]  # at least this many GPUs -> run times on the requested GPUs
    arrivals: ArrivalProcess
    source: str

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1 or min(self.sizes.values()) < 0 or sum(self.sizes.values()) <= 0:
            raise TraceError(
                f"job sizes are {dict(self.sizes)}; give GPU counts of at least 1 with shares that are not all 0"
            )
        if not self.durations or min(self.durations) > min(self.sizes):
            raise TraceError(
                f"durations begin at {min(self.durations, default=0)} GPUs; they must begin at "
                f"{min(self.sizes)} or less"
            )

    def durations_of(self, num_gpus: int) -> Durations:
        """Return the distribution of run times of jobs of this size."""
        return self.durations[max(size for size in self.durations if size <= num_gpus)]


_LEVELS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.95, 0.97, 0.99, 0.995, 0.999, 1.0)


def _quantiles(*seconds: Seconds) -> Quantiles:
    return Quantiles(_LEVELS, seconds)


DEMO = JobStream(
    sizes={1: 0.40, 2: 0.20, 4: 0.20, 8: 0.15, 16: 0.05},
    durations={1: LogNormal(median=1800.0, sigma=1.3, low=120.0, high=86400.0)},
    arrivals=Arrivals(cv=1.5),
    source="made for the demo: gangs on up to two nodes, hours of work, somewhat bursty; small enough to watch",
)

# Gaps have a coefficient of variation of 2.24, close to Philly's 2.36, and short gaps follow each other.
BURSTY = JobStream(
    sizes=DEMO.sizes,
    durations=DEMO.durations,
    arrivals=MarkovModulated(busy_share=0.2, intensity=4.0, busy_jobs=40.0),
    source="made for the suite: sizes and run times of the demo; four fifths of the jobs arrive in a fifth of the time",
)

BATCH = JobStream(
    sizes=DEMO.sizes,
    durations=DEMO.durations,
    arrivals=AllAtOnce(),
    source="made for the suite: sizes and run times of the demo; all jobs arrive at once",
)

# As in Acme (Hu et al., NSDI'24), most jobs are small and short, and a few large ones hold most of the GPUs. A large
# job here is a run between two changes of its recipe, not a whole pre-training of weeks.
LLM = JobStream(
    sizes={1: 0.38, 2: 0.10, 4: 0.12, 8: 0.24, 16: 0.06, 32: 0.03, 64: 0.04, 128: 0.025, 256: 0.005},
    durations={
        1: LogNormal(median=900.0, sigma=1.3, low=60.0, high=43200.0),
        8: LogNormal(median=5400.0, sigma=1.0, low=300.0, high=86400.0),
        64: LogNormal(median=21600.0, sigma=0.8, low=1800.0, high=172800.0),
    },
    arrivals=BURSTY.arrivals,
    source="made for the suite: many small jobs, fine-tuning on a node or two, training on 64 to 256 GPUs",
)

# Deviation of PHILLY and ITP from their traces (tests/unit/workloads/test_calibration.py): quantiles of run times from
# 5 % to 99 % within 15 %; mean and coefficient of variation of run times, and mean GPU-seconds of a job, within 12 %;
# shares of sizes within 0.2 points; variability of gaps within 10 %. Not modelled: drift over weeks, and differences
# between users.

# Moments of the processed Philly subset, 73,250 jobs. Gaps between submissions are from 2017-09-24 to 2017-12-12, where
# the trace is dense. Two-GPU jobs have their own row because most end within half a minute and the others run for days.
PHILLY = JobStream(
    sizes={1: 0.9383, 2: 0.0233, 4: 0.0209, 8: 0.0160, 12: 0.0001, 16: 0.0006, 24: 0.0001, 32: 0.0007},
    durations={
        1: _quantiles(1, 30, 51, 61, 88, 966, 2869, 5542, 8847, 19123, 44283, 139820, 286013, 939399, 3256045),
        2: _quantiles(2, 5, 9, 11, 15, 20, 34, 155, 64231, 212029, 269796, 526305, 830903, 1480764, 2582803),
        4: _quantiles(
            9, 39, 83, 153, 607, 12686, 89303, 169995, 192398, 282102, 442699, 986948, 1946688, 2655869, 4628226
        ),
    },
    arrivals=Arrivals(
        cv=2.36,
        burst=0.057,
        daily=(
            *(1.28, 1.08, 1.04, 1.12, 0.74, 1.19, 1.56, 1.93, 1.11, 0.95, 1.13, 0.97),
            *(0.84, 0.78, 0.71, 0.72, 0.61, 0.61, 0.82, 0.80, 1.00, 0.97, 1.01, 1.02),
        ),
    ),
    source="measured on philly-traces (Jeon et al., ATC'19), processed subset, September to December 2017",
)

# Moments of the eight clusters together, 53,293 jobs. The publisher kept only jobs of at least 600 s.
ITP = JobStream(
    sizes={1: 0.8277, 2: 0.0222, 4: 0.0396, 8: 0.0982, 16: 0.0054, 32: 0.0060, 64: 0.0010},
    durations={
        1: _quantiles(
            600, 700, 1009, 1347, 4546, 8210, 12642, 16436, 22960, 31748, 50133, 102700, 117071, 421702, 752969
        ),
        2: _quantiles(601, 631, 734, 812, 3136, 3696, 4172, 12373, 27738, 59169, 76068, 516753, 698032, 798578, 899735),
        4: _quantiles(
            600, 669, 1257, 2412, 6184, 18430, 59862, 103327, 147307, 249171, 326575, 573505, 782851, 1028040, 1237189
        ),
    },
    arrivals=Arrivals(
        cv=3.93,
        burst=0.162,
        daily=(
            *(1.09, 1.15, 1.33, 1.26, 1.47, 1.17, 0.89, 0.98, 0.91, 0.92, 0.97, 0.92),
            *(0.82, 0.87, 0.71, 0.67, 0.74, 0.76, 0.96, 1.01, 0.94, 1.23, 1.14, 1.11),
        ),
    ),
    source="measured on elasticflow-traces (Microsoft ITP; Gu et al., ASPLOS'23), March to May 2021",
)

STREAMS: Mapping[str, JobStream] = MappingProxyType(
    {"demo": DEMO, "philly": PHILLY, "itp": ITP, "bursty": BURSTY, "batch": BATCH, "llm": LLM}
)


def stream(name: str) -> JobStream:
    """Return a job stream by name.

    Raises:
        TraceError: no stream has that name.
    """
    if name not in STREAMS:
        raise TraceError(f"workload.stream is {name!r}; choose one of {', '.join(STREAMS)}, or give a JobStream")
    return STREAMS[name]
