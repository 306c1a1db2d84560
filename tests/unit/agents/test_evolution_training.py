"""Training by evolution strategies from start to checkpoint: runs, resumes, plays as a scheduler, on Ray as without."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import ray
import torch
from safetensors.torch import load_file, save_file

from agents.methods.evolution import EvolutionSettings
from agents.methods.evolution.learning import EvolutionConfig, EvolutionSetup
from agents.networks import Blueprint
from agents.networks.bidding import BiddingPolicy
from agents.on_ray.pieces import LocalTraining, TrainingOnRay
from agents.policies import BiddingCheckpoint, BiddingScheduler
from agents.policies.bid_checkpoint import is_bidding
from agents.problems.bids import BiddingTask, BidProblem, Silence
from agents.problems.gain import gain_of
from agents.problems.objective import LogMerit, Return
from agents.problems.playing import Game, play
from agents.tags import GAIN, HEADLINE, POLICY, WORKER_SECONDS
from agents.training import Trainer, TrainingSettings
from baselines.srtf import Srtf
from envs.episodes import Elapsed
from envs.evaluation.playing import workload_seed
from envs.scheduling import Scheduler
from envs.simulation import FifoMarket, Scenario, Simulator, run_episode
from envs.types import CheckpointError, FloatArray, MurmurationError
from tests.unit.agents.curves import scalars
from tests.unit.agents.worlds import small_world

SETTINGS = EvolutionSettings(num_pairs=4, num_workloads=2, num_envs=3, sigma=0.2, lr=0.1)
BLUEPRINT = Blueprint("agents.networks.bidding.BiddingPolicy", {"width": 4})


def setup_of(
    settings: EvolutionSettings = SETTINGS, tasks: int = 2, start: Mapping[str, torch.Tensor] | None = None
) -> EvolutionSetup:
    worlds = [small_world(num_nodes=2 + i, num_jobs=10, load=2.0) for i in range(tasks)]
    made = tuple(BiddingTask(f"task {i}", world.setup, world.source, FifoMarket()) for i, world in enumerate(worlds))
    return EvolutionSetup(made, BLUEPRINT, settings, seed=3, start=start)


def fixed_batches(settings: EvolutionSettings) -> EvolutionSetup:
    """Two tasks in which every job keeps its usual batch size, so that nodes have six bids."""
    setup = setup_of(settings)
    scenario = replace(setup.tasks[0].setup.scenario, batch_sizes="usual")
    return replace(
        setup, tasks=tuple(replace(task, setup=replace(task.setup, scenario=scenario)) for task in setup.tasks)
    )


class Quiet:
    """A listener that keeps the notes, and the names of phases."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.phases: list[str] = []

    def phase(self, name: str, total: int) -> None:
        self.phases.append(name)

    def step(self, done: int, figures: object) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


FIFO = {"name": "fifo", "options": {}}


def problem_of(tasks: tuple[BiddingTask, ...] | None = None, blueprint: Blueprint = BLUEPRINT) -> BidProblem:
    return BidProblem(tasks or setup_of().tasks, blueprint, FIFO)


def trainer(
    folder: Path,
    iterations: int,
    start: Mapping[str, torch.Tensor] | None = None,
    problem: BidProblem | None = None,
    method: EvolutionSettings = SETTINGS,
) -> Trainer:
    length = TrainingSettings(method, iterations, validate_every=1, num_validation=3, picture_every=0)
    return Trainer(problem or problem_of(), length, {}, folder, 3, Quiet(), start)


