"""Imitation: labels are legal, agreement rises, the trained policy schedules nearly as well as its teacher."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.methods.imitation import Demonstrator, ImitationSettings, fit_epoch, gather, imitate
from agents.packing import pack_step
from agents.policies.scheduler import PolicyScheduler
from agents.validation import validate_scheduler
from baselines.fifo import Fifo
from baselines.srtf import Srtf
from envs.simulation import Simulator, run_episode
from envs.types import MurmurationError
from envs.workloads import SyntheticSource
from tests.unit.agents.worlds import network, small_world

QUICK = ImitationSettings(passes=1, steps=200, epochs=2, batch_size=32)


def silent(*_):
    """A listener that ignores its calls."""


def gathered(world, teacher, steps=200, share=0.0, seed=0, student=None):
    """(environment, chunks) of a gathering."""
    env = world.vector_env(4, seed)
    demonstrator = Demonstrator(env, [teacher() for _ in range(4)], np.random.default_rng(seed))
    return env, list(gather(env, demonstrator, student or network(world.spec), share, steps, seed))


@pytest.mark.parametrize("teacher", [Fifo, Srtf])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_labels_are_legal_or_nothing(teacher, share):
    """A teacher's nothing may be masked out (an idle cluster must act); every other label is allowed."""
    _, chunks = gathered(small_world(), teacher, share=share)
    labels, mask = (np.concatenate([chunk[name] for chunk in chunks]) for name in ("labels", "mask"))
    allowed = np.take_along_axis(mask, labels[..., None], -1)[..., 0] > 0
    assert (allowed | (labels == 0)).all()
    assert (labels > 0).any()
    assert len(labels) == 200


@pytest.mark.parametrize("teacher", [Fifo, Srtf])
def test_what_the_teacher_plays_through_the_nodes_is_worth_what_it_is_worth_alone(teacher):
    """Its demonstrations, played out, give nearly the mean JCT of the scheduler itself on the same workloads."""
    world = small_world(num_jobs=10)
    env = world.vector_env(4, 1)
    env.reset(seed=1)
    demonstrator = Demonstrator(env, [teacher() for _ in range(4)], np.random.default_rng(0))
    alone = []
    for place, workload in enumerate(env.batch.workloads):
        assert workload is not None
        demonstrator.begin(place)
        simulator = Simulator(workload, world.setup)
        records = run_episode(teacher(), simulator).records
        alone.append((records["finish_time"] - records["submit_time"]).sum())
    played, running = np.zeros(4), np.ones(4, bool)
    while running.any():
        rewards, _, ended = env.batch.step(np.where(running[:, None], demonstrator.actions(), 0))
        played[running] -= rewards[running]
        running &= ~ended
        for b in np.flatnonzero(ended):
            env.begin(int(b))  # what follows is not counted
            demonstrator.begin(int(b))
    np.testing.assert_allclose(played, alone, rtol=0.1)


def test_gathering_is_the_same_for_the_same_seed():
    world = small_world()
    student = network(world.spec)
    runs = [gathered(world, Srtf, 60, 0.3, 7, student)[1] for _ in range(2)]
    for one, other in zip(*runs, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    other = gathered(world, Srtf, 60, 0.3, 8, student)[1]
    assert any(not np.array_equal(a["queue"], b["queue"]) for a, b in zip(runs[0], other, strict=True))


def test_runs_of_consecutive_seeds_and_passes_of_one_run_are_taught_on_different_workloads():
    """Of runs 0 and 1 in three passes each; and no pass begins where an environment of a plain seed does."""

    class Noting(SyntheticSource):
        """Remembers all that it gives."""

        def episode(self, rng, split="train"):
            workload = super().episode(rng, split)
            drawn.append(workload.jobs["work"].tobytes())
            return workload

    tiny = small_world(num_jobs=4)
    world = replace(tiny, source=Noting(tiny.setup.cluster, tiny.setup.performance, num_jobs=4, max_gpus=4))

    def taught(seed):
        drawn.clear()
        settings = replace(QUICK, passes=3, steps=40, epochs=1, student_share=0.0)
        imitate(network(world.spec), world.vector_env(4), Srtf, settings, seed, silent)
        return list(drawn)

    drawn: list[bytes] = []
    first, again, second = taught(0), taught(0), taught(1)
    assert first == again
    assert len(set(first)) == len(first) >= 12
    assert not set(first) & set(second)
    drawn.clear()
    for seed in range(4):
        world.vector_env(4).reset(seed=seed)
    assert not set(first) & set(drawn)


def test_a_loss_that_is_no_number_is_told():
    world = small_world()
    net = network(world.spec)
    with torch.no_grad():
        net.get_parameter("nothing.bias").fill_(float("nan"))
    with pytest.raises(MurmurationError, match="imitation: the loss is nan; training has diverged, lower") as error:
        imitate(net, world.vector_env(4), Srtf, QUICK, 0, silent)
    assert "\n" not in str(error.value)


def test_observations_are_kept_and_not_overwritten():
    env, chunks = gathered(small_world(), Fifo, 80)
    assert not np.shares_memory(chunks[0]["queue"], env.batch.observation["queue"])
    assert any(not np.array_equal(chunks[0]["queue"], chunk["queue"]) for chunk in chunks[1:])


def test_agreement_rises():
    world = small_world()
    _, chunks = gathered(world, Srtf, 400)
    torch.manual_seed(0)
    net = network(world.spec)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)
    told = [fit_epoch(net, optimizer, [pack_step(chunk) for chunk in chunks], QUICK, rng) for _ in range(8)]
    assert told[-1]["imitation_agreement"] > told[0]["imitation_agreement"] + 0.05
    assert told[-1]["imitation_loss"] < 0.7 * told[0]["imitation_loss"]


