"""The parts of Themis: contention, bids, payments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines import Themis
from baselines import themis as themis_module
from baselines.parts.choosing import Solver
from baselines.parts.options import Options
from baselines.parts.prices import best_prices, useful_options
from baselines.themis import Bids, JobContention, usual_times
from envs.metrics.jobs import average_contention
from envs.types import ClusterSpec, MurmurationError, NodeSpec
from tests.conformance.worlds import Curved
from tests.golden.playground import jobs, play, two_nodes
from tests.unit.baselines.rounds import busy_round, round_at


def test_fair_times_follow_the_mean_number_of_jobs():
    """A and B (8 of 8 GPUs, 100 s alone) from 0, C (2 GPUs) from 10, at 20: A has been among (10 x 2 + 10 x 3) / 20 =
    2.5 jobs, so its share is 3.2 GPUs. C has been among 3, so its share is 8 / 3 GPUs, more than it requests.
    """
    rows = jobs((0, 8, 100), (0, 8, 100), (10, 2, 50))
    contention = JobContention()
    for time in (0, 10, 20):
        view = round_at(time, rows, two_nodes())
        present = np.arange(2 if time == 0 else 3)
        contention.advance(view, present, usual_times(view, present))
    assert contention.fair_times(view, np.arange(3)).tolist() == pytest.approx([250.0, 250.0, 50.0])


def test_the_time_alone_is_that_at_arrival():
    """At 10, A has run for 10 s; its fair time still counts its whole 100 s."""
    rows = jobs((0, 8, 100))
    contention = JobContention()
    for time in (0, 10):
        view = round_at(time, rows, two_nodes(), place=[(0, {0: {0: 4, 1: 4}})])
        contention.advance(view, np.arange(1), usual_times(view, np.arange(1)))
    assert usual_times(view, np.arange(1)).tolist() == [90.0]
    assert contention.fair_times(view, np.arange(1)).tolist() == [100.0]


@given(seed=st.integers(0, 300))
@settings(max_examples=15)
def test_contention_equals_the_metric(seed):
    """The mean tracked during the run, for the job that ends last, equals that recomputed from the records."""
    rng = np.random.default_rng(seed)
    rows = [(float(rng.integers(0, 30)), int(rng.integers(1, 9)), float(rng.integers(1, 40))) for _ in range(8)]
    rows.sort()
    scheduler = Themis(fairness=0.0, lease=10.0)
    result = play(scheduler, jobs(*rows), two_nodes(), seed=seed)
    last = int(np.argmax(result.records["finish_time"]))
    end, kept = float(result.records["finish_time"][last]), scheduler._contention
    area, came, _ = kept._came[last]
    among = (kept._area + kept._present * (end - kept._time) - area) / (end - came)
    assert among == pytest.approx(average_contention(result)[last])


def test_usual_times_where_the_request_does_not_run():
    """A gang of 12 on 8 GPUs, elastic down to 6, counts on the 8; one that runs on no type has no time."""
    view = busy_round(0)
    present = np.sort(np.concatenate([view.queued, view.running]))
    seconds = usual_times(view, present)
    for place, job in enumerate(present.tolist()):
        runs = view.throughputs(job)[:, view.num_gpus[job]].max()
        assert np.isinf(seconds[place]) == (runs == 0)
        if runs:
            assert seconds[place] == pytest.approx(view.remaining_time(np.array([job]))[0])


def payments(gains, sizes, capacity, lease=10.0):
    """Return the leases of an auction with one bundle per bidder."""
    count = len(gains)
    options = Options(
        np.arange(count), np.zeros(count, np.int64), np.array(sizes), -np.log(np.array(gains)), np.zeros(count)
    )
    bids = Bids(np.arange(count) + 10, options)
    pool = np.array([capacity])
    themis = Themis(lease=lease)
    return themis._payments(bids, Solver("test").choose(options, pool), pool)


def test_payments_by_hand():
    """One place, improvements 2, 1.25 and 1.1: the first wins and pays with 1 / 1.25, as the second would win without
    it.
    """
    assert payments([2.0, 1.25, 1.1], [4, 4, 4], 4) == {10: pytest.approx(8.0)}


def test_no_winner_pays_if_there_is_room_for_all():
    assert payments([2.0, 1.25, 1.1], [4, 4, 4], 12) == {10: 10.0, 11: 10.0, 12: 10.0}


def test_a_bundle_larger_than_the_pool_displaces_no_bidder():
    """The second requests 8 of 4 GPUs: it could not win."""
    assert payments([2.0, 5.0], [4, 8], 4) == {10: 10.0}


def test_two_winners_pay_for_one_loser():
    """Two places of 2 GPUs; a third of improvement 1.5 would have had either one: both winners pay with 1 / 1.5."""
    found = payments([3.0, 2.0, 1.5], [2, 2, 2], 4)
    assert found == {10: pytest.approx(10 / 1.5), 11: pytest.approx(10 / 1.5)}


def test_in_large_auctions_winners_pay_the_price_of_their_gpus(monkeypatch):
    """Two places of 2 GPUs, and a third bidder of improvement 1.5: every price at which two of three would buy is one,
    from 1.5, what the third loses, to 2, what the second gains.
    """
    monkeypatch.setattr(themis_module, "MOST_AUCTIONS", 1)
    found = payments([3.0, 2.0, 1.5], [2, 2, 2], 4)
    assert found[10] == pytest.approx(found[11])
    assert 10 / 2 * (1 - 1e-6) <= found[10] <= 10 / 1.5 * (1 + 1e-6)


@given(
    rows=st.lists(st.tuples(st.floats(1.01, 10.0), st.integers(1, 6)), min_size=1, max_size=6), room=st.integers(1, 10)
)
@settings(max_examples=30)
def test_prices_are_no_lower_than_payments_and_no_higher_than_gains(rows, room):
    """Up to the gap between choice and bound: others gain at most the price of a winner's GPUs."""
    gains, sizes = np.array([gain for gain, _ in rows]), np.array([size for _, size in rows])
    exact = payments(gains, sizes, room)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(themis_module, "MOST_AUCTIONS", 0)
        priced = payments(gains, sizes, room)
    count = len(rows)
    options = Options(np.arange(count), np.zeros(count, np.int64), sizes, -np.log(gains), np.zeros(count))
    fitting = options.only(useful_options(options, np.array([room])))
    won = sum(np.log(gains[job - 10]) for job in exact)
    missing = best_prices(fitting, np.array([room])).bound - won if len(fitting.job) else 0.0
    for job, length in priced.items():
        gain = gains[job - 10]
        assert 10.0 / gain * (1 - 1e-6) <= length <= 10.0
        # A winner whose price is above its gain pays its gain.
        assert length <= exact[job] * np.exp(missing) * (1 + 1e-6)