def test_the_first_chart_has_one_measure_of_policy_and_baselines(tmp_path: Path) -> None:
    """The curve is the gain that validation reports; the market alone, played as one more baseline, gains nothing."""
    setup = setup_of()
    task = setup.tasks[0]
    silent = partial(BiddingScheduler, Silence(task.spec.num_bids), task.market, task.rules)
    baselines: dict[str, Callable[[], Scheduler]] = {"alone": silent, "srtf": Srtf}
    length = TrainingSettings(SETTINGS, 2, 1, 3, num_compared=2, picture_every=0)
    state = Trainer(problem_of(setup.tasks), length, baselines, tmp_path, 3, Quiet()).run()
    lines = {path.name: scalars(path) for path in (tmp_path / "tensorboard").iterdir()}
    assert set(lines) == {"alone", "srtf", POLICY}, "one line for one thing"
    assert not any(HEADLINE in tags for tags in lines.values()), "a second measure contradicts the first"
    gains = [(int(step), 100.0 * figures["task 0"]["jct"]) for step, figures in sorted(state.validation.items())]
    assert np.array(lines[POLICY][GAIN]) == pytest.approx(np.array(gains), abs=1e-5)
    assert gains[0][1] == 0.0, "a new policy bids nothing"
    assert np.array(lines["alone"][GAIN]) == pytest.approx(np.array([(0, 0.0), (2, 0.0)]), abs=1e-9)
    ratio = state.baselines["srtf"]["geometric_mean_jct"] / state.baselines["alone"]["geometric_mean_jct"]
    assert ratio != 1.0
    assert lines["srtf"][GAIN][0][1] == pytest.approx(100.0 * (1.0 - ratio), rel=1e-5)


