"""The bridge against a cluster in memory that refuses, forgets, loses nodes and jobs, and whose clock jumps."""

import json
import os

import pytest

from baselines import Fifo, Srtf
from deployment.adapter import TaskNote, read_note
from deployment.bridge import JOURNAL, MOST_LOSSES, BridgeRules, check_nodes
from deployment.journal import Journal, read_journal
from deployment.messages import write_placement
from deployment.state import Decision
from envs.types import ClusterError, ClusterSpec, ExecutionPlan, JobSpec, MurmurationError, NodeSpec, Placement
from tests.unit.deployment.playing import CLUSTER, MemoryCluster, Play, Time, jobs


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)


def test_all_jobs_end_and_times_are_those_of_the_reports(tmp_path):
    bridge = Play(tmp_path)
    bridge.go(600)
    found = bridge.check()
    assert all(0 < run.finish_time - run.spec.submit_time < 400 for run in found.runs)
    assert found.journal.counts["start intended"] == found.journal.counts["start carried out"]


@pytest.mark.parametrize("fault", ["refused", "silent", "node", "hidden", "clock", "lost"])
def test_faults_cost_time_but_no_job(tmp_path, fault):
    play = Play(tmp_path, Fifo)

    def event(step):
        cluster = play.cluster
        if fault == "refused" and step in (5, 20):
            cluster.refuse = 3
        elif fault == "silent" and step in (4, 9):
            cluster.silent = 2
        elif fault == "node" and step in (10, 40):
            cluster.down = {1} if step == 10 else set()
        elif fault == "hidden" and step in (10, 40):  # a manager that has restarted shows fewer nodes
            cluster.hidden = {0} if step == 10 else set()
        elif fault == "clock" and step in (5, 15, 30):
            play.time.jump += {5: 3600.0, 15: -7200.0, 30: 1e6}[step]
        elif fault == "lost" and step == 12 and cluster.running:
            cluster.running.pop(next(iter(cluster.running)))

    play.go(900, event)
    found = play.check()
    seen = {
        "refused": found.journal.counts["start refused"],
        "silent": found.journal.counts["look refused"],
        "node": found.journal.counts["lose carried out"],
        "hidden": found.journal.counts["lose carried out"],
        "clock": 1,
        "lost": found.journal.counts["lose carried out"],
    }
    assert seen[fault] >= 1
    finish = [run.finish_time for run in found.runs]
    assert all(0 < each < 900 for each in finish)  # also where the clock on the wall jumped


def test_a_job_that_never_gets_any_further_is_given_up_and_the_others_end(monkeypatch, tmp_path):
    play = Play(tmp_path, Fifo)
    began = play.bridge.clock.began
    start = play.cluster.start

    def crash(note, command, folder):
        name = start(note, command, folder)
        if note.job == 2:
            play.cluster.running.pop(name)
        return name

    monkeypatch.setattr(play.cluster, "start", crash)
    play.go(900)
    bridge = play.bridge
    assert bridge.finished
    assert [run.spec.id for run in bridge.runs if run.given_up] == [2]
    assert [run.spec.id for run in bridge.runs if not run.done] == [2]
    assert sum(note.job == 2 for note in play.cluster.started) == MOST_LOSSES
    assert bridge.journal.counts["give up carried out"] == 1
    bridge.journal.close()
    play.begin(began)
    assert play.bridge.runs[2].given_up


def test_a_job_that_gets_further_each_time_is_not_given_up(tmp_path):
    play = Play(tmp_path, Fifo, [JobSpec(0, 0.0, 4, 800.0, "any")])

    def event(step):
        if step % 15 == 14:
            play.cluster.running.clear()

    play.go(900, event)
    assert play.check().journal.counts["lose carried out"] > MOST_LOSSES


@pytest.mark.parametrize("at", [1, 3, 7, 20])
def test_a_bridge_that_was_killed_goes_on_without_losing_or_repeating_a_job(tmp_path, at):
    play = Play(tmp_path)
    began = play.bridge.clock.began
    play.go(at)
    play.bridge.journal.close()
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"phase": "inte')  # killed while it wrote
    play.time.steady += 5.0
    play.begin(began)
    play.go(900)
    play.check()


