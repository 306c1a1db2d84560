"""Bids for batch sizes, worked by hand."""

import math

import numpy as np
import pytest

from baselines.starling import Starling
from baselines.starling.market import StarlingMarket
from envs.bidding import BiddingBatch
from envs.bidding.columns import BID_BATCH, BID_COLUMNS, BID_SCALE
from envs.performance import model_profile
from envs.simulation import EventKind, Scenario, Setup
from envs.types import ClusterSpec, Configuration, JobSpec, NodeSpec
from envs.workloads import Workload

ONE_NODE = ClusterSpec((NodeSpec("V100", 2),))
RULES = Scenario(restart_delay=0.0, horizon=1e6, statistical_efficiency="every_sample")


class StepPerSecond:
    """A step takes a second at any batch size: a batch of 256 is 256 samples/s."""

    models = ("resnet18",)

    def throughput(self, model: str, configuration: Configuration) -> float:
        """Samples per second."""
        return float(configuration.batch_size or model_profile(model).usual_batch(configuration.num_gpus))


def played(bids: dict[int, float], later: float = 0.0, batch: str = "best") -> tuple[list[int], list[float]]:
    """Batch sizes and ends of two jobs of 2,560 samples, one GPU and a batch range from 16 to 256 each.

    Args:
        bids: in the first round, logarithms of factors by job.
        later: bids for job 0 afterwards.
        batch: see `Starling`.
    """
    workload = Workload.of([JobSpec(i, 0.0, 1, 2560.0, "resnet18", 1, 1, 16, 256) for i in range(2)])
    market = StarlingMarket(Starling(batch=batch, measured_only=False))  # type: ignore[arg-type]
    env = BiddingBatch(Setup(ONE_NODE, StepPerSecond(), RULES), workload.models, 2, market=market, logging=True)
    env.load(0, workload, np.random.default_rng(0))
    while not env.ended[0]:
        actions, rows = np.zeros(env.auction.action_shape, np.float32), env.observation["pair_jobs"]
        for row, job in enumerate(env.auction.arrays.listed[0].tolist()):
            actions[rows == row, BID_BATCH] = bids.get(job, 0.0) / BID_SCALE[BID_BATCH]
        env.step(actions)
        bids = {0: later}
    events = env.state.log(0).events
    assert (events["kind"] == EventKind.RESIZE).sum() == 0
    started = events[events["kind"] == EventKind.START]
    return started["batch_size"][np.argsort(started["job"])].tolist(), env.state.jobs["finish"][0].tolist()


def test_a_bid_of_a_half_halves_the_batch_size_of_its_job() -> None:
    """Without bids both take 256 and end at 10 s. At 128 job 0 needs 20 steps."""
    assert played({}) == ([256, 256], [10.0, 10.0])
    assert played({0: -math.log(2)}) == ([128, 256], [20.0, 10.0])


@pytest.mark.parametrize(
    ("bid", "size"),
    [
        (math.log(0.75), 192),
        (math.log(0.2505), 0),  # 64.1: the usual 64 is nearest, and left to the world
        (math.log(0.2520), 65),  # 64.51
        (math.log(0.2518), 0),  # 64.46
        (-2.0, 35),  # 34.6
        (2.0, 256),  # the end of the range
    ],
)
def test_the_nearest_offered_batch_size_is_taken(bid: float, size: int) -> None:
    assert played({1: bid}) == ([256, size], [10.0, pytest.approx(2560 / (size or 64))])


def test_a_job_that_keeps_its_gpus_keeps_its_batch_size() -> None:
    """The round at 10 s, when job 1 ends, finds a bid that would double the batch size of job 0."""
    assert played({0: -math.log(2)}, later=math.log(2)) == ([128, 256], [20.0, 10.0])


def test_where_starling_leaves_batch_sizes_to_the_world_no_bid_is_heard() -> None:
    assert played({0: 1.0, 1: -1.0}, batch="usual") == ([0, 0], [40.0, 40.0])


def test_the_bid_is_the_last_one() -> None:
    """Older policies state the first six."""
    assert BID_COLUMNS[6:] == ("batch",)
