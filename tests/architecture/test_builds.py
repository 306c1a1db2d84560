"""Every choice under conf/ builds: its `_target_` accepts its options, and the object has the type of its group."""

import sys
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
sys.path.insert(0, str(ROOT / "scripts"))

from baselines import Fifo, Kueue  # noqa: E402
from envs.scheduling import Scheduler  # noqa: E402
from murmuration.config.building import build_object  # noqa: E402
from murmuration.config.choices import list_choices  # noqa: E402
from murmuration.config.describe import as_component  # noqa: E402

BUILT_BARE = (
    *("agent", "cluster", "contention", "env", "failures", "market", "performance", "reconfiguration"),
    *("estimator", "predictor", "scenario", "scheduler", "trainer"),
)


@cache
def choices_of(group):
    """All choices of a group by name, composed at once; but each trainer alone, since it refers to itself by name."""
    names = list_choices(group)
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        if group == "trainer":
            return {name: compose(overrides=[f"+trainer={name}"]).trainer for name in names}
        return compose(overrides=[f"+{group}@every.{name}={name}" for name in names]).every


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in BUILT_BARE for name in list_choices(group)])
def test_a_choice_builds(group, name):
    made = build_object(as_component(choices_of(group)[name]))
    assert made is not None
    assert "Config" not in type(made).__name__  # a component, not a piece of configuration


@pytest.mark.parametrize("name", sorted({*list_choices("network")} - {"own"}))
def test_a_network_sets_the_bandwidth_between_all_nodes(name):
    """10 Gb/s are 1.25 GB/s."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = compose(config_name="compare", overrides=["cluster=three_types_64", f"network={name}"])
    cluster = build_object(as_component(cfg.cluster))
    gbps = float(name.removesuffix("g"))
    assert {node.inter_node_bandwidth for node in cluster.nodes} == {gbps / 8}
    assert cluster.name == f"three_types_64, {gbps:g} Gb/s"


def test_the_clusters_own_network_is_that_without_a_choice():
    """Also where the task has set another one."""
    built = []
    for overrides in (["task=full-64", "network=own"], ["task=none", "cluster=three_types_64"]):
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            built.append(build_object(as_component(compose(config_name="compare", overrides=overrides).cluster)))
    assert built[0] == built[1]


@pytest.mark.parametrize("name", list_choices("workload"))
def test_a_workload_builds_without_its_file(name):
    workload = choices_of("workload")[name]
    drawn = workload.get("curves") == "by_job"
    cluster = build_object(as_component(choices_of("cluster")["homogeneous_64"]))
    performance = build_object(as_component(choices_of("performance")["drawn" if drawn else "default"]))
    source = build_object(as_component(workload), cluster=cluster, performance=performance)
    assert source.num_jobs >= 2
    assert source.name


@pytest.mark.parametrize("name", list_choices("experiment"))
def test_an_experiment_builds_a_trainer_setting(name):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = compose(config_name="train", overrides=[f"experiment={name}"])
    assert build_object(as_component(cfg.trainer)).iterations >= 0


@pytest.mark.parametrize("name", list_choices("tuning"))
def test_a_tuning_builds_its_scheduler_at_both_ends_of_every_range(name):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        tuning = compose(config_name="tune", overrides=[f"tuning={name}"]).tuning
    ranges = {str(key): build_object(as_component(node)) for key, node in tuning.parameters.items()}
    assert ranges
    for end in (0.0, 1.0):
        changes = {key: parameter.value(end) for key, parameter in ranges.items()}
        assert isinstance(build_object(as_component(tuning.scheduler), changes=changes), Scheduler)
    assert tuning.reference in list_choices("scheduler")


def test_queueing_stands_before_a_scheduler():
    made = build_object(as_component(choices_of("queueing")["kueue"]), Scheduler, inner=Fifo())
    assert isinstance(made, Kueue)
    assert choices_of("queueing")["none"].queueing is None


def test_no_group_is_left_out():
    """Tasks are built by tests/unit/records/test_tasks.py, worlds by tests/unit/episodes/test_worlds.py."""
    groups = {path.name for path in CONF.iterdir() if path.is_dir()}
    assert groups == {*BUILT_BARE, "network", "task", "workload", "experiment", "queueing", "tuning", "world"}
