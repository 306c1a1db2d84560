"""Offers kept by kind of job: the same as made up job by job."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.parts.grants import runs_on_one_type
from baselines.parts.offers import Offer, Offers
from baselines.parts.sizing import configurations, speeds
from envs.scheduling import ClusterView
from envs.types import JobId, JobSpec
from envs.workloads import Workload
from tests.golden.playground import two_nodes
from tests.unit.baselines.rounds import CROWDED, busy_round, round_at


def sizes_of(view: ClusterView, job: JobId) -> Offer:
    """All that runs, worth its speed."""
    kind, size = np.nonzero(speeds(view, job))
    return Offer(kind, size, speeds(view, job)[kind, size])


def configurations_of(view: ClusterView, job: JobId) -> Offer:
    """The configurations, worth 1."""
    own = configurations(view, job)
    kind = np.array([grant.gpu_type for grant in own], dtype=np.int64)
    size = np.array([grant.num_gpus for grant in own], dtype=np.int64)
    return Offer(kind, size, np.ones(len(own)))


@given(seed=st.integers(0, 500))
@settings(max_examples=20)
def test_offers_of_many_are_those_of_each(seed):
    view = busy_round(seed, CROWDED)
    present = np.sort(np.concatenate([view.queued, view.running]))
    some = np.sort(np.random.default_rng(seed).choice(present, len(present) // 2 + 1, replace=False))
    for offer_of in (sizes_of, configurations_of):
        offers = Offers(offer_of)
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


def test_jobs_alike_are_looked_at_once_and_newcomers_join():
    """Three jobs, of which two are alike, at 0; another of the first kind and a new one at 5."""
    rows = [(0.0, 2, 1), (0.0, 4, 1), (0.0, 2, 1), (5.0, 2, 1), (5.0, 2, 2)]
    specs = [
        JobSpec(i, time, gpus, 50.0, "any", min_gpus=least, max_gpus=8) for i, (time, gpus, least) in enumerate(rows)
    ]
    asked: list[JobId] = []

    def noting(view: ClusterView, job: JobId) -> Offer:
        asked.append(job)
        return sizes_of(view, job)

    offers = Offers(noting)
    early, late = (round_at(time, Workload.of(specs), two_nodes()) for time in (0, 5))
    offers.look_up(early)
    assert asked == [0, 1]
    offers.look_up(early)
    offers.look_up(late)
    assert asked == [0, 1, 4]
    assert offers.count(np.arange(5)).tolist() == [8, 8, 8, 8, 7]
    assert offers.of(np.array([4, 0])).num_gpus.tolist() == [2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8]


def test_of_nobody_there_is_nothing():
    offers = Offers(sizes_of)
    offers.look_up(round_at(0, Workload.of([JobSpec(0, 0.0, 2, 9.0, "any")]), two_nodes()))
    assert offers.of(np.zeros(0, np.int64)).job.tolist() == []
