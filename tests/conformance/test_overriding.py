"""A subclass of a compiled scheduler or market is played by its own rule, whatever it overrides.

The hooks are read from the classes, so a new compiled scheduler or market is covered as soon as `conf` names it.
"""

import sys
import time
from abc import ABCMeta
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from types import new_class
from typing import Any, Generic, TypeVar

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from baselines.hesrpt import HeSrpt
from baselines.las import Las
from baselines.planner import RolloutPlanner
from baselines.planner.rollouts import play_on, plays_ahead
from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.evaluation.playing import ReportingScheduler
from envs.scheduling import Scheduler
from envs.simulation import RunResult, Simulator, plays_compiled, run_episode
from envs.simulation.seen.overriding import ACCESS, IGNORED, find_definer, find_override
from envs.types import MurmurationError
from murmuration.config.arguments import ORACLE_SCHEDULERS
from murmuration.config.choices import CONF
from murmuration.config.tables import read_choices
from tests.conformance.random_worlds import RandomWorld, random_world
from tests.conformance.test_schedulers import SCHEDULERS, build
from tests.conformance.test_starling_market import zoo_world
from tests.unit.bidding.bidders import louder, rolled_out

T = TypeVar("T")
EVERYONE = {**SCHEDULERS, **{name: build(name) for name in ORACLE_SCHEDULERS}}
COMPILED = {name: one for name, one in EVERYONE.items() if any("play" in vars(each) for each in type(one).__mro__)}
CLASSES = {type(one): name for name, one in reversed(COMPILED.items())}  # the first of each class
PLAYED = {cls: name for cls, name in CLASSES.items() if name not in ORACLE_SCHEDULERS}
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
every_played = pytest.mark.parametrize("cls", PLAYED, ids=lambda cls: cls.__name__)
RANDOM = random_world(3, plain=True)
SCENARIO = replace(RANDOM.setup.scenario, batch_sizes="usual")  # with a choice, Starling does not play compiled
WORLD = replace(RANDOM, setup=replace(RANDOM.setup, scenario=SCENARIO))