@given(
    rows=st.lists(st.tuples(st.floats(1.01, 10.0), st.integers(1, 6)), min_size=1, max_size=6), room=st.integers(1, 10)
)
def test_payments_are_fractions_of_a_lease(rows, room):
    found = payments([gain for gain, _ in rows], [size for _, size in rows], room)
    assert all(0.0 < length <= 10.0 * (1 + 1e-9) for length in found.values())


@given(seed=st.integers(0, 200), fairness=st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=20)
def test_all_jobs_of_a_crowd_finish(seed, fairness):
    rng = np.random.default_rng(seed)
    rows = [(float(rng.integers(0, 50)), int(rng.integers(1, 9)), float(rng.integers(5, 50))) for _ in range(12)]
    cluster = ClusterSpec((NodeSpec("new", 4), NodeSpec("old", 8), NodeSpec("small", 2)))
    result = play(Themis(fairness, lease=7.0), jobs(*rows), cluster, performance=Curved(), restart_delay=1.0, seed=seed)
    assert result.finished.all()
    assert result.counters["stopped_programs"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fairness": 1.0}, ("fairness", "1.0", "below 1")),
        ({"fairness": -0.1}, ("fairness", "-0.1")),
        ({"lease": 0.0}, ("lease", "0.0", "positive")),
        ({"lease": float("inf")}, ("lease", "inf", "finite")),
        ({"node_limit": 0}, ("node_limit", "0", "positive")),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(MurmurationError) as error:
        Themis(**options)
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in ("Themis", *words))
