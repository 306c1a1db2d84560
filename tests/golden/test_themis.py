"""Themis on schedules worked by hand."""

from baselines import Themis
from envs.types import JobSpec
from envs.workloads import Workload
from tests.golden.playground import EVERY_SECOND, jobs, places, play, restarts, times, two_nodes


def test_the_larger_improvement_wins_repeatedly():
    """Two jobs of the whole cluster, 40 s and 10 s, leases of 10 s. Without GPUs A would end at 50 instead of 40, B at
    20 instead of 10: B wins, 0-10. It pays with 1 / 1.25 of its lease, as A would have improved by 1.25; at 8 it is 20
    against 10 for B once more and 58 against 48 for A: B goes on.
    """
    result = play(Themis(fairness=0.0, lease=10.0), jobs((0, 8, 40), (0, 8, 10)), two_nodes(), rounds=EVERY_SECOND)
    assert times(result) == [(10, 50), (0, 10)]
    assert restarts(result) == [0, 0]


def test_the_payment_shortens_the_lease():
    """As before with 9 s of B done when its lease, cut to 8 s, has ended, and C of 1 s come at 8: 18 against 8 + 1...
    C wins.

    At 8: A 58 / 48, B 20 / 10, C (0 + 10 + 1) / 1 = 11: C runs 8-9. Had B not paid, its lease would have lasted to 10
    and C would have waited.
    """
    rows = jobs((0, 8, 40), (0, 8, 10), (8, 8, 1))
    result = play(Themis(fairness=0.0, lease=10.0), rows, two_nodes(), rounds=EVERY_SECOND)
    assert times(result)[2] == (8, 9)
    assert times(result)[1] == (0, 11)


def test_a_lease_protects_until_it_ends():
    """A alone wins without paying: until 10. B (5 s) comes at 3. At 10: A 50 / 40, B (7 + 10 + 5) / 12: B 10-15, A
    15-45.
    """
    result = play(Themis(fairness=0.0, lease=10.0), jobs((0, 8, 40), (3, 8, 5)), two_nodes(), rounds=EVERY_SECOND)
    assert times(result) == [(0, 45), (10, 15)]
    assert [record.num_preemptions for record in result] == [1, 0]


def test_only_the_worst_treated_jobs_bid():
    """Two jobs. A: 4 of 8 GPUs, 40 s: its fair share is its request, rho 40 / 40. B: 8 GPUs, 10 s: half a share, rho
    10 / 20. f = 0.5: A alone bids, B does not fit beside it. f = 0: B's improvement is the larger, 20 / 10 to 50 / 40.
    """
    pair = jobs((0, 4, 40), (0, 8, 10))
    kept = play(Themis(fairness=0.5, lease=100.0), pair, two_nodes(), rounds=EVERY_SECOND)
    assert times(kept) == [(0, 40), (40, 50)]
    open_to_all = play(Themis(fairness=0.0, lease=100.0), pair, two_nodes(), rounds=EVERY_SECOND)
    assert times(open_to_all) == [(10, 50), (0, 10)]


def test_elastic_jobs_share_by_the_product_of_their_improvements():
    """1 to 8 GPUs, 4 requested, 40 GPU-s each, leases of 10 s: without GPUs 20 s. With 4 and 4: 10 s each, product 2 x
    2. With 8 for one: 20 / 5 = 4 and 1, a tie at 4. With 4 and 2 it is less. In both cases all GPUs are used and both
    jobs end at 10.
    """
    result = play(Themis(fairness=0.0, lease=10.0), jobs((0, 4, 10), (0, 4, 10), elastic=(1, 8)), two_nodes())
    assert max(finish for _, finish in times(result)) == 10


def test_leftovers_go_to_jobs_that_did_not_bid():
    """f = 0.8: of four jobs of 2 GPUs one bids; the other three get the GPUs left over, and all start at once."""
    result = play(Themis(lease=100.0), jobs(*[(0.0, 2, 10.0)] * 4), two_nodes())
    assert times(result) == [(0, 10)] * 4


def test_a_job_that_does_not_bid_stays_if_no_other_job_wins_its_gpus():
    """Leases of 5 s end at 5, 10, ... for both; only one bids; neither is ever interrupted."""
    result = play(Themis(lease=5.0), jobs((0, 4, 20), (0, 4, 30)), two_nodes(), rounds=EVERY_SECOND, restart_delay=3)
    assert times(result) == [(0, 20), (0, 30)]
    assert restarts(result) == [0, 0]


def test_a_bid_counts_the_restart():
    """A (1 to 8 GPUs, 4 requested, 160 GPU-s) and B (4 GPUs, 10 s). At 10, A's lease has ended and B is gone: 120
    left, 8 GPUs end it after a restart. With restarts of 10 s: 10 + 10 + 15 = 35 against 10 + 30 = 40: it grows; with
    20 s it stays.
    """
    pair = Workload.of([JobSpec(0, 0.0, 4, 160.0, "any", min_gpus=1, max_gpus=8), JobSpec(1, 0.0, 4, 40.0, "any")])
    for restart, sizes in ((10.0, [4, 8]), (20.0, [4])):
        result = play(Themis(fairness=0.0, lease=10.0), pair, two_nodes(), rounds=EVERY_SECOND, restart_delay=restart)
        assert [sum(gpus.values()) for _, gpus in places(result, 0)] == sizes