def equal(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    here, there = one.state_dict(), other.state_dict()
    return all(torch.equal(here[name], there[name]) for name in there)


def test_a_new_policy_bids_nothing_and_scores_as_the_market() -> None:
    task = setup_of(tasks=1).tasks[0]
    workloads = [task.source.episode(np.random.default_rng(i), "validation") for i in range(5)]
    games = [Game(0, workload, i) for i, workload in enumerate(workloads)]
    policy = BiddingPolicy(task.spec, width=4)
    scores = play(policy, task.batch(2), games)
    assert scores == play(Silence(task.spec.num_bids), task.batch(4), games)
    gain = gain_of(scores, scores, LogMerit())
    assert (gain.jct, gain.makespan, gain.merit, gain.unfinished) == (0, 0, 0, 0)
    for score in scores:
        assert 0 < score.mean_jct < score.makespan


def test_strength_scales_what_a_policy_says() -> None:
    task = setup_of(tasks=1).tasks[0]
    batch = task.batch(1)
    batch.load(0, task.source.episode(np.random.default_rng(0), "train"), np.random.default_rng(0))
    observation = {name: torch.from_numpy(array) for name, array in batch.observation.items()}
    plain, weak = BiddingPolicy(task.spec, width=4, strength=1.0), BiddingPolicy(task.spec, width=4, strength=0.25)
    torch.nn.init.normal_(plain.direct.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    weak.load_state_dict(plain.state_dict())
    with torch.no_grad():
        said, softly = (torch.atanh(policy.bids(observation)) for policy in (plain, weak))
    assert said.abs().max() > 0
    assert torch.allclose(said, 4 * softly, atol=1e-5)
    with pytest.raises(MurmurationError, match="strength is 0.0; it must be positive"):
        BiddingPolicy(task.spec, strength=0.0)


def test_variants_differ_and_do_not_depend_on_the_size_of_the_batch() -> None:
    setup = setup_of(tasks=1)
    task, network = setup.tasks[0], setup.build()
    changes = setup.perturbations(network, 0)
    workload = task.source.episode(np.random.default_rng(0), "train")
    games = [Game(variant, workload, 0) for variant in range(8)]
    scores = play(network, task.batch(3), games, changes)
    assert scores == play(network, task.batch(12), games, changes)
    assert len({score.mean_jct for score in scores}) > 1


def test_a_run_goes_on_where_it_stopped_and_its_policy_plays(tmp_path: Path) -> None:
    whole = trainer(tmp_path / "whole", 3)
    state = whole.run()
    assert sorted(map(int, state.validation)) == [0, 1, 2, 3]
    assert all(figures["merit"] == 0.0 for figures in state.validation["0"].values())
    assert set(state.fresh) == {"task 0", "task 1"}
    trainer(tmp_path / "parts", 2).run()
    resumed = trainer(tmp_path / "parts", 3)
    again = resumed.run()
    assert again.validation == state.validation
    assert (state.num_episodes, len(state.cpu_time), len(again.cpu_time)) == (16, 3, 3)
    assert any("resumed after iteration 2" in note for note in resumed.listener.notes)  # type: ignore[attr-defined]
    last = [BiddingCheckpoint.load(tmp_path / name / "checkpoints" / "last") for name in ("whole", "parts")]
    assert equal(last[0].network, last[1].network)

    assert is_bidding(tmp_path / "whole" / "checkpoints" / "last")
    task = setup_of().tasks[0]
    workload = task.source.episode(np.random.default_rng(0), "validation")
    (score,) = play(last[0].network, task.batch(1), [Game(0, workload, workload_seed(0, 0))])  # type: ignore[arg-type]
    result = run_episode(last[0].scheduler(FifoMarket()), Simulator(workload, task.setup, workload_seed(0, 0)))
    assert result.num_unfinished == 0
    assert result.records["finish_time"].max() == score.makespan


def test_a_run_that_starts_from_a_checkpoint_begins_with_its_weights(tmp_path: Path) -> None:
    """Its first validation is that of the checkpoint, against the market alone; resumed, it needs no start."""
    gains = trainer(tmp_path / "first", 2).run().validation["2"]
    start = BiddingCheckpoint.load(tmp_path / "first" / "checkpoints" / "last").start_for(BLUEPRINT, 7)
    trainer(tmp_path / "none", 0, start).run()
    begun = BiddingCheckpoint.load(tmp_path / "none" / "checkpoints" / "last").network.state_dict()
    assert all(torch.equal(begun[name], start[name]) for name in start)
    state = trainer(tmp_path / "whole", 2, start).run()
    assert state.validation["0"] == gains
    assert gains["task 0"]["jct"] != 0.0
    trainer(tmp_path / "parts", 1, start).run()
    assert trainer(tmp_path / "parts", 2).run().validation == state.validation


def test_only_a_layer_that_is_added_is_trained(tmp_path: Path) -> None:
    """The volume is new: it starts at 1, so the first validation is that of the earlier policy; the rest stays."""
    setup = setup_of(tasks=1)
    network = setup.build()
    with torch.no_grad():
        for value in network.parameters():
            value.add_(3.0 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)))
    checkpoint = BiddingCheckpoint(network, BLUEPRINT, setup.tasks[0].rules, {}, {})
    gains = trainer(tmp_path / "plain", 0, checkpoint.start_for(BLUEPRINT, 7)).run().validation["0"]
    louder = Blueprint(BLUEPRINT.target, {**BLUEPRINT.options, "volume": "learned"})
    start = checkpoint.start_for(louder, 7)
    settings = replace(SETTINGS, layers=("volume",), sigma=1.0)
    run = trainer(tmp_path / "more", 2, start, problem_of(blueprint=louder), settings)
    assert run.run().validation["0"] == gains
    trained = BiddingCheckpoint.load(tmp_path / "more" / "checkpoints" / "last").network.state_dict()
    assert {name for name in trained if name not in start} == {"volume.weight", "volume.bias"}
    assert all(torch.equal(trained[name], start[name]) for name in start)
    assert trained["volume.weight"].abs().max() > 0


def test_another_network_cannot_start_from_a_checkpoint() -> None:
    setup = setup_of(tasks=1)
    checkpoint = BiddingCheckpoint(setup.build(), BLUEPRINT, setup.tasks[0].rules, {}, {})
    wider = Blueprint(BLUEPRINT.target, {"width": 8, "rounds": 2})
    with pytest.raises(CheckpointError, match="the network to train has width 8 and that of the checkpoint width 4"):
        checkpoint.start_for(wider, 7)
    unnamed = BiddingCheckpoint(
        BiddingPolicy(setup.tasks[0].spec), Blueprint(BLUEPRINT.target), setup.tasks[0].rules, {}, {}
    )
    with pytest.raises(CheckpointError, match="the network to train has rounds 2, width 8 and that of"):
        unnamed.start_for(wider, 7)
    with pytest.raises(CheckpointError, match="has target 'agents.networks.edge_attention.EdgeAttention'"):
        checkpoint.start_for(Blueprint("agents.networks.edge_attention.EdgeAttention", {"width": 4}), 7)


