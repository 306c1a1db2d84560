"""Invalid options are refused in one line that names the value and the fix."""

import math
from collections.abc import Callable

import pytest

from baselines import Fifo, Las, Optimus, Random, Srtf, Tiresias
from envs.scheduling import Scheduler
from envs.types import MurmurationError


def make(scheduler_class: Callable[..., Scheduler], **options: object) -> Scheduler:
    """Create a scheduler from unchecked options, as configuration files give them."""
    return scheduler_class(**options)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: make(Fifo, backfill="esay"), ("Fifo", "backfill", "'esay'", "none, skip or easy")),
        (lambda: make(Srtf, by="size"), ("Srtf", "by", "'size'", "time or gpu_time")),
        (lambda: make(Las, by="age"), ("Las", "by", "'age'", "gpu_time or time")),
        (lambda: make(Fifo, placement="worst"), ("Fifo", "placement", "'worst'", "best_fit or first_fit")),
        (lambda: Tiresias(limits=()), ("Tiresias", "limits", "[]", "at least one")),
        (lambda: Tiresias(limits=(5, 5)), ("Tiresias", "limits", "[5, 5]", "ascending")),
        (lambda: Tiresias(limits=(0, 5)), ("Tiresias", "limits", "[0, 5]", "positive")),
        (lambda: Tiresias(limits=(math.nan,)), ("Tiresias", "limits", "nan", "positive")),
        (lambda: Tiresias(promote_knob=0), ("Tiresias", "promote_knob", "0", "positive")),
        (lambda: Tiresias(promote_knob=math.nan), ("Tiresias", "promote_knob", "nan", "positive")),
        (lambda: make(Tiresias, order="size"), ("Tiresias", "order", "'size'", "first_start or entry")),
        (lambda: make(Tiresias, placement="any"), ("Tiresias", "placement", "'any'", "consolidated or spread")),
        (lambda: Optimus(restart_cost=-1), ("Optimus", "restart_cost", "-1", "not negative")),
        (lambda: Optimus(restart_cost=math.inf), ("Optimus", "restart_cost", "inf", "finite")),
        (lambda: Optimus(shortness=-0.5), ("Optimus", "shortness", "-0.5", "not negative")),
        (lambda: Optimus(shortness=math.nan), ("Optimus", "shortness", "nan", "finite")),
    ],
)
def test_bad_options(build, words):
    with pytest.raises(MurmurationError) as error:
        build()
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("scheduler", "information", "preemptive", "elastic"),
    [
        (Fifo(), "none", False, False),
        (Fifo(backfill="skip"), "none", False, False),
        (Fifo(backfill="easy"), "estimate", False, False),
        (Srtf(), "estimate", True, False),
        (Las(), "none", True, False),
        (Tiresias(), "none", True, False),
        (Random(), "none", False, True),
        (Optimus(), "estimate", True, True),
    ],
)
def test_declarations(scheduler, information, preemptive, elastic):
    assert isinstance(scheduler, Scheduler)
    declared = [getattr(scheduler, name) for name in ("information", "preemptive", "elastic")]
    assert declared == [information, preemptive, elastic]


def test_limits_may_be_any_sequence():
    """Configuration files give lists of whole numbers."""
    assert Tiresias(limits=[10, 20]).limits.tolist() == [10.0, 20.0]
