"""Batch sizes, cores and memory as options: worked by hand, and against the exact throughputs of the simulator."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.options import OptionBatch, OptionRules
from envs.options.columns import (
    JOB_BATCH,
    JOB_CPUS,
    JOIN,
    OPTION_BATCH,
    OPTION_CPUS,
    OPTION_THROUGHPUT,
    START,
    TUNE,
    WAIT,
)
from envs.options.demonstrate import Demonstration
from envs.options.tuning import LEVELS
from envs.performance import IdealModel, model_profile
from envs.simulation import Scenario
from envs.simulation.world.exact import ExactThroughputs
from envs.simulation.world.shares import NAMED_CPUS, NAMED_MEMORY
from envs.types import Configuration, JobSpec, Placement
from envs.workloads import Workload
from tests.conformance.random_worlds import random_world
from tests.unit.options.worlds import batch_of, choose, draw, listed, play_area, random_rules
from tests.unit.simulation.plays import cluster_of

TUNING = OptionRules(changes="move", tune=True, num_candidates=8, max_decisions=99, distinct_nodes=False)
CHOSEN = Scenario(restart_delay=10.0, statistical_efficiency="every_sample")
USUAL = model_profile("resnet18").usual_batch(1)
DOUBLE, HALF_CPUS, ALL_CPUS = 2 * USUAL, 1, len(LEVELS)


class LargeBatchesAreFast(IdealModel):
    """A GPU gives 1 sample/s; twice the batch size, twice the throughput; fewer than 4 cores for it, less of it."""

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples/s."""
        usual = model_profile(model).usual_batch(configuration.num_gpus)
        batches = (configuration.batch_size or usual) / usual
        fed = 1.0 if configuration.cpus_per_gpu is None else min(configuration.cpus_per_gpu / 4.0, 1.0)
        return configuration.num_gpus * batches * fed


def area(scenario: Scenario, *submit_times: float, cores: float = 32.0) -> OptionBatch:
    """A node of four GPUs, and a job of one GPU and 400 samples at each time."""
    jobs = [JobSpec(i, time, 1, 400.0, "resnet18", min_gpus=1, max_gpus=2) for i, time in enumerate(submit_times)]
    return play_area(cluster_of(4, cores=cores), Workload.of(jobs), TUNING, scenario, LargeBatchesAreFast())


def tunings_of(batch: OptionBatch, job: int) -> list[int]:
    """The numbers of the tunings that a job can have."""
    return [tuning for change, each, _, tuning in listed(batch) if (change, each) == (TUNE, job)]


def with_batch(batch: OptionBatch, size: int) -> int:
    """The number of the tuning with this batch size on one GPU."""
    sizes: list[int] = batch.arrays.tunings.batch_size[:, 0, 1].tolist()
    return sizes.index(size)


def test_a_larger_batch_ends_a_job_sooner():
    """400 samples take 200 s with twice the usual batch size."""
    batch = area(CHOSEN, 0.0)
    choose(batch, (START, 0, 0, 1))
    double = with_batch(batch, DOUBLE)
    row = batch.options().options[listed(batch).index((TUNE, 0, 0, double))]
    assert row[OPTION_BATCH] == np.float32(0.25)
    assert row[OPTION_THROUGHPUT] == 2.0
    choose(batch, (TUNE, 0, 0, double))
    assert batch.ended[0]  # nothing else was left to decide
    assert batch.state.jobs[0]["finish"][0] == 200.0
    assert batch.state.log(0).events["batch_size"].max() == DOUBLE


def test_a_job_is_tuned_once_in_a_round_and_not_joined_afterwards():
    batch = area(CHOSEN, 0.0, 0.0)
    choose(batch, (START, 0, 0, 1))
    choose(batch, (TUNE, 0, 0, with_batch(batch, DOUBLE)))
    assert tunings_of(batch, 0) == []
    assert not [option for option in listed(batch) if option[:2] == (JOIN, 0)]
    assert batch.options().jobs[-1][JOB_BATCH] == np.float32(0.25)


def test_a_running_job_restarts_for_another_batch_size():
    """Half of it is done at 100 s; after a restart of 10 s the other 200 samples take 200 s."""
    batch = area(CHOSEN, 0.0, 100.0)
    choose(batch, (START, 0, 0, 1))
    choose(batch, (TUNE, 0, 0, with_batch(batch, DOUBLE)))
    assert float(batch.time[0]) == 100.0
    assert 0 in tunings_of(batch, 0)
    choose(batch, (START, 1, 0, 1))
    choose(batch, (TUNE, 0, 0, 0))
    choose(batch, (WAIT, -1, -1, 0))
    while not batch.ended[0]:
        choose(batch, (WAIT, -1, -1, 0))
    assert batch.state.jobs[0]["finish"].tolist() == [310.0, 500.0]
    assert batch.state.jobs[0]["num_restarts"].tolist() == [1, 0]


