"""The forecast planner: Starling that compares more candidates in each round, all in compiled code."""

import math
from typing import Literal

from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from baselines.starling.scheduler import KNOWN, OTHER_VARIANTS, StarlingParameters, Variant
from envs.types import MurmurationError

# Orders and sizes between those of Starling's variants, then beyond them.
FURTHER_VARIANTS = (
    *(Variant(gang=gang, knee=knee) for gang in (0.5, 1.3) for knee in (0.25, 0.6)),
    *(Variant(gang=gang, knee=knee) for gang in (0.3, 0.7) for knee in (0.3, 0.5)),
    *(Variant(gang=gang, knee=knee) for gang in (0.0, 1.0, 1.4) for knee in (0.15, 0.4, 0.7)),
)

# Chosen on 100 training workloads of each of shared-64, rigid-64 and full-64.
DISCOUNT = 0.12


class ForecastPlanner(Starling):
    """Starling with the candidates of further variants, each forecast over the next completions; the best is applied.

    In each round, Starling builds a merged candidate for each of its variants, which order and size jobs in different
    ways, plays each ahead by its own continuing decisions and without further arrivals, and applies the one with the
    least sum of completion times. The planner does the same with `plans` further variants. A candidate costs about an
    eighth of Starling's decision, so the effort of a decision is chosen by their number, and results are the same on
    every machine. With 0, and no discount, it is Starling, to the bit.

    In contrast to `RolloutPlanner`, which plays candidates ahead by all rules of the world on a copy of the cluster, it
    looks ahead by Starling's forecast: nodes do not fail, and placements change at completions only. That takes a
    hundredth of the time and compares whole candidates in place of local changes.

    Late completions count less than in Starling (`discount`): what is forecast for hours ahead is uncertain, as jobs
    will arrive meanwhile, and a candidate that only looks better at the end often is not.

    Where remaining work is hidden, Starling does not forecast, so this is Starling. Rollouts of several heuristics in
    parallel: Chang, Givan and Chong, Discrete Event Dynamic Systems 2004.

    Args:
        plans: number of further variants, at most `len(FURTHER_VARIANTS)`; the first ones are used.
        look_ahead: completions in the forecast.
        discount: as in `Starling`, per hour.
        known: Starling's parameters if remaining work is known or estimated.
        batch: as in `Starling`.

    Raises:
        MurmurationError: `plans` is out of range, `look_ahead` is negative, or `discount` is negative or infinite.
    """

    def __init__(
        self,
        plans: int = 4,
        look_ahead: int = 12,
        discount: float = DISCOUNT,
        known: StarlingParameters = KNOWN,
        batch: Literal["usual", "best"] = "best",
    ) -> None:
        if not 0 <= plans <= len(FURTHER_VARIANTS):
            raise MurmurationError(f"ForecastPlanner: plans is {plans}; it must be from 0 to {len(FURTHER_VARIANTS)}")
        if not 0 <= discount < math.inf:
            raise MurmurationError(f"ForecastPlanner: discount is {discount}; it must be at least 0, and finite")
        super().__init__(
            known, look_ahead=look_ahead, variants=(*OTHER_VARIANTS, *FURTHER_VARIANTS[:plans]), batch=batch
        )
        self.plans, self.discount = plans, discount


class ForecastMarket(StarlingMarket):
    """The forecast planner as a market: what bids change, it changes in all candidates that are compared.

    Args:
        plans: as in `ForecastPlanner`.
        look_ahead: likewise.
        discount: likewise.

    Raises:
        MurmurationError: see `ForecastPlanner`.
    """

    def __init__(self, plans: int = 4, look_ahead: int = 12, discount: float = DISCOUNT) -> None:
        super().__init__(ForecastPlanner(plans, look_ahead, discount))