def intend(folder, placement):
    """Write a journal that ends before job 0 was started."""
    journal = Journal(folder / JOURNAL)
    named = {"gpus": {f"n{node}": count for node, count in placement.gpus.items()}}
    named["placement"] = write_placement(placement)
    journal.write("intended", "start", job=0, segment=1, time=1e9 + 100.0, now=0.0, **named)
    journal.close()


def test_a_bridge_that_goes_on_knows_what_a_placement_names_besides_gpus(tmp_path):
    placement = Placement({0: 3, 1: 2}, batch_size=64, plan=ExecutionPlan(data=5))
    intend(tmp_path, placement)
    assert Play(tmp_path, Fifo, jobs(2)).bridge.runs[0].placement == placement


def test_an_entry_of_another_version_is_named(tmp_path):
    journal = Journal(tmp_path / JOURNAL)
    journal.write("intended", "start", job=0, segment=1, gpus={"n0": 3}, time=1e9 + 100.0, now=0.0)
    journal.close()
    with pytest.raises(MurmurationError, match=r"journal.jsonl: line 1: cannot be followed \(it: has no placement"):
        Play(tmp_path, Fifo, jobs(2))


def test_an_action_that_was_intended_and_never_carried_out_is_decided_again(tmp_path):
    intend(tmp_path, Placement({0: 3, 1: 2}))
    play = Play(tmp_path, Fifo, jobs(2))
    play.go(200)
    assert [note.segment for note in play.check().adapter.started if note.job == 0] == [2]


def test_an_order_to_stop_that_is_lost_is_repeated_and_the_task_killed_at_last(monkeypatch, tmp_path):
    play = Play(tmp_path, rules={"grace": 20.0})
    orders, stop = [], play.cluster.stop

    def deaf(task, *, kill=False):
        orders.append(kill)
        if kill or len(orders) % 3 == 0:
            stop(task)

    monkeypatch.setattr(play.cluster, "stop", deaf)
    play.cluster.strict = False  # the next segment waits for the lock of the last one
    play.go(900)
    assert play.bridge.finished
    assert play.bridge.journal.counts["stop again intended"] > 0


class Obeyed:
    """A scheduler of another program: its second answer is wrong, the others are those of FIFO."""

    def __init__(self, sensible, wrong):
        self.sensible, self.wrong, self.rounds = sensible, wrong, 0

    def decide(self, state):
        found = self.sensible.decide(state)
        self.rounds += 1
        return self.wrong if self.rounds == 2 else found


ILLEGAL = {
    "too many": Decision({0: Placement({0: 1000})}),
    "no such job": Decision({99: Placement({0: 1})}),
    "stop no such job": Decision({99: None}),
    "not submitted": Decision({3: Placement({0: 1})}),
    "no such node": Decision({0: Placement({7: 1})}),
    "fewer than its least": Decision({1: Placement({0: 1})}),
    "negative": Decision({0: Placement({0: -1})}),
    "nothing": Decision({0: Placement({})}),
    "past": Decision({}, 0.5),
    "NaN": Decision({}, float("nan")),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_a_decision_that_cannot_be_is_refused_journalled_and_survived(tmp_path, name):
    specs = [JobSpec(0, 0.0, 2, 100.0, "any"), JobSpec(1, 3.0, 3, 100.0, "any"), JobSpec(2, 4.0, 2, 50.0, "any")]
    specs.append(JobSpec(3, 60.0, 2, 50.0, "any"))
    play = Play(tmp_path, Fifo, specs)
    play.asked = Obeyed(play.asked, ILLEGAL[name])
    play.go(300)
    bridge = play.check()
    refused = [line for line in read_journal(tmp_path / JOURNAL) if line["action"] == "decision"]
    assert len(refused) == 1
    assert refused[0]["why"].isprintable()
    assert bridge.journal.counts["decision refused"] == 1


@pytest.mark.parametrize("content", ["{", "[" * 100_000, json.dumps({"segment": 99}), "pipe"])
def test_a_job_with_a_bad_report_is_journalled_once_and_harms_no_other(monkeypatch, tmp_path, content):
    play = Play(tmp_path, Fifo, jobs(3))
    place, work = tmp_path / "jobs" / "0" / "progress.json", play.cluster.work

    def spoil():
        work()
        if play.bridge.runs[0].segment:
            place.unlink(missing_ok=True)
            if content == "pipe":
                os.mkfifo(place)
            else:
                place.write_text(content)

    with monkeypatch.context() as patch:
        patch.setattr(play.cluster, "work", spoil)
        play.go(120)
    assert [run.done for run in play.bridge.runs] == [False, True, True]
    assert play.bridge.journal.counts["report refused"] == 1
    play.go(300)
    assert play.bridge.finished


@pytest.mark.parametrize("fault", ["refused", "silent", "node", "lost", "preempted"])
def test_counters_and_records_of_a_replaced_bridge_are_those_of_one_that_was_never_replaced(tmp_path, fault):
    """All counters come from the journal, and so does what a scheduler sees of a job besides its report."""
    plays = [Play(tmp_path / name, Srtf, jobs(6)) for name in ("whole", "replaced")]
    for play in plays:

        def event(step, play=play):
            cluster = play.cluster
            cluster.refuse = 1 if (fault, step) == ("refused", 2) else cluster.refuse
            cluster.silent = 1 if (fault, step) == ("silent", 4) else cluster.silent
            cluster.down = {1} if fault == "node" and 10 <= step < 20 else set()
            if (fault, step) == ("lost", 12) and cluster.running:
                cluster.running.pop(next(iter(cluster.running)))
            if play is plays[1] and step in (9, 21):
                play.bridge.journal.close()
                play.begin(play.bridge.clock.began)

        play.go(400, event)
    whole, replaced = (play.check() for play in plays)
    rounds = [each.journal.counts.pop("round decided") for each in (whole, replaced)]
    assert rounds[0] <= rounds[1] <= rounds[0] + 2  # a bridge begins with a round
    assert whole.journal.counts == replaced.journal.counts
    for one, other in zip(whole.runs, replaced.runs, strict=True):
        for name in ("segment", "num_restarts", "num_preemptions", "num_interruptions"):
            assert getattr(one, name) == getattr(other, name), name
        for name in ("start_time", "finish_time", "service"):  # nodes are looked at now and then, and at the beginning
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=10.0 if fault == "node" else 1e-6)
        assert vars(one.latencies) == pytest.approx(vars(other.latencies))


