"""Workloads from a trace file: read on first use, split by time, cut into episodes and windows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.cluster import build_cluster
from envs.performance import IdealModel
from envs.types import ClusterError, TraceError
from envs.workloads import TraceSource, Windows
from envs.workloads.readers import ItpTrace, MuriTrace

CLUSTER = build_cluster("two_nodes", [{"gpu_type": "V100", "num_nodes": 2, "num_gpus": 8}])
IDEAL = IdealModel(models=("a", "b"))
HOUR, DAY = 3600, 86400


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """100 jobs, one every two hours from the first second of the trace on, of 1, 2, 4 and 8 GPUs; the tenth of 32."""
    rows = [f"c{i % 2},{1000 + 2 * HOUR * i},{600 + i},{32 if i == 9 else 2 ** (i % 4)}" for i in range(100)]
    found = tmp_path_factory.mktemp("itp") / "itp.csv"
    found.write_text("cluster,submission_time,duration,num_gpu\n" + "\n".join(rows) + "\n")
    return str(found)


def source(path, **options) -> TraceSource:
    return TraceSource(CLUSTER, IDEAL, ItpTrace(), **{"path": path, "max_gpus": 16, "num_jobs": 20, **options})


def test_a_constructor_reads_no_file():
    made = source("/nowhere/itp.csv")
    assert (made.name, made.num_jobs, made.splits) == ("itp", 20, ("train", "validation", "test", "all"))
    with pytest.raises(TraceError, match=r"/nowhere/itp\.csv does not exist"):
        made.evaluation()


def test_the_file_is_read_once(path, monkeypatch):
    reads = []
    read = ItpTrace.read

    def counted(*args, **options):
        reads.append(1)
        return read(*args, **options)

    monkeypatch.setattr(ItpTrace, "read", counted)
    made = source(path)
    made.evaluation(), made.episode(np.random.default_rng(0)), made.models, made.report
    assert reads == [1]


def test_larger_jobs_are_left_out_and_counted(path):
    made = source(path)
    assert made.report.kept == len(made.workload) == 99
    assert made.report.skipped == {"more than 16 GPUs": 1}
    assert made.workload.notes[0] == "itp: 100 rows read, 99 kept; skipped 1 (more than 16 GPUs)"
    assert any("models are assigned, not observed" in note for note in made.workload.notes)
    assert any("elastic ranges are assigned" in note for note in made.workload.notes)


def test_a_job_that_does_not_fit_is_an_error_that_says_how_to_leave_it_out(path):
    with pytest.raises(ClusterError, match=r"row 11: num_gpus is 32; cluster two_nodes has 16 .*workload\.max_gpus=16"):
        source(path, max_gpus=None).evaluation()


def test_a_slice_of_days_begins_at_zero_and_is_counted(path):
    made = source(path, days=(1, 3))
    submit = made.workload.jobs["submit_time"]
    assert submit.tolist() == [2.0 * HOUR * i for i in range(24)]
    assert made.report.skipped["outside days 1 to 3"] == 76
    with pytest.raises(TraceError, match=r"no job was submitted in days \[50, 60\]; the trace spans days 0 to 8\.2"):
        source(path, days=[50, 60]).evaluation()


def test_max_gpus_that_leaves_no_job_is_refused(tmp_path):
    file = tmp_path / "itp.csv"
    file.write_text("cluster,submission_time,duration,num_gpu\nc,0,600,8\n")
    with pytest.raises(TraceError, match="max_gpus=4 leaves no job; its smallest job requests 8 GPUs"):
        source(str(file), max_gpus=4).evaluation()


def test_splits_are_disjoint_in_time_and_cover_everything(path):
    made = source(path)
    parts = [made.evaluation(split)[0] for split in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [59, 20, 20]
    work = np.concatenate([part.jobs["work"] for part in parts])
    assert work.tolist() == made.workload.jobs["work"].tolist()
    assert [part.name for part in parts] == ["itp-train", "itp-validation", "itp-test"]
    assert all(part.jobs["submit_time"][0] == 0 for part in parts)


def test_splits_can_be_given_in_days(path):
    made = source(path, split_days={"test": [0, 1], "train": [1, 4]})
    assert made.splits == ("test", "train", "all")
    assert len(made.evaluation("train")[0]) == 36
    assert len(made.evaluation()[0]) == 11  # twelve in a day, without the one of 32 GPUs


def test_evaluation_is_the_test_split_unless_the_source_chooses_the_whole(path):
    assert [workload.name for workload in source(path).evaluation()] == ["itp-test"]
    whole = source(path, evaluate_on="all", name="mine")
    assert [workload.name for workload in whole.evaluation()] == ["mine"]
    assert len(whole.evaluation()[0]) == 99
    assert whole.evaluation() is whole.evaluation("all")


def test_windows_of_a_split(path):
    made = source(path, windows=Windows(count=2, warmup=0.5, measure=0.5, after=0.5))
    found = made.evaluation("train")
    assert [workload.name for workload in found] == ["itp-train-0", "itp-train-1"]
    # Six jobs in half a day; the first window measures hours 12 to 24, without the job of 32 GPUs.
    assert [int(workload.measured.sum()) for workload in found] == [5, 6]
    assert [workload.window for workload in found] == [(0.5 * DAY, DAY)] * 2


APART = {"by_tenant": True, "windows": Windows(count=9, every=1.0, warmup=0.25, measure=0.5, after=0.25)}


def test_windows_and_episodes_are_of_one_tenant_each(path):
    """The trace has two clusters, c0 and c1, with every other job. Splits end on the same days for both."""
    made = source(path, split_days={"train": [0, 4], "test": [4, 8]}, num_jobs=10, **APART)
    by_work = {row["work"]: row for row in made.workload.jobs}
    found = {split: made.evaluation(split) for split in ("train", "test")}
    drawn = [made.episode(np.random.default_rng(seed)) for seed in range(20)]
    assert [window.name for window in found["test"][:3]] == ["itp-test-0-c0", "itp-test-0-c1", "itp-test-1-c0"]
    for workload in (*found["train"], *found["test"], *drawn):
        assert len({job.tenant for job in workload}) == 1
    assert {episode.name for episode in drawn} == {"itp-train-c0", "itp-train-c1"}
    assert {len(episode) for episode in drawn} == {10}
    assert len({episode.jobs["work"][0] for episode in drawn}) > 5
    days = {
        split: [by_work[x]["submit_time"] / DAY for w in each for x in w.jobs["work"]] for split, each in found.items()
    }
    assert max(days["train"]) < 4 <= min(days["test"])
    assert all(by_work[work]["submit_time"] < 4 * DAY for episode in drawn for work in episode.jobs["work"])
    again = made.episode(np.random.default_rng(3))
    assert (again.name, again.jobs.tolist()) == (drawn[3].name, drawn[3].jobs.tolist())


def test_a_small_tenant_is_drawn_as_seldom_as_its_jobs(tmp_path):
    """One job in ten is of cluster b; its two training jobs are an episode by themselves."""
    rows = [f"{'b' if i % 10 == 0 else 'a'},{HOUR * i},600,1" for i in range(60)]
    file = tmp_path / "itp.csv"
    file.write_text("cluster,submission_time,duration,num_gpu\n" + "\n".join(rows) + "\n")
    made = source(str(file), split_days={"train": [0, 20 / 24], "test": [1, 2]}, evaluate_on="test", **APART)
    drawn = [made.episode(np.random.default_rng(seed)) for seed in range(200)]
    assert {(episode.name, len(episode)) for episode in drawn} == {("itp-train-a", 18), ("itp-train-b", 2)}
    assert 5 <= sum(episode.name == "itp-train-b" for episode in drawn) <= 40


@given(seed=st.integers(0, 2**32 - 1), split=st.sampled_from(["train", "validation", "test", "all"]))
def test_an_episode_is_a_run_of_consecutive_jobs_of_its_split(path, seed, split):
    made = SHARED.setdefault("source", source(path))
    episode = made.episode(np.random.default_rng(seed), split)
    whole = made.evaluation(split)[0]
    assert len(episode) == 20
    assert episode.jobs["submit_time"][0] == 0.0
    assert episode.models == made.models
    starts = [at for at in range(len(whole) - 19) if whole.jobs["work"][at] == episode.jobs["work"][0]]
    assert any((whole.jobs["work"][at : at + 20] == episode.jobs["work"]).all() for at in starts)


SHARED: dict[str, TraceSource] = {}


def test_episodes_differ_and_repeat_by_seed(path):
    made = source(path)
    first, again, other = (made.episode(np.random.default_rng(seed)).jobs for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_an_episode_of_a_short_split_is_the_whole_split(path):
    made = source(path, num_jobs=1000)
    assert len(made.episode(np.random.default_rng(0), "test")) == 20


def test_a_job_has_the_same_model_in_every_workload(path):
    made = source(path)
    by_duration = {row["duration"]: row["model"] for row in made.workload.jobs}
    for seed in range(5):
        for row in made.episode(np.random.default_rng(seed)).jobs:
            assert by_duration[row["duration"]] == row["model"]


def test_strict_makes_the_first_bad_row_an_error(tmp_path):
    file = tmp_path / "itp.csv"
    file.write_text("cluster,submission_time,duration,num_gpu\nc,0,600,8\nc,5,600,eight\n")
    assert source(str(file), splits={"train": 1.0}, evaluate_on="train").report.bad == {
        "num_gpu must be a finite number": 1
    }
    with pytest.raises(TraceError, match="row 3: num_gpu is 'eight'"):
        source(str(file), strict=True).evaluation()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_jobs": 0}, "num_jobs is 0"),
        ({"max_gpus": 0}, "max_gpus 0"),
        ({"days": (3, 1)}, r"workload\.days is \[3, 1\]"),
        ({"days": (1,)}, r"workload\.days is \[1\]"),
        (
            {"splits": {"train": 1.0}, "split_days": {"train": (0, 1)}},
            r"splits and workload\.split_days are both given",
        ),
        ({"by_tenant": True}, r"by_tenant is true without windows; set workload\.windows\.count to at least 1"),
        ({"by_tenant": True, "windows": Windows()}, r"by_tenant is true without windows"),
        ({"elastic": 0.9}, r"workload\.elastic is 0\.9"),
        ({"evaluate_on": "tset"}, r"no split 'tset'; it has train, validation, test, all; did you mean test\?"),
    ],
)
def test_impossible_arguments_are_refused_before_any_file_is_read(options, message):
    with pytest.raises(TraceError, match=message):
        source("/nowhere", **options)


def test_a_note_says_if_the_cluster_is_not_the_recommended_one(path):
    notes = source(path, recommended_cluster="philly_like").workload.notes
    assert "the slice was chosen for cluster philly_like, not two_nodes" in notes
    assert not any("was chosen for" in note for note in source(path, recommended_cluster="two_nodes").workload.notes)


def test_the_error_names_an_unknown_split(path):
    with pytest.raises(TraceError, match=r"no split 'trian'; .*did you mean train\?"):
        source(path).episode(np.random.default_rng(0), "trian")


def test_a_trace_that_names_its_models_keeps_them(tmp_path):
    file = tmp_path / "m.csv"
    file.write_text("job_id,num_gpu,submit_time,model_name,duration\n0,1,0,b,5000\n1,2,1000,a,5000\n")
    made = TraceSource(CLUSTER, IDEAL, MuriTrace(), path=str(file), elastic=1.0, evaluate_on="all")
    assert [job.model for job in made.evaluation()[0]] == ["b", "a"]
    assert made.models == ("a", "b")
    with pytest.raises(TraceError, match="split 'validation' has no job among 2|split 'test' has no job among 2"):
        made.evaluation("test")


def test_the_error_for_a_model_without_figures_names_file_and_row(tmp_path):
    path = tmp_path / "m.csv"
    rows = ["0,1,0,a,5000", "1,1,1000,a,5000", "2,32,2000,a,5000", "3,1,3000,llama9,5000"]
    path.write_text("job_id,num_gpu,submit_time,model_name,duration\n" + "\n".join(rows) + "\n")
    made = TraceSource(CLUSTER, IDEAL, MuriTrace(), path=str(path), days=(0, 1), max_gpus=16)
    with pytest.raises(
        TraceError, match=r"m\.csv: row 5: model 'llama9' has no throughput figures; known: a, b"
    ) as error:
        made.evaluation("all")
    assert str(error.value).startswith(str(path))
