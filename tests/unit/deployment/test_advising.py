"""Advice: which values of `nice` bring jobs into an order, what is never touched, and that every value is set back."""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from baselines import Fifo, Srtf
from deployment.adapter import ActionRefusedError
from deployment.advising import Adviser, find_values, foresee
from deployment.history import ClusterHistory, ObservedJob, StandIn
from deployment.journal import Journal
from envs.simulation import Scenario, Setup
from envs.types import ClusterSpec, MurmurationError, NodeSpec
from tests.conformance.worlds import Curved

SETUP = Setup(ClusterSpec((NodeSpec("new", 8),)), Curved(), Scenario(preemption="never"))


class Killed(BaseException):
    """The adviser is killed."""


class Steps:
    """Kills at one of the steps that are counted."""

    def __init__(self, last=math.inf):
        self.last, self.num = last, 0

    def take(self):
        self.num += 1
        if self.num > self.last:
            raise Killed


class Queue:
    """A cluster manager in memory, of which the priority of a job falls as its nice rises."""

    def __init__(self, jobs, steps=None):
        self.jobs, self.steps, self.refuse, self.set = {job.name: job for job in jobs}, steps or Steps(), "", []

    def set_nice(self, job, value):
        self.steps.take()
        if self.refuse:
            raise ActionRefusedError(self.refuse)
        before = self.jobs[job]
        self.jobs[job] = replace(before, nice=value, priority=before.priority + before.nice - value)
        self.set.append(job)
        self.steps.take()

    def present(self):
        return list(self.jobs.values())

    def order(self):
        return [job.name for job in sorted(self.present(), key=lambda job: (-job.priority, int(job.name)))]


class FragileJournal(Journal):
    """A journal whose process may be killed before and after each line."""

    def __init__(self, path, steps):
        super().__init__(path)
        self.steps = steps

    def write(self, phase, action, **about):
        self.steps.take()
        super().write(phase, action, **about)
        self.steps.take()


