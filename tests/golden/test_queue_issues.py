"""Reports of users of Kueue and Volcano as small inputs, played with their settings and with others.

Numbers of cores in the reports are GPUs here, 50m to a GPU in kueue#3779.
"""

from dataclasses import replace

import pytest

from baselines import Fifo, Kueue
from baselines.kueue import QueueSettings, QueueTree
from baselines.kueue.preemption import Admitted, Preemption
from tests.golden.playground import play, restarts, times, two_nodes
from tests.golden.test_kueue import of_teams

TEAMS = ("a", "b", "c")
OWN = {"a": 2.0, "b": 2.0, "c": 8.0}
URGENCY = {"a": 2.0, "b": 1.0, "c": 0.0}


def teams_of(order: str) -> list[QueueSettings]:
    """kueue#10131: below each team's cohort, a queue with its GPUs, which borrows none, and one that only borrows."""
    below = [
        queue
        for team in order
        for queue in (
            QueueSettings(f"team-{team}", "root"),
            QueueSettings(f"{team}-guaranteed", f"team-{team}", OWN[team], borrowing_limit=0),
            QueueSettings(f"{team}-borrowing", f"team-{team}"),
        )
    ]
    return [QueueSettings("root"), *below]


@pytest.mark.parametrize(
    ("order", "fair", "victim"), [("abc", True, "b"), ("bac", True, "a"), ("abc", False, "c"), ("bac", False, "c")]
)
def test_kueue_10131_priority_between_equal_teams(order: str, fair: bool, victim: str):
    """Each team runs 4 GPUs: a's job is urgent, b's is normal, c's is not. c asks for 4 of its own 8.

    Teams a and b borrow 2 of 4 each, so that their shares are equal. Fair sharing takes from either, whatever the
    priorities (in the report, at random; here, from the one that comes last): from a, too. Without fair sharing it is
    the least urgent job, c's own.
    """
    tree = QueueTree(teams_of(order))
    admitted = [
        Admitted(number, f"{team}-borrowing", 4, URGENCY[team], number, number) for number, team in enumerate(TEAMS)
    ]
    for job in admitted:
        tree.use(job.queue, job.gpus)
    head = Admitted(3, "c-guaranteed", 4, 1.0, 3.0, 3.0)
    victims = Preemption(tree, fair, ("final", "initial")).victims(head, admitted)
    assert [job.queue for job in victims] == [f"{victim}-borrowing"]


GUARANTEED = [
    QueueSettings("root"),
    QueueSettings("a", "root", 3),
    QueueSettings("b", "root", 3),
    QueueSettings("best-effort", "root"),
]


def test_kueue_3779_no_endless_preemption():
    """a runs 5 GPUs, of which it borrows 2, best effort 1; a's next job asks for 1.

    In the report the job of best effort was stopped and admitted again and again: `borrowWithinCohort` overruled shares
    (kueue#4165 ended that). By shares, a with 6 GPUs (3/6) may take nothing from best effort (1/6): its job waits until
    that ends. With weight 0, best effort comes behind all others: it is stopped once, and never comes back before.
    """
    rows = (0, 5, 100, "a"), (1, 1, 20, "best-effort"), (2, 1, 10, "a")
    run = play(Kueue(Fifo("skip"), GUARANTEED), of_teams(*rows), two_nodes())
    assert (times(run), restarts(run)) == ([(0, 100), (1, 21), (21, 31)], [0, 0, 0])
    weightless = [*GUARANTEED[:-1], replace(GUARANTEED[-1], weight=0)]
    run = play(Kueue(Fifo("skip"), weightless), of_teams(*rows), two_nodes())
    assert (times(run), restarts(run)) == ([(0, 100), (1, 31), (2, 12)], [0, 1, 0])


def test_kueue_4329_quota_that_no_node_can_hold():
    """Two nodes of 4 GPUs, a quota of 8. Two jobs of 3 run, one of 2 is admitted, and no node has 2 GPUs free.

    It holds quota until 10, so that the job of 1 GPU behind it waits, too, while two GPUs idle. A quota beyond the GPUs
    (`overcommit`) lets it pass.
    """
    rows = (0, 3, 10, "a"), (0, 3, 10, "a"), (1, 2, 5, "a"), (2, 1, 5, "a")
    alone = QueueSettings("a", nominal=8)
    run = play(Kueue(Fifo("skip"), [alone]), of_teams(*rows), two_nodes())
    assert times(run) == [(0, 10), (0, 10), (10, 15), (10, 15)]
    beyond = Kueue(Fifo("skip"), [replace(alone, nominal=9)], overcommit=True)
    assert times(play(beyond, of_teams(*rows), two_nodes()))[3] == (2, 7)


def test_kueue_9734_shares_have_no_memory():
    """a has had all 8 GPUs for 100 s when both queues ask for them: their shares are equal, and a's job came first.

    The dominant resource share counts what a queue holds now. Only its weight can say that it has had its turn.
    """
    queues = [QueueSettings("root", nominal=8), QueueSettings("a", "root"), QueueSettings("b", "root")]
    rows = (0, 8, 100, "a"), (1, 8, 50, "a"), (2, 8, 50, "b")
    kept = play(Kueue(Fifo(), queues, strategies=("final",)), of_teams(*rows), two_nodes())
    assert times(kept) == [(0, 100), (100, 150), (150, 200)]
    weighted = [*queues[:2], replace(queues[2], weight=2)]
    turned = play(Kueue(Fifo(), weighted, strategies=("final",)), of_teams(*rows), two_nodes())
    assert times(turned) == [(0, 100), (150, 200), (100, 150)]


def test_volcano_4947_an_evicted_job_does_not_come_back_first():
    """q1 deserves 3 GPUs and runs a job of 4; q2 deserves 5, runs 1 and asks for 4.

    In Volcano the evicted job's queue has share 0 at once, is served first, and starts the same job again, which is
    evicted again. Kueue gives the quota to the job that asked in the same round: one preemption, and the evicted job
    waits for it. Without reclaim nothing is stopped.
    """
    queues = [QueueSettings("root"), QueueSettings("q1", "root", 3), QueueSettings("q2", "root", 5)]
    rows = (0, 4, 30, "q1"), (0, 1, 50, "q2"), (5, 4, 20, "q2")
    run = play(Kueue(Fifo("skip"), queues), of_teams(*rows), two_nodes())
    assert (times(run), restarts(run)) == ([(0, 50), (0, 50), (5, 25)], [1, 0, 0])
    never = [replace(queue, reclaim="never") for queue in queues]
    run = play(Kueue(Fifo("skip"), never), of_teams(*rows), two_nodes())
    assert (times(run), restarts(run)) == ([(0, 30), (0, 50), (30, 50)], [0, 0, 0])
