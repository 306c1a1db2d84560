"""The compiled form of sharing by marginal gain, compared with the reference implementation."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from baselines.parts.grants import Grant
from baselines.parts.sharing import admissible, share_out_arrays
from tests.unit.baselines.marginal_gain import Demand, share_out
from tests.unit.baselines.slow import admissible_slowly, padded


def drawn_demands(seed: int) -> dict[int, Demand]:
    """Draw up to 12 jobs with gaps on up to three types, some running; whole costs, so that gains tie."""
    rng = np.random.default_rng(seed)
    num_types = int(rng.integers(1, 4))
    demands = {}
    for job in range(int(rng.integers(1, 13))):
        most = int(rng.integers(1, 9))
        cost = rng.integers(1, 30, (num_types, most + 1)).astype(float)
        if rng.random() < 0.6:  # falls with GPUs, as costs from a throughput table do
            cost = np.sort(cost, axis=1)[:, ::-1].copy()
        cost[rng.random(cost.shape) < 0.2] = np.inf
        cost[:, 0] = np.inf
        held = Grant(int(rng.integers(num_types)), int(rng.integers(1, most + 1))) if rng.random() < 0.4 else None
        demands[job] = Demand(cost, float(rng.choice([0.5, 1.0, 2.0])), held)
    return demands


def compiled(demands: dict[int, Demand], capacity) -> dict[int, Grant]:
    """Run `share_out_arrays` with the arguments that Optimus gives it."""
    jobs = list(demands)
    cost = np.array([padded(demand.cost, 8) for demand in demands.values()])
    present = np.array([demand.present.gpu_type if demand.present else -1 for demand in demands.values()])
    least = np.array([demand.least for demand in demands.values()])
    weight = np.array([demand.weight for demand in demands.values()])
    order = np.array(sorted(jobs, key=lambda job: (demands[job].least_gpu_time, job)))
    need = np.array([min([size for size in least[job] if size], default=0) for job in order])
    chosen = order[admissible(need, int(capacity.sum()))]
    first = np.argsort(present[chosen] < 0, kind="stable")
    gpu_types, sizes = share_out_arrays(cost, weight, present, least, chosen[first], capacity)
    return {job: Grant(int(gpu_types[job]), int(sizes[job])) for job in jobs if sizes[job]}


@given(seed=st.integers(0, 100_000), room=st.integers(0, 14))
def test_grants_equal_the_reference(seed, room):
    demands = drawn_demands(seed)
    num_types = len(demands[0].cost)
    capacity = (
        np.random.default_rng(seed).multinomial(room * num_types, np.full(num_types, 1 / num_types)).astype(np.int64)
    )
    assert compiled(demands, capacity) == share_out(demands, capacity)


def test_without_jobs_there_are_no_grants():
    empty = np.zeros((0, 2), np.int64)
    gpu_types, sizes = share_out_arrays(
        np.zeros((0, 2, 3)), np.zeros(0), np.zeros(0, np.int64), empty, np.zeros(0, np.int64), np.array([4, 4])
    )
    assert len(gpu_types) == len(sizes) == 0


@given(need=st.lists(st.integers(0, 6), max_size=20), room=st.integers(0, 25))
def test_admission_is_one_by_one(need, room):
    sizes = np.array(need, dtype=np.int64)
    assert admissible(sizes, room).tolist() == admissible_slowly(sizes, room)


def test_a_job_that_requests_too_much_is_skipped():
    assert admissible(np.array([2, 0, 4, 1, 1, 1]), 4).tolist() == [True, False, False, True, True, False]