def six_bids(**options: object) -> tuple[BiddingCheckpoint, BiddingTask]:
    """A loud policy of six bids, and a task in which batch sizes may be chosen."""
    task = setup_of(tasks=1).tasks[0]
    network = BiddingPolicy(replace(task.spec, num_bids=6), width=4, **options)  # type: ignore[arg-type]
    with torch.no_grad():
        for value in network.parameters():
            value.add_(3.0 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)))
    blueprint = Blueprint(BLUEPRINT.target, {**BLUEPRINT.options, **options})
    return BiddingCheckpoint(network, blueprint, task.rules, {"name": "fifo", "options": {}}, {}, num_bids=6), task


def test_a_policy_of_six_bids_is_loaded_and_plays_where_there_are_seven(tmp_path: Path) -> None:
    """Manifests from before there were seven do not say how many they have."""
    checkpoint, task = six_bids()
    checkpoint.save(tmp_path)
    manifest = json.loads((tmp_path / "policy.json").read_text())
    assert manifest.pop("num_bids") == 6
    games = [Game(0, task.source.episode(np.random.default_rng(i), "validation"), i) for i in range(2)]
    expected = play(checkpoint.network, task.batch(2), games)  # type: ignore[arg-type]
    for written in (manifest, {**manifest, "num_bids": 6}):
        (tmp_path / "policy.json").write_text(json.dumps(written))
        found = BiddingCheckpoint.load(tmp_path)
        assert (found.num_bids, task.spec.num_bids) == (6, 7)
        assert play(found.network, task.batch(2), games) == expected  # type: ignore[arg-type]
    for wrong in (5, 8, "6"):
        (tmp_path / "policy.json").write_text(json.dumps({**manifest, "num_bids": wrong}))
        with pytest.raises(CheckpointError, match=rf"num_bids is '?{wrong}'?; it must be one of \(6, 7\)"):
            BiddingCheckpoint.load(tmp_path)
    (tmp_path / "policy.json").write_text(json.dumps({**manifest, "num_bids": 7}))
    with pytest.raises(CheckpointError, match="are those of a network of"):
        BiddingCheckpoint.load(tmp_path)


@pytest.mark.parametrize("volume", ["full", "learned"])
def test_training_from_six_bids_begins_with_a_seventh_of_zero(volume: str) -> None:
    checkpoint, task = six_bids(volume=volume)
    start = checkpoint.start_for(checkpoint.blueprint, 7)
    whole = EvolutionSetup((task,), checkpoint.blueprint, SETTINGS, 0, start).build()
    batch = task.batch(1)
    batch.load(0, task.source.episode(np.random.default_rng(0), "train"), np.random.default_rng(0))
    observation = {name: torch.from_numpy(array) for name, array in batch.observation.items()}
    with torch.no_grad():
        few, many = checkpoint.network.bids(observation), whole.bids(observation)  # type: ignore[operator]
    torch.testing.assert_close(many[..., :6], few)
    assert few.any()
    assert not many[..., 6].any()
    wider = replace(checkpoint, network=whole, num_bids=7)
    with pytest.raises(CheckpointError, match="the network to train has 6 bids and that of the checkpoint 7; add a"):
        wider.start_for(checkpoint.blueprint, 6)


def test_a_run_in_worlds_with_and_without_a_choice_has_the_seventh_bid(tmp_path: Path) -> None:
    """The first task fixes batch sizes, the second lets them be chosen; both validate the same network."""
    fixed, chosen = setup_of().tasks
    fixed = replace(fixed, setup=replace(fixed.setup, scenario=Scenario(batch_sizes="usual")))
    assert (fixed.spec.num_bids, chosen.spec.num_bids) == (6, 7)
    problem = problem_of((fixed, chosen))
    assert problem.spec.num_bids == 7
    assert set(trainer(tmp_path, 1, problem=problem).run().validation["1"]) == {"task 0", "task 1"}
    assert BiddingCheckpoint.load(tmp_path / "checkpoints" / "last").num_bids == 7