def test_in_shadow_mode_nothing_is_touched(tmp_path):
    play = Play(tmp_path, rules={"shadow": True})
    play.go(30)
    assert play.cluster.started == []
    phases = {line["phase"] for line in read_journal(tmp_path / JOURNAL)}
    assert phases == {"shadowed", "decided"}


def test_shadow_mode_is_the_default():
    assert BridgeRules().shadow


def test_actions_are_limited_and_the_rest_comes_later(tmp_path):
    play = Play(tmp_path, Fifo, rules={"actions_per_minute": 2})
    play.go(61)
    assert len(play.cluster.started) <= 4
    assert play.bridge.journal.counts["start postponed"] > 0
    play.go(900)
    play.check()


def test_other_nodes_than_the_schedulers_are_refused():
    nodes = MemoryCluster(Time()).nodes()
    with pytest.raises(ClusterError, match="the cluster has 2 nodes with GPUs, cluster has 3"):
        check_nodes(nodes[:2], CLUSTER)
    with pytest.raises(ClusterError, match="node n0 has 4 GPUs; cluster has 8 there"):
        check_nodes(nodes[:1], ClusterSpec((NodeSpec("new", 8),)))
    with pytest.raises(MurmurationError, match="bridge.scale is 0; it must be positive"):
        BridgeRules(scale=0)


def test_a_damaged_journal_is_named_with_its_line(tmp_path):
    path = tmp_path / JOURNAL
    path.write_text(json.dumps({"phase": "intended", "action": "start"}) + "\n{]\n")
    with pytest.raises(MurmurationError, match=r"journal.jsonl: line 2: is no JSON"):
        list(read_journal(path))


def test_notes_of_tasks_are_read_again_and_others_are_ignored():
    note = TaskNote("me.0f-0", 3, 2, {"n0": 4, "n1": 1})
    assert note.write() == "murmuration/me.0f-0/3/2/n0=4,n1=1"
    assert read_note(note.write(), "me") == note
    assert read_note(note.write(), "you") is None
    for other in (
        "",
        "murmuration",
        "a/1/n0=1",
        "me.0f/1/1/n0",
        "me.0f/1/1/n0=0",
        "me.0f/-1/1/n0=1",
        "me.0f/1/1/n0=1025",
    ):
        assert read_note(f"murmuration/{other}", "me") is None
    assert read_note(f"murmuration/me.0f/1/{'1' * 5000}/n0=1", "me") is None
