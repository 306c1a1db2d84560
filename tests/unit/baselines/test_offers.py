"""Offers kept by group of equal jobs: the same as computed job by job."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.parts.offers import Offer, OfferCache
from baselines.parts.sizing import configurations, throughputs
from envs.scheduling import ClusterView
from envs.types import JobId, JobSpec
from envs.workloads import Workload
from tests.golden.playground import two_nodes
from tests.unit.baselines.rounds import CROWDED, busy_round, round_at, runs_on_one_type


def sizes_of(view: ClusterView, job: JobId) -> Offer:
    """Offer all sizes that run, worth their throughput."""
    gpu_type, size = np.nonzero(throughputs(view, job))
    return Offer(gpu_type, size, throughputs(view, job)[gpu_type, size])


def configurations_of(view: ClusterView, job: JobId) -> Offer:
    """Offer the configurations, worth 1."""
    own = configurations(view, job)
    gpu_type = np.array([grant.gpu_type for grant in own], dtype=np.int64)
    size = np.array([grant.num_gpus for grant in own], dtype=np.int64)
    return Offer(gpu_type, size, np.ones(len(own)))


@given(seed=st.integers(0, 500))
@settings(max_examples=20)
def test_offers_of_many_jobs_equal_those_of_each(seed):
    view = busy_round(seed, CROWDED)
    present = np.sort(np.concatenate([view.queued, view.running]))
    some = np.sort(np.random.default_rng(seed).choice(present, len(present) // 2 + 1, replace=False))
    for offer_of in (sizes_of, configurations_of):
        offers = OfferCache(offer_of)
        offers.look_up(view)
        found = offers.of(some)
        expected = [
            (place, *row)
            for place, job in enumerate(some.tolist())
            for own in [offer_of(view, job)]
            for row in zip(own.gpu_type.tolist(), own.num_gpus.tolist(), own.worth.tolist(), strict=True)
        ]
        columns = (found.job, found.gpu_type, found.num_gpus, found.worth)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
        assert (offers.count(some) > 0).tolist() == runs_on_one_type(view, some).tolist()


def test_equal_jobs_are_looked_up_once_and_new_jobs_are_added():
    """Three jobs, two of them equal, at 0; another of the first group and a different one at 5."""
    rows = [(0.0, 2, 1), (0.0, 4, 1), (0.0, 2, 1), (5.0, 2, 1), (5.0, 2, 2)]
    specs = [
        JobSpec(i, time, gpus, 50.0, "any", min_gpus=least, max_gpus=8) for i, (time, gpus, least) in enumerate(rows)
    ]
    asked: list[JobId] = []

    def noting(view: ClusterView, job: JobId) -> Offer:
        asked.append(job)
        return sizes_of(view, job)

    offers = OfferCache(noting)
    early, late = (round_at(time, Workload.of(specs), two_nodes()) for time in (0, 5))
    offers.look_up(early)
    assert asked == [0, 1]
    offers.look_up(early)
    offers.look_up(late)
    assert asked == [0, 1, 4]
    assert offers.count(np.arange(5)).tolist() == [8, 8, 8, 8, 7]
    assert offers.of(np.array([4, 0])).num_gpus.tolist() == [2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8]


def test_without_jobs_there_are_no_offers():
    offers = OfferCache(sizes_of)
    offers.look_up(round_at(0, Workload.of([JobSpec(0, 0.0, 2, 9.0, "any")]), two_nodes()))
    assert offers.of(np.zeros(0, np.int64)).job.tolist() == []