def hand_loss(net, chunk, pass_weight):
    """Weighted cross-entropy of one chunk by loops, over nodes that have a choice and whose label is allowed."""
    batch = {name: torch.from_numpy(array) for name, array in chunk.items() if name != "labels"}
    logits = net.logits(batch).detach().double()
    total = weights = 0.0
    for b, nodes in enumerate(chunk["labels"]):
        for n, label in enumerate(nodes):
            mask = chunk["mask"][b, n]
            if mask.sum() > 1 and mask[label]:
                weight = pass_weight if label == 0 else 1.0
                total -= weight * float(logits[b, n].log_softmax(-1)[label])
                weights += weight
    return total / weights


@pytest.mark.parametrize("pass_weight", [0.0, 0.5, 1.0])
def test_the_loss_weighs_passing_as_said(pass_weight):
    world = small_world()
    _, chunks = gathered(world, Srtf, 80)
    chunk = max(chunks, key=lambda chunk: int((chunk["labels"] > 0).sum()))
    net = network(world.spec)
    expected = hand_loss(net, chunk, pass_weight)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    settings = replace(QUICK, pass_weight=pass_weight)
    told = fit_epoch(net, optimizer, [pack_step(chunk)], settings, np.random.default_rng(0))
    assert told["imitation_loss"] == pytest.approx(expected, rel=1e-4)


def test_the_critic_learns_nothing_from_a_teacher():
    world = small_world()
    net = network(world.spec)
    before = {name: weight.clone() for name, weight in net.critic.state_dict().items()}
    imitate(net, world.vector_env(4), Srtf, QUICK, 0, silent)
    assert all(torch.equal(before[name], weight) for name, weight in net.critic.state_dict().items())


def test_it_sharpens_what_it_has_taught_and_reports_all_of_its_work():
    world = small_world()
    net = network(world.spec)
    told = []
    figures = imitate(
        net,
        world.vector_env(4),
        Srtf,
        replace(QUICK, passes=2, steps=40, sharpness=3.0),
        0,
        lambda *report: told.append(report),
    )
    assert float(net.sharpness) == 3.0
    assert set(figures) == {"imitation_loss", "imitation_agreement"}
    assert [report[1] for report in told] == sorted(report[1] for report in told)
    assert told[-1][1] == told[-1][2] == 2 * 40 * 3
    assert {report[0] for report in told} == {"imitation: gather", "imitation: fit"}


def test_without_passes_nothing_is_taught():
    world = small_world()
    net = network(world.spec)
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    figures = imitate(net, world.vector_env(4), Srtf, replace(QUICK, passes=0), 0, silent)
    assert all(torch.equal(before[name], weight) for name, weight in net.state_dict().items())
    assert np.isnan(figures["imitation_loss"])


@pytest.mark.parametrize("teacher", [Fifo, Srtf])
def test_the_imitating_policy_comes_close_to_its_teacher(teacher):
    """The untrained network is well above the teacher's mean JCT, the trained one within a quarter of it."""
    world = small_world(num_nodes=2, num_jobs=15, num_evaluation=4)
    net = network(world.spec, width=32, heads=4)
    workloads = world.source.evaluation("validation")

    def mean_jct(scheduler):
        return validate_scheduler(scheduler, world.setup, workloads)["mean_jct"]

    untrained = mean_jct(PolicyScheduler(net, world.spec, world.rules, world.setup.cluster.gpu_types))
    settings = ImitationSettings(passes=2, steps=1200, epochs=5, batch_size=64, lr=3e-3)
    figures = imitate(net, world.vector_env(8), teacher, settings, 0, silent)
    wanted, reached = (
        mean_jct(teacher()),
        mean_jct(PolicyScheduler(net, world.spec, world.rules, world.setup.cluster.gpu_types)),
    )
    assert figures["imitation_agreement"] > 0.85
    assert reached < 1.25 * wanted
    assert reached < untrained


@pytest.mark.parametrize(
    "wrong",
    [{"passes": -1}, {"steps": 0}, {"epochs": 0}, {"lr": 0.0}, {"student_share": 1.5}, {"sharpness": 0.0}],
)
def test_settings_that_make_no_sense_are_named(wrong):
    with pytest.raises(MurmurationError, match=f"imitation.{next(iter(wrong))} is") as error:
        ImitationSettings(**wrong)
    assert "\n" not in str(error.value)