def test_named_cores_are_a_job_s_own():
    """Of 7 cores the first job keeps the 4 that saturate it, so that the second one gets the other 3."""
    batch = area(replace(CHOSEN, cpu_memory="shared"), 0.0, 0.0, cores=7.0)
    choose(batch, (START, 0, 0, 1))
    row = batch.options().options[listed(batch).index((TUNE, 0, 0, HALF_CPUS))]
    assert (row[OPTION_CPUS], row[OPTION_THROUGHPUT]) == (0.5, 0.5)
    choose(batch, (TUNE, 0, 0, ALL_CPUS))
    assert batch.options().jobs[-1][JOB_CPUS] == 1.0
    choose(batch, (START, 1, 0, 1))
    assert ALL_CPUS not in tunings_of(batch, 1)  # 4 cores are not left
    assert HALF_CPUS in tunings_of(batch, 1)
    choose(batch, (WAIT, -1, -1, 0))
    while not batch.ended[0]:
        choose(batch, (WAIT, -1, -1, 0))
    # The second job has 300 samples after 400 s, and then all the cores that it can use.
    assert batch.state.jobs[0]["finish"].tolist() == [400.0, 500.0]


def test_what_the_task_does_not_offer_is_no_option():
    """With the usual batch sizes and ample cores there is nothing to tune."""
    batch = area(replace(CHOSEN, batch_sizes="usual"), 0.0, 0.0)
    choose(batch, (START, 0, 0, 1))
    assert tunings_of(batch, 0) == []


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_tunings_are_priced_as_the_simulator_prices_them(seed):
    """Every tuned job of a random world runs at the exact throughput of its placement."""
    world, rng = random_world(seed), np.random.default_rng(seed)
    batch = batch_of(world.setup, world.workload, random_rules(rng, tune=True, changes="move"), seed)
    exact = ExactThroughputs(world.setup)
    for _ in range(30):
        if batch.ended[0]:
            return
        chosen = draw(batch, rng, waiting=0.1)
        tunings = np.flatnonzero(batch.options().what[:, 0] == TUNE)
        if len(tunings):
            chosen = int(rng.choice(tunings))
            _, job, _, _ = listed(batch)[chosen]
            batch.arrays.rules[0, 0]["max_decisions"] = 999  # the round goes on, with this job in the draft
            rounds = batch.state.episode[0, 0]["num_rounds"]
            batch.step(np.array([chosen]))
            record = batch.state.jobs[0][job]
            goes_on = not batch.ended[0] and batch.state.episode[0, 0]["num_rounds"] == rounds
            if goes_on and record["exact"] > 0:
                found = planned(batch, job)
                assert record["exact"] == exact.useful_throughput(world.workload.spec(int(job)).model, found)
        else:
            batch.step(np.array([chosen]))


def planned(batch: OptionBatch, job: int) -> Placement:
    """The placement of a job in the draft."""
    record, gpus, cpus, memory = batch.state.jobs[0][job], {}, {}, {}
    share = record["first_share"]
    while share >= 0:
        part = batch.state.shares[0, share]
        node = int(part["node"])
        gpus[node], cpus[node], memory[node] = int(part["gpus"]), float(part["cpus"]), float(part["memory"])
        share = part["next_of_job"]
    return Placement(
        gpus,
        cpus=cpus if record["named"] & NAMED_CPUS else None,
        memory=memory if record["named"] & NAMED_MEMORY else None,
        batch_size=int(record["batch_size"]) or None,
    )


@pytest.mark.parametrize("size", [4 * USUAL, 4 * USUAL - 1])
def test_a_demonstration_names_the_nearest_batch_size(size):
    batch = area(CHOSEN, 0.0)
    demonstration = Demonstration({0: Placement({0: 2}, batch_size=size)}, batch.arrays)
    taken = []
    while not batch.ended[0]:
        taken.append(listed(batch)[demonstration.choose()])
        choose(batch, taken[-1])
    assert [option[0] for option in taken] == [START, TUNE]
    assert batch.state.log(0).events["batch_size"].max() == 4 * USUAL
