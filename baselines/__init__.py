"""Published heuristics, one idea per file, each a `Scheduler` of `envs.scheduling`. Imports `envs` only.

All of them are work-conserving over GPU types: a job whose fastest type is taken starts on a slower one on which
it runs, rather than wait. None of them spreads one job over two GPU types.

| class | idea | paper |
|---|---|---|
| `Fifo` | order of arrival, with or without backfilling | EASY: Lifka, JSSPP'95 |
| `Srtf` | shortest remaining time (or GPU-time) first | Muri, SIGCOMM'22, section 6 |
| `Las` | least attained service first | Tiresias, NSDI'19, section 3.2 |
| `Tiresias` | discretised two-dimensional least attained service | Tiresias, NSDI'19, section 3.2 |
| `Random` | any job, anywhere | the floor of every comparison |
| `Optimus` | GPUs by marginal reduction of the remaining time | Optimus, EuroSys'18, section 4 |
"""

from baselines.fifo import Fifo
from baselines.las import Las
from baselines.optimus import Optimus
from baselines.random_scheduler import Random
from baselines.srtf import Srtf
from baselines.tiresias import Tiresias

__all__ = ["Fifo", "Las", "Optimus", "Random", "Srtf", "Tiresias"]
