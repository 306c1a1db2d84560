"""Every choice under conf/ builds: its `_target_` takes its options, and the object is what its group promises."""

import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
sys.path.insert(0, str(ROOT / "scripts"))

from envs.scheduling import Scheduler  # noqa: E402
from launch.build import build  # noqa: E402
from launch.names import choices  # noqa: E402

BUILT_BARE = (
    *("agent", "cluster", "contention", "env", "failures", "performance", "reconfiguration"),
    *("scenario", "scheduler", "trainer"),
)


def composed(group, name, *overrides):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose(config_name=f"{group}/{name}", overrides=list(overrides))


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in BUILT_BARE for name in choices(group)])
def test_a_choice_builds(group, name):
    made = build(composed(group, name)[group])
    assert made is not None
    assert "Config" not in type(made).__name__  # a component, not a piece of configuration


@pytest.mark.parametrize("name", choices("workload"))
def test_a_workload_builds_without_its_file(name):
    cluster = build(composed("cluster", "homogeneous_64").cluster)
    performance = build(composed("performance", "default").performance)
    source = build(composed("workload", name).workload, cluster=cluster, performance=performance)
    assert source.num_jobs >= 2
    assert source.name


@pytest.mark.parametrize("name", choices("experiment"))
def test_an_experiment_builds_a_trainer_setting(name):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        cfg = compose(config_name="train", overrides=[f"experiment={name}"])
    assert build(cfg.trainer).iterations >= 0


@pytest.mark.parametrize("name", choices("tuning"))
def test_a_tuning_builds_its_scheduler_at_both_ends_of_every_range(name):
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        tuning = compose(config_name="tune", overrides=[f"tuning={name}"]).tuning
    ranges = {str(key): build(node) for key, node in tuning.parameters.items()}
    assert ranges
    for end in (0.0, 1.0):
        changes = {key: parameter.value(end) for key, parameter in ranges.items()}
        assert isinstance(build(tuning.scheduler, changes=changes), Scheduler)
    assert tuning.reference in choices("scheduler")


def test_no_group_is_left_out():
    groups = {path.name for path in CONF.iterdir() if path.is_dir()}
    assert groups == {*BUILT_BARE, "workload", "experiment", "tuning"}
