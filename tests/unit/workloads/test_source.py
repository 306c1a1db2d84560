"""The contract of workload sources, tested on all of them."""

import numpy as np
import pytest

from envs.cluster import build_cluster
from envs.performance import IdealModel
from envs.types import TraceError
from envs.workloads import SyntheticSource, TraceSource, WorkloadSource
from envs.workloads.readers import (
    AcmeTrace,
    HeliosTrace,
    ItpTrace,
    MuriTrace,
    OpenbTrace,
    PhillyRawTrace,
    PhillyTrace,
    RubickTrace,
    SpotTrace,
    SwfTrace,
    TraceReader,
)
from envs.workloads.readers.pai import PaiTrace
from envs.workloads.source import check_split

CLUSTER = build_cluster("eight_nodes", [{"gpu_type": "V100", "num_nodes": 8, "num_gpus": 8}])
IDEAL = IdealModel(models=("a", "b", "c"))


@pytest.fixture(scope="module", params=["synthetic", "trace"])
def source(request, tmp_path_factory) -> WorkloadSource:
    if request.param == "synthetic":
        return SyntheticSource(CLUSTER, IDEAL, num_jobs=30, num_evaluation=2)
    rng = np.random.default_rng(0)
    lasting = 600 + rng.permutation(200)  # distinct, so that the run time identifies a job
    rows = [f"c,{at},{lasts},{2 ** rng.integers(4)}" for at, lasts in zip(np.arange(200) * 4500, lasting, strict=True)]
    path = tmp_path_factory.mktemp("source") / "itp.csv"
    path.write_text("cluster,submission_time,duration,num_gpu\n" + "\n".join(rows) + "\n")
    return TraceSource(CLUSTER, IDEAL, ItpTrace(), path=str(path), num_jobs=30)


def test_episodes_are_of_training_size_and_begin_at_zero(source):
    for seed in range(5):
        episode = source.episode(np.random.default_rng(seed))
        assert 2 <= len(episode) <= source.num_jobs
        assert episode.jobs["submit_time"][0] == 0.0


def test_all_workloads_have_the_models_of_the_source(source):
    everything = [source.episode(np.random.default_rng(0)), *source.evaluation(), *source.evaluation("train")]
    assert {workload.models for workload in everything} == {source.models}


def test_one_generator_state_gives_one_episode(source):
    first, again = (source.episode(np.random.default_rng(3)) for _ in range(2))
    assert (first.jobs == again.jobs).all()


def test_an_episode_takes_its_randomness_from_the_generator_only(source):
    rng = np.random.default_rng(4)
    first, second = source.episode(rng), source.episode(rng)
    assert (first.jobs["work"] != second.jobs["work"]).any()


def test_evaluation_is_the_same_at_every_call(source):
    for split in (None, "train", "validation", "test"):
        assert source.evaluation(split) is source.evaluation(split)
    assert source.evaluation() is source.evaluation("test")


def test_no_job_is_in_two_splits(source):
    durations = [
        row["duration"]
        for split in ("train", "validation", "test")
        for workload in source.evaluation(split)
        for row in workload.jobs
    ]
    assert len(durations) == len(set(durations)) >= 180


def test_unknown_splits_are_refused(source):
    for ask in (source.evaluation, lambda split: source.episode(np.random.default_rng(0), split)):
        with pytest.raises(TraceError, match="there is no split 'dev'"):
            ask("dev")


def test_the_error_suggests_a_similar_name_only():
    with pytest.raises(TraceError, match=r"it has train, test; did you mean train\?"):
        check_split("w", "trian", ["train", "test"])
    with pytest.raises(TraceError) as error:
        check_split("w", "xyz", ["train", "test"])
    assert "did you mean" not in str(error.value)


READERS: tuple[TraceReader, ...] = (
    *(PhillyTrace(), ItpTrace(), MuriTrace(), RubickTrace()),
    *(SwfTrace(), PhillyRawTrace(), HeliosTrace(), PaiTrace()),
    *(AcmeTrace(), OpenbTrace(), SpotTrace()),
)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_every_reader_states_the_source_and_the_gpus_of_its_trace(reader):
    assert reader.location.startswith("traces/")
    assert "." in reader.source
    assert reader.gpu_type in ("P100", "V100", "A100", "A800", "T4")
    assert reader.gpus_per_node == 8
    assert reader.read.__doc__


def test_names_of_readers_are_distinct():
    assert len({reader.name for reader in READERS}) == len(READERS)
