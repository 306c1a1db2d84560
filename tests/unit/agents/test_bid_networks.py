"""What bidding networks leave out: some of the bids, or all observations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.networks.bidding import BiddingPolicy
from envs.bidding.columns import (
    BID_AFFINITY,
    BID_BATCH,
    BID_CORES,
    BID_PRIORITY,
    BID_SIZE,
    CLUSTER_CONTENTION,
    CLUSTER_SHARES_CPU_MEMORY,
    JOB_CANDIDATE,
)
from envs.bidding.spec import BiddingSpec
from envs.types import MurmurationError
from tests.unit.agents.test_evolution_training import setup_of

Observation = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def seen() -> tuple[BiddingSpec, Observation]:
    """The first rounds of two episodes."""
    task = setup_of(tasks=1).tasks[0]
    batch = task.batch(2)
    for b in range(2):
        batch.load(b, task.source.episode(np.random.default_rng(b), "train"), np.random.default_rng(b))
    return task.spec, {name: torch.from_numpy(array) for name, array in batch.observation.items()}


def randomised(network: BiddingPolicy) -> BiddingPolicy:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in network.parameters():
            value.copy_(torch.randn(value.shape, generator=generator))
    return network


def test_silent_bids_stay_zero_and_the_others_do_not_change(seen):
    spec, observation = seen
    whole, part = randomised(BiddingPolicy(spec)), randomised(BiddingPolicy(spec, silent=["affinity", "cores"]))
    with torch.no_grad():
        everything, some = whole.bids(observation), part.bids(observation)
    quiet = [BID_AFFINITY, BID_CORES]
    assert (some[..., quiet] == 0).all()
    assert (everything[..., quiet] != 0).any()
    spoken = [place for place in range(spec.num_bids) if place not in quiet]
    assert torch.equal(some[..., spoken], everything[..., spoken])
    assert whole.state_dict().keys() == part.state_dict().keys()


def test_a_network_states_the_bids_that_it_was_built_for(seen):
    """Weights of one more row state one more bid, and the same first six."""
    spec, observation = seen
    small = BiddingPolicy(replace(spec, num_bids=6), silent=["size"], volume="learned")
    large = BiddingPolicy(spec, volume="learned")
    randomised(small)
    weights = {name: value.clone() for name, value in small.state_dict().items()}
    for name, value in large.state_dict().items():
        if value.shape != weights[name].shape:
            weights[name] = torch.cat([weights[name], value.new_ones(1, *value.shape[1:])])
    large.load_state_dict(weights)
    with torch.no_grad():
        few, many = small.bids(observation), large.bids(observation)
    assert (few.shape[-1], many.shape[-1]) == (6, 7)
    assert (few[..., BID_SIZE] == 0).all()
    heard = [place for place in range(6) if place != BID_SIZE]
    torch.testing.assert_close(few[..., heard], many[..., heard])
    assert many[..., BID_BATCH].any()


def test_bids_that_do_not_exist_are_named(seen):
    with pytest.raises(MurmurationError, match="silent has colour; bids are affinity, appetite"):
        BiddingPolicy(seen[0], silent=["colour", "size"])
    with pytest.raises(MurmurationError, match="strength is 0; it must be positive"):
        BiddingPolicy(seen[0], strength=0)


def test_the_volume_multiplies_the_bids_by_factors_of_the_cluster(seen):
    spec, observation = seen
    whole, quiet = randomised(BiddingPolicy(spec)), BiddingPolicy(spec, volume="learned")
    quiet.load_state_dict(whole.state_dict(), strict=False)
    assert quiet.volume is not None
    with torch.no_grad():
        everything = whole.bids(observation)
        assert torch.equal(quiet.bids(observation), everything)
        quiet.volume.bias[BID_AFFINITY] = -20.0  # tanh of it is -1
        quiet.volume.bias[BID_CORES] = np.arctanh(-0.5)
        said = quiet.bids(observation)
    assert (said[..., BID_AFFINITY] == 0).all()
    torch.testing.assert_close(said[..., BID_CORES], 0.5 * everything[..., BID_CORES])
    assert torch.equal(said[..., BID_PRIORITY], everything[..., BID_PRIORITY])


def test_a_policy_may_be_silent_where_jobs_share_nothing(seen):
    spec, observation = seen
    whole, quiet = randomised(BiddingPolicy(spec)), randomised(BiddingPolicy(spec, volume="shared"))
    cluster = observation["cluster"].clone()
    cluster[:, [CLUSTER_SHARES_CPU_MEMORY, CLUSTER_CONTENTION]] = 0.0
    cluster[1, CLUSTER_CONTENTION] = 1.0
    observation = {**observation, "cluster": cluster}
    with torch.no_grad():
        everything, said = whole.bids(observation), quiet.bids(observation)
    assert (everything[0] != 0).any()
    assert (said[0] == 0).all()
    assert torch.equal(said[1], everything[1])
    with pytest.raises(MurmurationError, match="volume is 'loud'; it must be one of full, shared, learned"):
        BiddingPolicy(spec, volume="loud")  # type: ignore[arg-type]


def test_on_large_clusters_affinities_are_for_candidates_only(seen):
    """All jobs of the first rounds are candidates; here the first one of the second episode is made another job."""
    spec, observation = seen
    whole, part = (
        randomised(BiddingPolicy(spec)),
        randomised(BiddingPolicy(spec, full_affinity_nodes=spec.num_nodes - 1)),
    )
    jobs = observation["jobs"].clone()
    assert (jobs[:, 0, JOB_CANDIDATE] == 1).all()
    jobs[1, 0, JOB_CANDIDATE] = 0.0
    observation = {**observation, "jobs": jobs}
    with torch.no_grad():
        everything, said = whole.bids(observation), part.bids(observation)
    other = observation["pair_jobs"] == 0
    other[0] = False
    assert (everything[other][:, BID_AFFINITY] != 0).any()
    assert (said[other][:, BID_AFFINITY] == 0).all()
    assert torch.equal(said[~other], everything[~other])
    assert torch.equal(said[..., BID_AFFINITY + 1 :], everything[..., BID_AFFINITY + 1 :])
    with torch.no_grad():
        assert torch.equal(
            randomised(BiddingPolicy(spec, full_affinity_nodes=spec.num_nodes)).bids(observation), everything
        )
    with pytest.raises(MurmurationError, match="full_affinity_nodes is -1; it must be a number"):
        BiddingPolicy(spec, full_affinity_nodes=-1)