def test_a_checkpoint_of_a_stranger_is_refused(tmp_path: Path) -> None:
    network = BiddingPolicy(setup_of(tasks=1).tasks[0].spec, width=4)
    market = {"name": "fifo", "options": {}}
    BiddingCheckpoint(network, BLUEPRINT, setup_of().tasks[0].rules, market, {}).save(tmp_path)
    assert equal(BiddingCheckpoint.load(tmp_path).network, network)
    manifest = json.loads((tmp_path / "policy.json").read_text())

    def changed(**parts: object) -> None:
        (tmp_path / "policy.json").write_text(json.dumps({**manifest, **parts}))

    for parts, said in (
        ({"network": {"target": "os.system", "options": {}}}, "no network of this project"),
        ({"network": {"target": BLUEPRINT.target, "options": {"rounds": 10**6}}}, "may be at most 64"),
        ({"rules": {"num_candidates": 10**9}}, "num_candidates is 1000000000"),
        ({"market": "fifo"}, "market is 'fifo'; it must be an object"),
        ({"format": 9}, "in format 9"),
    ):
        changed(**parts)
        with pytest.raises(CheckpointError, match=said):
            BiddingCheckpoint.load(tmp_path)
    changed()
    weights = load_file(str(tmp_path / "weights.safetensors"))
    weights["out.bias"][0] = float("nan")
    save_file(weights, str(tmp_path / "weights.safetensors"))
    with pytest.raises(CheckpointError, match="out.bias has values that are not finite"):
        BiddingCheckpoint.load(tmp_path)


def test_the_objective_of_a_user_decides_what_is_climbed_and_which_checkpoint_is_best(tmp_path: Path) -> None:
    """Scores of variants are ranked by it; the return of an own reward is one."""

    @dataclass(frozen=True)
    class Priced:
        """Charges for GPUs alone."""

        def __call__(self, elapsed: Elapsed) -> FloatArray:
            return -elapsed.busy_seconds

    tasks = tuple(replace(task, reward=Priced()) for task in setup_of(tasks=1).tasks)
    weights = {}
    for name, objective in (("usual", LogMerit()), ("own", Return()), ("makespan", LogMerit(1.0))):
        made = LocalTraining(replace(setup_of(tasks=1), tasks=tasks, objective=objective), EvolutionConfig)
        figures = made.train()
        assert figures["train/return"] < 0
        weights[name] = made.network()
    assert not any(equal(weights["own"], weights[name]) for name in ("usual", "makespan"))
    problem = BidProblem(tasks, BLUEPRINT, FIFO, Return())
    state = trainer(tmp_path, 1, problem=problem).run()
    workload = tasks[0].source.episode(np.random.default_rng(0))
    (game,) = play(weights["own"], tasks[0].batch(1), [Game(0, workload, 0)])  # type: ignore[arg-type]
    assert Return()(game) == game.reward < 0
    gains = {step: figures["task 0"]["merit"] for step, figures in state.validation.items()}
    assert state.best_iteration == int(max(gains, key=lambda step: (gains[step], -int(step))))
    assert state.objective == -gains[str(state.best_iteration)]


@pytest.mark.slow
@pytest.mark.exhaustive  # training on Ray: tests/reliability/test_cluster.py
def test_on_ray_the_same_weights_come_out(tmp_path: Path) -> None:
    """Torch's last bits depend on how many episodes share a forward pass; with six bids no decision here does."""
    local = LocalTraining(fixed_batches(SETTINGS), EvolutionConfig)
    figures = [local.train() for _ in range(2)]
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
    try:
        remote = TrainingOnRay(fixed_batches(replace(SETTINGS, num_env_runners=2)), EvolutionConfig)
        for expected in figures:
            found = remote.train()
            assert found.pop(WORKER_SECONDS) > 0
            assert found == pytest.approx(expected)
            if expected is figures[0]:
                remote.save(tmp_path / "search")
        assert equal(remote.network(), local.network())
        remote.restore(tmp_path / "search")
        found = remote.train()
        assert {name: found[name] for name in figures[1]} == pytest.approx(figures[1])
        assert equal(remote.network(), local.network())
        remote.stop()
    finally:
        ray.shutdown()
