"""The command from the file to the report, and each change by itself."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from envs.types import ClusterError, MurmurationError, constraints_of, plain_type
from envs.workloads import TraceSource
from murmuration.config.choices import own_configs, search_in
from murmuration.config.describe import compose_training
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_inputs
from murmuration.what_if.alternatives import Alternatives, usual_changes
from murmuration.what_if.answer import WhatIfAnswer
from murmuration.what_if.asking import ask, training_command, write_answer
from murmuration.what_if.played import Fates, Play, play_alternative, play_everything
from murmuration.what_if.replay import Question, read_replay
from murmuration.what_if.terminal import advice
from murmuration.what_if.trust import compare_with_record

RECORDING = Path(__file__).parents[2] / "golden" / "slurm_22_05"
LAB = """_target_: envs.cluster.build_cluster
name: lab
groups:
  - {gpu_type: V100, num_nodes: 4, num_gpus: 4, pools: [v100]}
  - {gpu_type: A100, num_nodes: 4, num_gpus: 4, pools: [a100]}
"""


def fates_in(task: Play) -> Fates:
    found = play_alternative(task)
    assert isinstance(found, Fates), found
    return found


@pytest.fixture(scope="module")
def question(tmp_path_factory):
    accounting = tmp_path_factory.mktemp("accounting") / "accounting.txt"
    accounting.write_text("".join((RECORDING / name).read_text() for name in ("assoc.txt", "qos.txt")))
    conf = str(RECORDING / "slurm.conf")
    return Question(RECORDING / "sacct.txt", slurm_conf=conf, accounting=str(accounting))


@pytest.fixture(scope="module")
def replay(question):
    return read_replay(question)


@pytest.fixture(scope="module")
def makes(question, replay):
    return Alternatives(question, replay)


def test_a_recording_of_a_real_slurm_is_explained(question, tmp_path, capsys):
    """Waits of the replay are within a third of those that Slurm had, and the report says so."""
    words = [str(question.path), "--slurm-conf", question.slurm_conf, "--accounting", question.accounting]
    answer = ask([*words, "--policy", "fifo_easy", "--processes", "1", "--out", str(tmp_path)])
    trust = answer.trust
    assert trust is not None
    assert trust.overlap > 0.8
    assert trust.low < trust.overlap < trust.high
    assert abs(trust.ratio - 1) < 1 / 3
    assert abs(trust.replayed["over a minute"] / trust.recorded["over a minute"] - 1) < 1 / 3
    said = capsys.readouterr().out
    assert "200 jobs, submitted from 2026-11-30 15:25" in said
    assert "fifo_easy" in said
    assert trust.verdict[:20] in said
    page = (tmp_path / "what_if.html").read_text()
    assert trust.verdict in page
    assert page.count("data-chart=") == 2
    assert len(page) < 300_000
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results["figures"]) == {"recorded", "slurm", "fifo_easy"}
    jobs = pd.read_csv(tmp_path / "jobs.csv")
    assert len(jobs) == 600
    assert jobs["played"].value_counts().tolist() == [200] * 3
    mean = jobs[jobs["played"] == "slurm"]["wait_s"].mean()
    assert mean == pytest.approx(answer.figures["slurm"]["mean"], abs=0.1)


@pytest.mark.parametrize("recording", ["plain", "outage"])
def test_recordings_of_three_hundred_jobs_are_explained_within_a_third(recording):
    """As `docs/how_to/what_if.md` has them; of the second one, nodes were drained for a while."""
    folder = RECORDING.parent / "slurm_300" / recording
    options = ["schedulers.slurm.ends=grouped", "schedulers.slurm.cores=nodes"]
    question = Question(
        folder / "sacct.txt", options, "slurm", "", str(folder / "slurm.conf"), str(folder / "accounting.txt")
    )
    replay = read_replay(question)
    played = fates_in(Alternatives(question, replay).incumbent())
    trust = compare_with_record(replay.recorded, played, replay.workload, replay.cluster, replay.measured)
    assert abs(trust.ratio - 1) < 1 / 3
    assert abs(trust.replayed["over a minute"] / trust.recorded["over a minute"] - 1) < 1 / 3
    assert trust.overlap > 0.8
    assert trust.reasons == ()  # jobs on drained nodes ran on, so that few GPUs were idle


def test_the_command_for_training_is_one_that_trains(question, replay, tmp_path):
    """It composes, and its jobs and cluster are those that were replayed."""
    answer = WhatIfAnswer(replay, fates_in(Alternatives(question, replay).incumbent()), {}, {}, {})
    write_answer(answer, tmp_path)
    words = shlex.split(training_command(answer, tmp_path))
    assert words[:6] == [sys.executable, "-m", "murmuration", "train", "--config-dir", str(tmp_path)]
    with own_configs():
        run, _ = compose_training([*search_in(str(tmp_path)), *words[6:]])
    inputs = build_inputs(run.seeds[0].problem)
    assert inputs.setup.cluster.gpus_by_type == replay.cluster.gpus_by_type
    assert np.array_equal(inputs.setup.cluster.node_gpus, replay.cluster.node_gpus)
    assert isinstance(inputs.source, TraceSource)
    assert np.array_equal(inputs.source.workload.jobs, replay.workload.jobs)


def test_a_cluster_in_yaml_plays_the_same_as_the_nodes_of_the_conf(question, replay, tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "lab.yaml").write_text(LAB)
    other = read_replay(replace(question, cluster=str(folder / "lab.yaml")))
    assert [plain_type(name) for name in other.cluster.gpu_types] == ["V100", "A100"]
    mine, theirs = (fates_in(Alternatives(question, each).incumbent()) for each in (replay, other))
    assert np.array_equal(mine.start, theirs.start)


def test_two_processes_play_what_one_plays(makes):
    plays = [makes.incumbent(), makes.make(["policy=fifo"])]
    found = [dict(play_everything(plays, processes, lambda label: None)) for processes in (1, 2)]
    assert list(found[0]) == list(found[1]) == ["slurm", "fifo"]
    for label in found[0]:
        one, two = (each[label] for each in found)
        assert isinstance(one, Fates)
        assert isinstance(two, Fates)
        assert np.array_equal(one.start, two.start, equal_nan=True)


def test_load_lets_jobs_come_faster(makes, replay):
    made = makes.make(["load=2"])
    assert np.array_equal(made.workload.jobs["submit_time"] * 2, replay.workload.jobs["submit_time"])
    assert made.stretch == 2
    assert made.label == "load=2"


def test_nodes_are_added_like_those_that_are_there(makes, replay):
    cluster = makes.make(["nodes=+2xa100"]).setup.cluster
    assert cluster.num_gpus == replay.cluster.num_gpus + 8
    assert cluster.nodes[-1] == replay.cluster.nodes[4]


def test_nodes_are_taken_away_by_name(makes, replay):
    cluster = makes.make(["without=n0,n5"]).setup.cluster
    assert cluster.nodes == replay.cluster.nodes[1:5] + replay.cluster.nodes[6:]
    with pytest.raises((ClusterError, MurmurationError)):
        play_alternative(makes.make(["without=n0,n1,n2,n3"]))


def test_jobs_of_a_partition_run_in_another(makes):
    found = makes.make(["partition=a100:v100"])
    assert {constraints_of(model).pools for model in found.workload.models} == {("v100",)}


def test_no_constraints_is_one_partition_of_all_nodes(makes, replay):
    found = makes.make(["constraints=none"])
    assert not any(map(constraints_of, found.workload.models))
    assert [node.gpu_type for node in found.setup.cluster.nodes] == ["v100"] * 4 + ["a100"] * 4
    assert fates_in(found).wait.mean() < fates_in(makes.incumbent()).wait.mean()


def test_closer_limits_are_never_below_run_times(makes, replay):
    jobs, old = makes.make(["limit-accuracy=1.5"]).workload.jobs, replay.workload.jobs
    assert (jobs["time_limit"] <= old["time_limit"]).all()
    assert (jobs["time_limit"] < old["time_limit"]).any()
    ended_there = old["duration"] > old["time_limit"]
    assert (jobs["time_limit"] >= np.where(ended_there, old["time_limit"], old["duration"])).all()


def test_several_changes_are_one_alternative(makes, replay):
    made = makes.make(["load=2", "policy=fifo", "nodes=+1xv100"])
    assert made.stretch == 2
    assert made.setup.cluster.num_nodes == 9
    assert made.label == "load=2 fifo nodes=+1xv100"
    assert type(made.scheduler).__name__ == "Fifo"


def test_a_scheduler_that_stops_jobs_is_allowed_to_and_others_are_not(makes):
    assert makes.make(["policy=srtf"]).setup.scenario.preemption == "allowed"
    assert makes.incumbent().setup.scenario.preemption == "never"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("load=fast", "load=fast: must be a number from 0.01 to 100"),
        ("nodes=2xH100", "nodes=2xH100: write +2xH100"),
        ("nodes=+2xH100", "the cluster has no such nodes to add to; its GPUs are a100, v100"),
        ("without=n8", "without=n8: no such node"),
        ("partition=v100", "write partition=<from>:<to>"),
        ("partition=a10:v100", "the cluster has no partition a10, did you mean a100?"),
        ("constraints=all", "must be none"),
        ("limit-accuracy=0.5", "must be a number from 1 to 1000"),
        ("size=3", "size: no such change"),
        ("policy=fif", "fif"),
    ],
)
def test_a_wrong_change_is_answered_in_one_line(makes, change, said):
    with pytest.raises(ChoiceError, match=r".") as error:
        makes.make([change])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_trace_without_a_cluster_or_without_a_file_is_refused(question, tmp_path):
    with pytest.raises(ChoiceError, match="--slurm-conf"):
        read_replay(Question(question.path))
    with pytest.raises(MurmurationError, match="missing.txt"):
        read_replay(Question(tmp_path / "missing.txt", slurm_conf=question.slurm_conf))


def test_a_file_without_starts_is_played_and_not_checked(question, tmp_path):
    lines = [line.split("|") for line in question.path.read_text().splitlines()]
    keep = [number for number, name in enumerate(lines[0]) if name not in ("Start", "End")]
    path = tmp_path / "sacct.txt"
    path.write_text("".join("|".join(line[number] for number in keep) + "\n" for line in lines))
    words = [str(path), "--slurm-conf", question.slurm_conf, "--policy", "fifo", "--out", str(tmp_path / "out")]
    answer = ask([*words, "--processes", "1"])
    assert answer.trust is None
    assert list(answer.shown) == ["slurm", "fifo"]


def test_where_nothing_is_asked_only_what_the_jobs_allow_is_played(replay):
    asked = usual_changes(replay.workload)
    assert asked == ["policy=fifo_easy", "load=1.1", "limit-accuracy=1", "constraints=none"]
    jobs = replay.workload.jobs.copy()
    jobs["time_limit"] = 0
    assert usual_changes(replace(replay.workload, jobs=jobs)) == [
        "policy=fifo_backfill",
        "load=1.1",
        "constraints=none",
    ]


def test_a_play_that_stalled_is_said(replay, makes):
    today = fates_in(makes.incumbent())
    stalled = replace(today, label="other", notes=("ended at round 9: unfinished: jobs 3",))
    lines = advice(WhatIfAnswer(replay, today, {"other": stalled}, {}, {}))
    assert "other: ended at round 9: unfinished: jobs 3" in lines
    assert "other: no certain change of the mean wait: keep slurm" in lines
