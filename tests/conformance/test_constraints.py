"""Jobs with constraints: both engines agree, and no job runs where it must not."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from baselines import Fifo, Las, Optimus, Random, Srtf, Starling, Tiresias
from baselines.parts.linear_gaussian import LinearGaussian
from baselines.starling.market import StarlingMarket
from envs.evaluation.audit import Audit
from envs.options.arrays import OPTION_ACTION, OPTION_ROW
from envs.options.columns import START
from envs.options.rules import CHANGES, OptionRules
from envs.performance import IdealModel
from envs.scheduling import Scheduler
from envs.simulation import FifoMarket, Information, Rounds, Scenario, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import (
    AllocationError,
    ClusterSpec,
    Constraints,
    JobSpec,
    MurmurationError,
    NodeSpec,
    constrain,
    name_of_nodes,
)
from envs.workloads import Workload
from murmuration.config.building import Component
from murmuration.config.errors import ChoiceError
from murmuration.config.honoured import IGNORE_SHAPES, build_able, find_unable, leave_out_unable
from murmuration.runs.deploying import actors
from murmuration.runs.films import find_actor
from tests.conformance.constrained_worlds import HALLS, Bold, check_log, constrained_world, halls_workload
from tests.conformance.test_protocol import same_log
from tests.conformance.test_reference import compare_results, play_both
from tests.conformance.test_schedulers import FILES, build, composed
from tests.conformance.worlds import Curved
from tests.unit.bidding.bidders import Bidder, loud, rolled_out
from tests.unit.options.test_reference import play as play_options
from tests.unit.options.worlds import batch_of, begun, random_rules

CHUNK = 12


@pytest.mark.parametrize("chunk", range(2))
def test_both_engines_agree(chunk):
    """On random worlds with constraints, plain and with all rules, with pairs and with hidden throughputs."""
    placed = 0
    for seed in range(7000 + CHUNK * chunk, 7000 + CHUNK * (chunk + 1)):
        world = constrained_world(seed, pairs=seed % 3 == 0, plain=seed % 2 == 0)
        if seed % 5 == 4:
            information = Information(("exact", "predicted")[seed % 2], throughput="observed")
            scenario = replace(world.setup.scenario, batch_sizes="usual", information=information)
            setup = replace(world.setup, scenario=scenario, estimator=LinearGaussian())
            world = replace(world, setup=setup, scheduler=lambda: Bold(names=0.0))
        first, second = play_both(world)
        compare_results(world, first, second)
        placed += check_log(world.workload, world.setup.cluster, first.log)
    assert placed > 60


GPUS = {"A100": ("A100", ["day"], ["ib"]), "V100": ("V100", ["day", "night"], []), "A100/7": ("A100/7", ["night"], [])}
FORBIDDEN = {
    "types=H100+V100": (Constraints(gpu_types=("H100", "V100")), {0: 2}, {1: 2}, "node 0"),
    "pools=night": (Constraints(pools=("night",)), {0: 1, 1: 1}, {1: 2}, "node 0"),
    "features=ib": (Constraints(features=("ib",)), {1: 2}, {0: 2}, "node 1"),
    "gpu_gb=40": (Constraints(gpu_memory=40), {1: 2}, {0: 2}, "node 1"),
    "mig=1g.10gb": (Constraints(mig_profile="1g.10gb"), {0: 2}, {3: 2}, "node 0"),
    "max_nodes=1": (Constraints(max_nodes=1), {0: 1, 2: 1}, {0: 2}, "nodes 0, 2"),
    "nodes=2": (Constraints(num_nodes=2), {0: 2}, {0: 1, 2: 1}, "nodes 0"),
    "per_node=1": (Constraints(gpus_per_node=1), {0: 2}, {0: 1, 2: 1}, "node 0"),
    "exclusive": (Constraints(exclusive=True), {1: 2}, {0: 2}, "job 0 is placed on node 1"),
}


def four_nodes(constraints: Constraints) -> tuple[Workload, Setup]:
    """Two nodes of A100, one of them in a pool with V100, one of slices; job 1 has the constraints."""
    nodes = [NodeSpec(name_of_nodes(*GPUS[gpu]), 4) for gpu in ("A100", "V100", "A100", "A100/7")]
    jobs = [JobSpec(0, 0.0, 1, 9.0, "any"), JobSpec(1, 0.0, 2, 9.0, "any", constraints=constraints)]
    return Workload.of(jobs), Setup(ClusterSpec(tuple(nodes)), IdealModel(), Scenario())


@pytest.mark.parametrize("engine", [Simulator, ReferenceSimulator])
@pytest.mark.parametrize("asked", FORBIDDEN)
def test_a_forbidden_placement_is_refused_and_pack_finds_an_allowed_one(engine, asked):
    constraints, wrong, right, said = FORBIDDEN[asked]
    assert str(constraints) == asked
    simulator = engine(*four_nodes(constraints))
    view = next(simulator.rounds())
    for gpus in (wrong, right):
        allocation = view.allocation()
        allocation.place(0, {1: 1})
        allocation.changes[1] = replace(allocation.changes[0], gpus=gpus)
        if gpus is wrong:
            with pytest.raises(AllocationError, match=f"^job 1: .*{said if engine is Simulator else ''}"):
                simulator.apply(allocation)
    packed = view.allocation()
    packed.place(0, {1: 1})
    assert packed.pack(1, gpu_types=[1, 0, 2], scatter=True)
    simulator.apply(packed)
    simulator.apply(view.allocation(keep_running=True))
    assert view.placement(1).gpus.keys() <= {0, 1, 2, 3}
    if constraints.exclusive:
        node = next(iter(view.placement(1).gpus))
        assert view.free_gpus[node] == 0
        again = view.allocation(keep_running=True)
        assert again.free_gpus[node] == 0
        again.stop(1)
        assert again.free_gpus[node] == 4


def test_names_of_models_and_nodes_hold_what_is_asked():
    for constraints, *_ in FORBIDDEN.values():
        spec = JobSpec(0, 0.0, 1, 1.0, "resnet50", constraints=constraints)
        assert JobSpec(0, 0.0, 1, 1.0, spec.model).constraints == constraints
    workload = Workload.of([JobSpec(0, 0.0, 1, 1.0, "any", constraints=Constraints(pools=("a",), num_nodes=3))])
    assert workload.models == ("any where pools=a nodes=3",)
    assert workload.known_models == ("any",)
    assert workload.spec(0).constraints.pools == ("a",)
    assert np.unique(workload.jobs["model"]).tolist() == [0]


class Shared(Curved):
    """Two jobs on a GPU keep most of their throughput."""

    def pair_factor(self, model: str, other: str, gpu_type: str) -> float:
        """Return the share of its speed that a model keeps beside another."""
        return 0.75 if {model, other} == {"any"} else 0.6


@pytest.mark.parametrize("name", FILES)
def test_schedulers_honour_constraints_or_are_refused(name):
    """On nodes that differ in GPU type, pool and feature; every job of a scheduler that is not refused finishes.

    In half of the worlds, jobs also ask for numbers of nodes, GPUs on each, and nodes of their own. Both engines agree.
    """
    component = Component("scheduler", {"_target_": composed()[name]["_target_"]})
    for seed in range(4):
        workload = halls_workload(seed, shapes=seed >= 2)
        unable = find_unable({name: component}, [workload])
        assert not unable or (seed >= 2 and component.values["_target_"].startswith(tuple(IGNORE_SHAPES)))
        if unable:
            return
        rounds = Rounds(interval=30.0 if seed % 2 else None)
        scenario = Scenario(restart_delay=2.0, horizon=1e7, rounds=rounds)
        scenario = replace(scenario, sharing="pairs") if "packed" in name else scenario
        setup = Setup(HALLS, Shared(), scenario)
        result = run_episode(build(name), Simulator(workload, setup))
        assert check_log(workload, HALLS, result.log) > 10
        assert result.finished.all()
        if seed == 3 and "packed" not in name:  # which copies the cluster, as only the compiled engine can
            assert run_episode(build(name), ReferenceSimulator(workload, setup)).log == result.log


PLAYERS: tuple[Callable[[], Scheduler], ...] = (
    lambda: Fifo("easy"),
    lambda: Fifo("skip", "first_fit"),
    Las,
    Srtf,
    Random,
    lambda: Tiresias(placement="spread"),
    Optimus,
)


@pytest.mark.parametrize(
    "first", [7200, 7250, *(pytest.param(first, marks=pytest.mark.exhaustive) for first in range(7300, 7700, 50))]
)
def test_both_engines_agree_with_constraints_and_limits(first):
    """On 500 random worlds, 100 of them by default; in every other one a scheduler plays, and nothing is refused."""
    placed = ended = 0
    for seed in range(first, first + 50):
        world = constrained_world(seed, pairs=seed % 3 == 0, plain=seed % 4 == 0, limits=True)
        if seed % 2:
            scenario = replace(world.setup.scenario, information=Information("exact"))
            world, player = replace(world, setup=replace(world.setup, scenario=scenario)), PLAYERS[seed % len(PLAYERS)]
            results = [
                run_episode(player(), engine(world.workload, world.setup, world.seed))
                for engine in (Simulator, ReferenceSimulator)
            ]
        else:
            results = list(play_both(world))
        compare_results(world, *results)
        Audit(world.setup).check(results[0])
        placed += check_log(world.workload, world.setup.cluster, results[0].log)
        ended += int(results[0].at_limit.sum())
    assert placed > 100
    assert ended > 10


def test_a_scheduler_that_does_not_honour_them_is_refused_where_it_is_named(capsys):
    """By comparisons and sweeps; by films and the bridge too, which play no other in its place."""
    workloads = [Workload.of([JobSpec(0, 0.0, 4, 1.0, "any", constraints=Constraints(num_nodes=2))])]
    paths = {"fifo": "baselines.Fifo", "rubick": "baselines.Rubick", "own": "my_lab.Own"}
    chosen = {name: Component("scheduler", {"_target_": path}) for name, path in paths.items()}
    assert list(leave_out_unable(chosen, workloads, list(chosen))) == ["rubick"]
    run: Any = SimpleNamespace(checkpoint="", schedulers={"rubick": chosen["rubick"]})
    for refuse in (
        lambda: leave_out_unable(chosen, workloads, ["fifo"]),
        lambda: find_actor(run, workloads),
        lambda: actors(run, workloads[0]),
    ):
        with pytest.raises(ChoiceError) as refusal:
            refuse()
        assert str(refusal.value) == (
            "scheduler rubick: it moves single GPUs between nodes, and some jobs ask for a division among nodes "
            "(nodes=2); workload.constraints=none lifts that, or leave it out"
        )
    able = build_able({name: chosen[name] for name in ("fifo", "rubick")}, workloads, ["rubick"])
    assert list(able) == ["fifo"]
    assert capsys.readouterr().out.startswith("left out: rubick: it moves")


@pytest.mark.parametrize("scheduler", [Fifo, Starling])
def test_jobs_keep_their_constraints_through_the_protocol(scheduler, tmp_path):
    setup = Setup(HALLS, Curved(), Scenario(restart_delay=2.0, horizon=1e7))
    assert same_log(scheduler, setup, halls_workload(1), f"unix:{tmp_path / 's'}") > 25


@pytest.mark.parametrize("scheduler", [Fifo, Las, Starling])
def test_constraints_that_allow_every_node_change_no_log(scheduler):
    free = replace(halls_workload(2), models=("any",), jobs=halls_workload(2).jobs.copy())
    free.jobs["model"] = 0
    everywhere = Constraints(gpu_types=("new", "old", "small"), max_nodes=HALLS.num_nodes)
    some = replace(free, models=(constrain("any", everywhere),))
    setup = Setup(HALLS, Curved(), Scenario(restart_delay=2.0, horizon=1e7))
    logs = [run_episode(scheduler(), Simulator(workload, setup)).log for workload in (free, some)]
    assert logs[0] == logs[1]


def test_environments_refuse_what_they_cannot_offer():
    """Best fit divides no jobs; a job with nodes for itself has options."""
    workload, setup = four_nodes(Constraints(num_nodes=2))
    with pytest.raises(MurmurationError, match=r"\(nodes=2\), .* or workload\.constraints=none$"):
        batch_of(setup, workload, OptionRules(placing="best_fit"))
    workload, setup = four_nodes(Constraints(exclusive=True))
    for rules, count in ((OptionRules(placing="best_fit"), 1), (OptionRules(distinct_nodes=False), 4)):
        what = batch_of(setup, workload, rules).options().what
        starts = what[(what[:, OPTION_ROW] == 1) & (what[:, OPTION_ACTION] == START)]
        assert len(starts) == count


def test_options_offer_no_forbidden_node():
    """The compiled environment shows and does what its reference does, and chance finds nothing that is forbidden."""
    placed = 0
    for seed in range(7100, 7110):
        world = constrained_world(seed, plain=seed % 2 == 0, pairs=seed % 3 == 0)
        rng = np.random.default_rng(seed)
        batch, reference = begun(world, random_rules(rng, changes=CHANGES[seed % 3]))
        play_options(world.name, batch, reference, rng)
        assert batch.state.log(0) == reference.simulator.log
        placed += check_log(world.workload, world.setup.cluster, batch.state.log(0))
    assert placed > 20


@pytest.mark.parametrize("seed", range(4))
def test_bids_place_no_job_on_a_forbidden_node(seed):
    """Loud bids on two markets, as agents and as a scheduler."""
    workload = halls_workload(seed, shapes=seed >= 2)
    setup = Setup(HALLS, Curved(), Scenario(restart_delay=2.0, horizon=1e7))
    for market in (FifoMarket(), StarlingMarket()):
        batch = rolled_out(loud, market, setup, workload, seed)
        result = run_episode(Bidder(loud, market), Simulator(workload, setup))
        assert batch.state.log(0) == result.log
        assert check_log(workload, HALLS, result.log) > 10
        assert result.finished.all()