def waiting(*rows):
    """Jobs of (priority, nice), named 1, 2, ..., that have opted in."""
    return [
        ObservedJob(str(i), 1e9, 1, 600.0, user="me", opted_in=True, nice=nice, priority=priority)
        for i, (priority, nice) in enumerate(rows, 1)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_values_bring_jobs_into_any_order_and_none_before_the_place_of_the_first(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    nice = rng.integers(-3, 4, count)
    spread = int(rng.choice([1, 3, 1000]))
    queue = Queue(waiting(*zip((100 + rng.integers(0, spread, count)).tolist(), nice.tolist(), strict=True)))
    originals = {job.name: job.nice for job in queue.present()}
    highest = max(job.priority for job in queue.present())
    for _ in range(3):
        order = [str(i) for i in rng.permutation(count) + 1]
        values = find_values([queue.jobs[name] for name in order], originals)
        for name, value in values.items():
            queue.set_nice(name, value)
        assert queue.order() == order
        assert max(job.priority for job in queue.present()) <= highest
        assert find_values([queue.jobs[name] for name in order], originals) == {}


def test_jobs_that_stand_right_among_each_other_keep_their_values():
    """Job 4, to be first, gets the priority of job 1, which gives way by one; job 2 may stand beside job 1."""
    queue = Queue(waiting((9, 0), (8, 0), (7, 0), (1, 0)))
    assert find_values([queue.jobs[name] for name in ("4", "1", "2", "3")], {}) == {"4": -8, "1": 1}


@pytest.fixture
def advising(tmp_path):
    """Return an adviser of a queue that continues the journal of the one before."""
    journals: list[Journal] = []

    def of(queue, per_minute=100, *, act=True):
        for journal in journals:
            journal.close()
        journals.append(FragileJournal(tmp_path / "journal.jsonl", queue.steps))
        return Adviser(queue, journals[-1], per_minute, act=act)

    yield of
    for journal in journals:
        journal.close()


def test_only_jobs_that_wait_and_have_opted_in_are_touched(advising):
    plain = waiting((9, 0), (8, 0), (7, 0), (6, 0), (5, 0))
    plain[1] = replace(plain[1], opted_in=False)
    plain[2] = replace(plain[2], gpus={0: 1})
    queue = Queue(plain)
    said = advising(queue).advise(queue.present(), ["5", "4", "3", "2", "1"], 0.0)
    assert set(queue.set) == {"5", "4", "1"}
    assert [name for name in queue.order() if name in "541"] == ["5", "4", "1"]
    assert len(said) == len(queue.set)


def test_without_act_nothing_is_touched_and_each_change_is_said_once(advising):
    queue = Queue(waiting((9, 0), (8, 0)))
    adviser = advising(queue, act=False)
    assert adviser.advise(queue.present(), ["2", "1"], 0.0) == [
        "job 2: nice 0 -> -1 (not set: act=false)",
        "job 1: nice 0 -> 1 (not set: act=false)",
    ]
    assert adviser.advise(queue.present(), ["2", "1"], 0.0) == []
    assert adviser.restore(queue.present()) == queue.set == []


def test_changes_of_a_minute_are_bounded_and_the_head_of_the_queue_comes_first(advising):
    queue = Queue(waiting(*((9 - i, 0) for i in range(6))))
    adviser, order = advising(queue, 2), ["6", "5", "4", "3", "2", "1"]
    for now in (0.0, 59.0):
        adviser.advise(queue.present(), order, now)
        assert queue.set == ["6", "5"]
    adviser.advise(queue.present(), order, 61.0)
    assert len(queue.set) == 4
    adviser.restore(queue.present())
    assert [job.nice for job in queue.present()] == [0] * 6  # setting back is not bounded


def test_a_value_that_its_user_has_set_is_left_and_said_also_by_the_next_adviser(advising):
    queue = Queue(waiting((9, 0), (8, 0), (7, 0)))
    adviser = advising(queue)
    adviser.advise(queue.present(), ["3", "2", "1"], 0.0)
    queue.jobs["3"] = replace(queue.jobs["3"], nice=50)
    said = "job 3: its nice is 50, which somebody else has set; it is left"
    assert said in adviser.advise(queue.present(), ["1", "2", "3"], 0.0)
    again = advising(queue)
    again.restore(queue.present())
    again.advise(queue.present(), ["3", "2", "1"], 0.0)
    again.restore(queue.present())
    assert [job.nice for job in queue.present()] == [0, 0, 50]


def test_a_value_that_its_user_sets_back_to_the_first_one_is_left(advising):
    queue = Queue(waiting((9, 0), (8, 0)))
    adviser = advising(queue)
    adviser.advise(queue.present(), ["2", "1"], 0.0)
    queue.jobs["2"] = replace(queue.jobs["2"], nice=0, priority=8)
    assert "job 2: its nice is 0, which somebody else has set; it is left" in adviser.advise(
        queue.present(), ["2", "1"], 0.0
    )
    assert queue.jobs["2"].nice == 0


def test_a_job_that_opts_out_gets_its_value_back(advising):
    queue = Queue(waiting((9, 3), (8, 0)))
    adviser = advising(queue)
    adviser.advise(queue.present(), ["2", "1"], 0.0)
    assert queue.jobs["1"].nice != 3
    queue.jobs["1"] = replace(queue.jobs["1"], opted_in=False)
    adviser.advise(queue.present(), ["2", "1"], 0.0)
    assert queue.jobs["1"].nice == 3


def test_a_refusal_is_said_once_and_what_was_refused_is_set_back_too(advising):
    queue = Queue(waiting((9, 0), (8, 0)))
    adviser = advising(queue)
    queue.refuse = "scontrol: Access denied"
    assert adviser.advise(queue.present(), ["2", "1"], 0.0)[0] == "job 2: nice 0 -> -1: scontrol: Access denied"
    assert adviser.advise(queue.present(), ["2", "1"], 0.0) == []
    queue.jobs["2"] = replace(queue.jobs["2"], nice=-1)  # no answer came, and it was set all the same
    adviser.restore(queue.present())
    assert set(adviser.changed) == {"2"}  # refused
    queue.refuse = ""
    adviser.restore(queue.present())
    assert [job.nice for job in queue.present()] == [0, 0]
    assert adviser.changed == {}


def play(adviser, queue, seed):
    """Let an adviser follow several orders and set everything back; meanwhile a job begins and a user changes one."""
    rng = np.random.default_rng(seed)
    for number in range(4):
        order = [str(i) for i in rng.permutation(6) + 1]
        adviser.advise(queue.present(), order, 0.0)
        if number == 2:
            queue.jobs["5"] = replace(queue.jobs["5"], nice=77)
            queue.jobs["6"] = replace(queue.jobs["6"], gpus={0: 1})
    adviser.restore(queue.present())


def test_a_kill_at_any_instant_also_of_the_one_that_sets_back_loses_no_value(tmp_path, advising):
    first = waiting(*((20 - i, i) for i in range(6)))
    killed_at = 0
    while True:
        (tmp_path / "journal.jsonl").unlink(missing_ok=True)
        queue = Queue(first, Steps(killed_at))
        try:
            play(advising(queue), queue, seed=killed_at % 5)
            break
        except Killed:
            pass
        queue.steps = Steps(killed_at % 7)
        with suppress(Killed):
            advising(queue).restore(queue.present())
        queue.steps = Steps()
        adviser = advising(queue)
        adviser.restore(queue.present())
        assert adviser.changed == {}
        for before in first:
            after = queue.jobs[before.name]
            assert after.nice == before.nice or after.gpus or after.nice == 77, (killed_at, after)
        killed_at += 1
    assert killed_at > 60


def test_a_manager_that_has_lost_a_later_value_gets_the_first_one_back(advising):
    queue = Queue(waiting((9, 0), (8, 0), (7, 0)))
    adviser = advising(queue)
    adviser.advise(queue.present(), ["3", "2", "1"], 0.0)
    earlier = dict(queue.jobs)
    adviser.advise(queue.present(), ["2", "1", "3"], 0.0)
    queue.jobs = earlier
    advising(queue).restore(queue.present())
    assert [job.nice for job in queue.present()] == [0, 0, 0]


def test_a_job_of_another_user_has_only_the_same_number(advising):
    queue = Queue(waiting((9, 0), (8, 0)))
    advising(queue).advise(queue.present(), ["2", "1"], 0.0)
    other = replace(queue.jobs["2"], user="you")
    queue.jobs["2"] = other
    advising(queue).restore(queue.present())
    assert queue.jobs["2"] == other


def test_another_journal_is_refused(tmp_path, advising):
    (tmp_path / "journal.jsonl").write_text('{"phase": "intended", "action": "nice"}\n')
    with pytest.raises(MurmurationError, match="line 1: is no line of an adviser"):
        advising(Queue([]))


@pytest.mark.parametrize(("scheduler", "order"), [(Fifo, ["1", "2", "3", "4"]), (Srtf, ["3", "2", "1", "4"])])
def test_the_order_is_that_in_which_the_scheduler_wants_the_jobs_to_run(scheduler, order):
    """Job 0 runs until 600; the others need all 8 GPUs for 300, 200 and 100 s; job 4 for longer."""
    history = ClusterHistory(StandIn(SETUP, "any"))
    limits = (600.0, 300.0, 200.0, 100.0, 900.0)
    jobs = [ObservedJob(str(i), 1e9 + i, 8, limit, priority=9 - i) for i, limit in enumerate(limits)]
    jobs[0] = replace(jobs[0], start_time=1e9, gpus={0: 8})
    history.look(1e9 + 10, jobs)
    assert foresee(scheduler(), history, 100) == order
    assert foresee(scheduler(), history, 0) == ["1", "2", "3", "4"]  # not asked: by their priorities


def test_a_large_job_that_is_wanted_comes_before_small_ones_that_would_start_earlier():
    """Job 1 needs 8 GPUs for 100 s, job 2 one GPU for 500 s: two are free, and job 0 has the others."""
    history = ClusterHistory(StandIn(SETUP, "any"))
    jobs = [
        ObservedJob("0", 1e9, 6, 600.0, 1e9, {0: 6}),
        ObservedJob("1", 1e9 + 1, 8, 100.0),
        ObservedJob("2", 1e9 + 2, 1, 500.0),
    ]
    history.look(1e9 + 10, jobs)
    assert foresee(Srtf(), history, 100) == ["1", "2"]
