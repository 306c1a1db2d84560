"""Named mixes: the classes follow from measured needs, the proportions are as stated."""

import pytest

from envs.cluster import build_cluster
from envs.performance import default_model, model_profile, sensitivity_of
from envs.performance.cpu_memory import INSENSITIVE, PROPORTIONAL_CPUS, PROPORTIONAL_MEMORY
from envs.types import Configuration, TraceError
from envs.workloads import MIXES, SyntheticSource
from envs.workloads.calibration import STREAMS
from envs.workloads.mixes import CLASSES, DOMAINS, LANGUAGE_2026

TEN_GIGABITS = 1.25  # GB/s


def link_traffic(model: str) -> float:
    """GB/s that a job would send over the link of each of two nodes with 4 V100 if it ran as fast as on one node."""
    profile = model_profile(model)
    throughput = default_model().throughput(model, Configuration("V100", 8))
    return 2 * profile.gradient_gb / profile.usual_batch(8) * throughput / 2


def class_of(model: str) -> str:
    """The class by the rules in the comments of `CLASSES`."""
    cores, memory = sensitivity_of(model).saturating
    if memory > PROPORTIONAL_MEMORY:
        return "memory_hungry"
    if cores >= PROPORTIONAL_CPUS:
        return "cpu_hungry"
    return "network_heavy" if link_traffic(model) > TEN_GIGABITS else "indifferent"


@pytest.mark.parametrize("model", [model for models in CLASSES.values() for model in models])
def test_every_model_is_in_the_class_of_its_needs(model):
    assert model in CLASSES[class_of(model)]


def test_all_models_that_synergy_measured_are_among_the_resources():
    measured = {model for models in DOMAINS.values() for model in models} | {"bert", "vae"}
    assert len(measured) == 12
    assert measured <= set(MIXES["resources"].models)
    assert {"transformer", "lm", "gnmt", "bert", "vae"} == set(INSENSITIVE)


def test_proportions():
    for name, groups, shares in (
        ("resources", CLASSES, {"cpu_hungry": 25, "memory_hungry": 25, "network_heavy": 25, "indifferent": 25}),
        ("synergy", DOMAINS, {"image": 20, "language": 70, "speech": 10}),
    ):
        weights = dict(zip(MIXES[name].models, MIXES[name].weights, strict=True))
        for group, share in shares.items():
            assert sum(weights[model] for model in groups[group]) == pytest.approx(share)
            assert len({weights[model] for model in groups[group]}) == 1
        assert sum(weights.values()) == pytest.approx(100)


def test_every_size_of_the_stream_of_language_models_has_jobs_that_run_on_h100():
    """And every model is of jobs of some size, on its least and its most GPUs."""
    cluster = build_cluster("nodes", [{"gpu_type": "H100", "num_nodes": 32, "num_gpus": 8}])
    source = SyntheticSource(
        cluster, default_model(), mix="llm_2026", stream="llm", num_jobs=20_000, num_evaluation=1, elastic=1.0
    )
    (workload,) = source.evaluation()
    sizes = {
        model: set(workload.jobs["num_gpus"][workload.jobs["model"] == index].tolist())
        for index, model in enumerate(workload.models)
    }
    assert set().union(*sizes.values()) == set(STREAMS["llm"].sizes)
    for model, (least, most, _) in LANGUAGE_2026.items():
        assert (min(sizes[model]), max(sizes[model])) == (least, most)


def test_a_source_takes_a_mix_by_name():
    cluster = build_cluster("one_node", [{"gpu_type": "V100", "num_nodes": 2, "num_gpus": 8}])
    source = SyntheticSource(cluster, default_model(), mix="resources", num_jobs=2000, num_evaluation=1)
    assert set(source.models) == set(MIXES["resources"].models)
    (workload,) = source.evaluation()
    drawn = [workload.models[model] for model in workload.jobs["model"]]
    for models in CLASSES.values():
        assert sum(model in models for model in drawn) / len(drawn) == pytest.approx(0.25, abs=0.05)
    with pytest.raises(TraceError, match="workload.mix is 'philly'; choose one of gavel, synergy, resources"):
        SyntheticSource(cluster, default_model(), mix="philly")
