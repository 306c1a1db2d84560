"""Jobs that keep some of their nodes: the others are released, and the next segment goes on in the same task."""

import pytest

from deployment.adapter import TaskNote, TaskStatus
from deployment.jobs import DONE, GoOnOrder, JobReport, read_report, write_order, write_progress
from envs.types import JobSpec, Placement
from tests.unit.deployment.playing import OWNER, Play


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)


class Shrinking:
    """Job 0 holds two nodes until job 1 is submitted, which gets the second one."""

    def reset(self, cluster, rng):
        pass

    def schedule(self, view):
        allocation = view.allocation()
        wanted = {0: Placement({0: 4, 1: 4}), 1: Placement({1: 4})}
        if len(view.num_gpus) > 1:  # job 1 was submitted
            wanted[0] = Placement({0: 4})
        for job in sorted(view.running.tolist() + view.queued.tolist()):
            allocation.place(job, wanted[job])
        return allocation


TWO_JOBS = [JobSpec(0, 0.0, 4, 400.0, "any", max_gpus=8), JobSpec(1, 10.0, 4, 80.0, "any")]


def shrinking(folder):
    """A play in which job 1 is submitted to the cluster before job 0 has released its node, and would wait for that."""
    play = Play(folder, Shrinking, TWO_JOBS)
    play.cluster.strict = False
    return play


def test_a_job_that_keeps_some_of_its_nodes_goes_on_in_the_same_task(tmp_path):
    play = shrinking(tmp_path)
    play.go(200)
    bridge = play.check()
    assert [(note.job, note.segment) for note in play.cluster.started] == [(0, 1), (1, 1)]
    assert bridge.journal.counts["release carried out"] == 1
    assert bridge.journal.counts["stop intended"] == 0
    first, second = bridge.runs
    assert (first.segment, first.num_restarts, first.num_preemptions) == (2, 1, 0)
    assert first.service == pytest.approx(400.0 / 2.0, abs=20.0)  # two samples a second on each GPU
    assert first.finish_time == pytest.approx(10.0 + (400.0 - 10.0 * 16.0) / 8.0, abs=5.0)
    assert second.finish_time == pytest.approx(20.0, abs=3.0)


def test_an_ended_task_of_an_earlier_play_is_not_taken_for_the_next_segment(tmp_path):
    """Slurm shows them for a while, and probes have numbers too."""
    play = shrinking(tmp_path)
    play.cluster.earlier = [TaskStatus("1000", TaskNote(OWNER, 0, 2, {"n0": 1}), "ended")]
    play.go(12)
    (task,) = (each for each in play.cluster.tasks() if each.note.job == 0 and each.state == "running")
    assert task.note == TaskNote(OWNER, 0, 2, {"n0": 4})


def test_where_nodes_are_not_released_the_job_is_stopped_and_started_again(tmp_path):
    play = shrinking(tmp_path)
    play.cluster.refuse_release = 1
    play.go(200)
    bridge = play.check()
    assert [(note.job, note.segment) for note in play.cluster.started] == [(0, 1), (1, 1), (0, 2)]
    assert bridge.journal.counts["release refused"] == 1
    assert bridge.runs[0].num_preemptions == 1


@pytest.mark.parametrize("at", range(9, 16))
def test_a_bridge_that_was_killed_while_nodes_are_released_goes_on(tmp_path, at):
    play = shrinking(tmp_path)
    began = play.bridge.clock.began
    play.go(at)
    play.bridge.journal.close()
    play.begin(began)
    play.go(300)
    play.check()
    assert [(note.job, note.segment) for note in play.cluster.started] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("last", ["nothing", "release", "go"])
def test_a_release_of_which_the_journal_does_not_know_the_end_is_carried_through(tmp_path, last):
    """The bridge was killed after it wrote that it would ask, after it asked, or after it let the job go on."""
    play = shrinking(tmp_path)
    began = play.bridge.clock.began
    while not play.bridge.journal.counts["release intended"]:
        play.go(1)
    play.bridge.journal.close()
    (run, _), (task, _) = play.bridge.runs, play.cluster.tasks()
    if last == "nothing":
        (run.folder / "order.json").unlink()
    else:
        play.cluster.release(task, TaskNote(OWNER, 0, 2, {"n0": 4}))
    if last == "go":
        write_order(run.folder, GoOnOrder(2, ["400.0"], True))
    play.begin(began)
    play.go(300)
    bridge = play.check()
    assert bridge.journal.counts["release carried out"] == 1
    assert bridge.runs[0].segment == 2
    assert len(play.cluster.started) == 2


def test_a_job_that_ends_before_it_stops_for_its_next_start_is_done(monkeypatch, tmp_path):
    """Its last report comes after the next segment was ordered: it ends at the time of that report."""
    play = shrinking(tmp_path)

    def finish(task, *, kill=False):
        _, folder, *_ = play.cluster.running.pop(task.name)
        write_progress(folder, JobReport(**{**vars(read_report(folder)), "state": DONE, "work_done": 400.0}))

    monkeypatch.setattr(play.cluster, "stop", finish)
    monkeypatch.setattr(play.bridge, "_can_release", lambda *_: False)
    play.go(14)
    run = play.bridge.runs[0]
    assert (run.segment, run.done) == (2, True)
    assert run.finish_time == pytest.approx(11.0, abs=2.0)