def build_market(name: str) -> Any:
    """Build the market of a YAML file as the scripts do."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return instantiate(compose(overrides=[f"+market={name}"]).market)


FILES = list(read_choices(CONF / "market"))
MARKETS = {name: build_market(name) for name in FILES}
every_market = pytest.mark.parametrize("name", MARKETS)


def of(cls: type, sub: type) -> Any:
    """The scheduler of a class, as one of a subclass of it."""
    scheduler = deepcopy(COMPILED[CLASSES[cls]])
    object.__setattr__(scheduler, "__class__", sub)
    return scheduler


def hooks_of(cls: type) -> dict[str, Any]:
    """Whatever a class and its bases define, by name."""
    found: dict[str, Any] = {}
    for each in reversed(cls.__mro__[:-1]):
        found.update(vars(each))
    return {name: value for name, value in found.items() if name not in IGNORED and not name.startswith("__")}


def noting(name: str, value: Any, noted: list[str]) -> Any:
    """A property or a function that does as one of a class does, and notes that it was asked."""
    inner: Any = value.fget if isinstance(value, property) else getattr(value, "__func__", value)

    def ask(*args: Any, **options: Any) -> Any:
        noted.append(name)
        return inner(*args, **options)

    return property(ask) if isinstance(value, property) else type(value)(ask) if inner is not value else ask


@contextmanager
def codes_run() -> Iterator[set[Any]]:
    """Collect the code of all Python functions that are called."""
    ran: set[Any] = set()
    sys.setprofile(lambda frame, event, arg: ran.add(frame.f_code))
    try:
        yield ran
    finally:
        sys.setprofile(None)


def code_of(value: Any) -> Any:
    """The code of a method or property; None of anything else."""
    return getattr(value.fget if isinstance(value, property) else getattr(value, "__func__", value), "__code__", None)


def engine(world: RandomWorld = WORLD) -> Simulator:
    """A fresh episode."""
    return Simulator(world.workload, world.setup, world.seed)


def played(scheduler: Scheduler, **options: Any) -> RunResult:
    """A whole episode."""
    return run_episode(scheduler, engine(), "x", **options)


def test_there_are_compiled_schedulers_and_markets() -> None:
    assert {"Fifo", "Srtf", "Starling", "ForecastPlanner", "OraclePlanner"} <= {cls.__name__ for cls in CLASSES}
    assert {"fifo", "starling", "forecast_planner"} <= set(MARKETS)


@every_class
def test_a_scheduler_and_a_subclass_that_overrides_nothing_are_compiled(cls: type) -> None:
    def begin(self: Any, *args: Any, **options: Any) -> None:
        super(type(self), self).__init__(*args, **options)

    new = {"__init__": begin, "__doc__": "Other.", "of_its_own": 3, "help": lambda self: None}
    assert all(plays_compiled(one) for one in COMPILED.values())
    generic: Any = Generic
    typed = new_class("Typed", (cls, generic[T]))
    for sub in (type("Sub", (cls,), new), ABCMeta("Abstract", (cls,), {}), typed):
        assert find_override(of(cls, sub), cls) == ""
        assert plays_compiled(of(cls, sub))


@every_played
def test_every_hook_that_is_overridden_is_asked_where_the_scheduler_asks_for_it(cls: type) -> None:
    """What runs decision by decision is what an overriding method must see; in a subclass, a mixin and an instance."""
    scheduler = COMPILED[CLASSES[cls]]
    with codes_run() as ran:
        expected = played(deepcopy(scheduler), compiled=False)
    asked = 0
    for name, value in hooks_of(cls).items():
        code = code_of(value)
        if name == "play" or code is None:
            continue
        noted: list[str] = []
        other = noting(name, value, noted)
        changed = [
            of(cls, type("Sub", (cls,), {name: other})),
            of(cls, type("Mixed", (type("Mixin", (), {name: other}), cls), {})),
        ]
        if not isinstance(value, property):
            changed.append(of(cls, cls))
            vars(changed[-1])[name] = other.__get__(changed[-1])
        assert not any(plays_compiled(one) for one in changed), name
        for one in changed if name in ("reset", "schedule") else changed[-1:]:
            noted.clear()
            assert played(one).log == expected.log, name
            assert bool(noted) == (code in ran), name
            asked += bool(noted)
    print(f"{cls.__name__}: {asked} overriding methods were asked")
    assert asked >= 6, "at least `reset` and `schedule`, three ways"


@every_class
def test_every_attribute_that_is_overridden_prevents_compiled_play(cls: type) -> None:
    for name, value in hooks_of(cls).items():
        if code_of(value) is None:
            assert not plays_compiled(of(cls, type("Sub", (cls,), {name: object()}))), name
    owner = find_definer(COMPILED[CLASSES[cls]], "play")
    for name in vars(COMPILED[CLASSES[owner]]) if owner else ():
        sub = type("Sub", (cls,), {name: property(partial(lambda name, self: vars(self)[name], name))})
        assert not plays_compiled(of(cls, sub)), name
    for name in ACCESS:
        assert not plays_compiled(of(cls, type("Sub", (cls,), {name: lambda self, *args: None}))), name


class OwnRule:
    """Decide as HeSRPT."""

    def schedule(self, view: Any) -> Any:
        """See `Scheduler`."""
        return HeSrpt().schedule(view)


@every_class
def test_a_subclass_is_played_by_its_own_rule(cls: type) -> None:
    expected = played(HeSrpt())
    parent = played(of(cls, cls))
    direct = type("Sub", (cls,), {"schedule": OwnRule.schedule})
    for sub in (direct, type("Deep", (direct,), {}), type("Mixed", (OwnRule, cls), {})):
        assert played(of(cls, sub)).log == expected.log != parent.log
    behind = of(cls, type("Behind", (cls, OwnRule), {}))  # the class comes first, so that its rule counts
    assert plays_compiled(behind)
    assert played(behind).log == parent.log
    alone = of(cls, cls)
    alone.schedule = HeSrpt().schedule
    assert played(alone).log == expected.log


@every_class
def test_a_subclass_that_overrides_play_too_is_compiled_by_its_own(cls: type) -> None:
    asked = []

    def play(self: Any, simulator: Simulator, **options: Any) -> bool:
        asked.append(cls.play(self, simulator, **options))  # type: ignore[attr-defined]
        return bool(asked[-1])

    sub = type("Sub", (cls,), {"schedule": OwnRule.schedule, "play": play})
    assert plays_compiled(of(cls, sub))
    assert played(of(cls, sub)).log == played(of(cls, cls)).log
    assert asked == [True]
    assert not plays_compiled(of(cls, type("Below", (sub,), {"schedule": Las.schedule})))


def test_a_mixin_in_between_and_a_class_without_schedule_count() -> None:
    """`Sub` inherits `schedule` of `Other`, which comes before the `Base` from which `Fast` has its own."""
    base = type("Base", (HeSrpt,), {})
    fast = type("Fast", (base,), {"play": lambda self, simulator: False})
    other = type("Other", (base,), {"schedule": Las.schedule})
    assert plays_compiled(fast())
    assert not plays_compiled(type("Sub", (fast, other), {})())
    only_play = type("OnlyPlay", (), {"play": lambda self, simulator: False})
    assert not plays_compiled(type("Sub", (only_play, HeSrpt), {})())


def test_options_in_the_fields_of_a_dataclass_are_no_override() -> None:
    @dataclass
    class Fields(OwnRule):
        size: int = 3

        def play(self, simulator: Simulator) -> bool:
            return False

        def reset(self, cluster: Any, rng: Any) -> None:
            """See `Scheduler`."""

    assert plays_compiled(Fields(size=4))

    @dataclass
    class Larger(Fields):
        size: int = 5

    assert not plays_compiled(Larger())


def test_a_wrapper_that_passes_on_attributes_is_asked_itself() -> None:
    silent = ReportingScheduler(deepcopy(SCHEDULERS["fifo"]), "fifo", 0, 1, lambda *progress: None)
    assert hasattr(silent, "play")
    assert not plays_compiled(silent)


def test_rollouts_continue_by_the_rule_of_a_subclass() -> None:
    sub = of(Starling, type("Sub", (Starling,), {"schedule": OwnRule.schedule}))
    assert plays_ahead(Starling())
    assert not plays_ahead(sub)
    logs = []
    for scheduler in (sub, HeSrpt(), Starling()):
        simulator = engine()
        scheduler.reset(simulator.cluster, simulator.rng)
        play_on(simulator, scheduler, None, float("inf"))
        logs.append(simulator.result("x").log)
    assert logs[0] == logs[1] != logs[2]


@pytest.mark.parametrize("build_with", [StarlingMarket, RolloutPlanner])
def test_what_takes_the_settings_of_starling_refuses_one_with_another_rule(build_with: Callable[[Any], Any]) -> None:
    build_with(SCHEDULERS["forecast_planner"])
    sub = type("Sub", (Starling,), {"schedule": OwnRule.schedule, "play": lambda self, simulator: False})
    with pytest.raises(MurmurationError, match="Sub.* has its own `(play|schedule)`") as refused:
        build_with(sub())
    assert "\n" not in str(refused.value)


def test_the_check_is_cheap() -> None:
    starling = of(Starling, type("Sub", (Starling,), {}))
    plays_compiled(starling)
    began = time.process_time()
    for _ in range(1000):
        plays_compiled(starling)
    microseconds = (time.process_time() - began) * 1e3
    print(f"{microseconds:.0f} us for each check of a subclass of Starling")
    assert microseconds < 1000


@every_market
def test_every_hook_of_a_market_that_is_overridden_is_asked(name: str) -> None:
    """`attach` must keep the class of a market, and what was set on it."""
    cls, (setup, workload) = type(MARKETS[name]), zoo_world(0)

    def run(market: Any) -> Any:
        return rolled_out(louder, market, setup, workload, 0).state.log(0)

    with codes_run() as ran:
        expected = run(deepcopy(MARKETS[name]))
    asked = set()
    for hook, value in hooks_of(cls).items():
        code = code_of(value)
        if code is None:
            continue
        noted: list[str] = []
        market = deepcopy(MARKETS[name])
        market.__class__ = type("Sub", (cls,), {hook: noting(hook, value, noted)})
        assert run(market) == expected
        assert bool(noted) == (code in ran), hook
        asked |= set(noted)
    print(f"{name}: {sorted(asked)} were asked")
    assert {"attach", "begin", "propose", "clear"} <= asked


@every_market
def test_a_subclass_of_a_market_decides_by_its_own_rule(name: str) -> None:
    """One that proposes for bids what it proposes without, and so is deaf; a class or an object that says so."""
    cls, (setup, workload) = type(MARKETS[name]), zoo_world(0)
    logs = {}
    for rule, methods in {"deaf": {"clear": lambda self, worlds, bids: self.propose(worlds)}, "hearing": {}}.items():
        market = deepcopy(MARKETS[name])
        market.__class__ = type("Sub", (cls,), methods)
        logs[rule] = rolled_out(louder, market, setup, workload, 0).state.log(0)

    def mute(observation: Any) -> Any:
        return np.zeros_like(louder(observation))

    assert logs["deaf"] == rolled_out(mute, deepcopy(MARKETS[name]), setup, workload, 0).state.log(0) != logs["hearing"]
    attached = market.attach(setup, Simulator(workload, setup).table, Simulator(workload, setup).state)
    assert type(attached) is type(market)
