"""Every YAML file under conf/ composes: alone, or as a choice in a script's configuration that has its group."""

from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf

CONF = Path(__file__).resolve().parents[2] / "conf"


def script_configs(conf):
    """Names of the scripts' configurations, which are the top-level files."""
    return sorted(path.stem for path in conf.glob("*.yaml"))


def choices(conf):
    """(group, name) of every file in a group; groups can be nested."""
    files = sorted(path for path in conf.rglob("*.yaml") if path.parent != conf)
    return [(path.parent.relative_to(conf).as_posix(), path.stem) for path in files]


def groups(conf, script):
    """Groups in the defaults list of a script's configuration."""
    content = yaml.safe_load((conf / f"{script}.yaml").read_text()) or {}
    for entry in content.get("defaults", []):
        if isinstance(entry, dict):
            key = str(next(iter(entry)))
            yield key.rpartition(" ")[2].partition("@")[0].strip("/")


def compose_choice(conf, group, name):
    """Compose one file of a group with every script's configuration that knows the group; by itself if none does.

    A choice that suits one script (an experiment of training) need not suit another, so one success is enough.

    Raises:
        HydraException: from the last configuration, if the file composes with none.
    """
    scripts = [script for script in script_configs(conf) if group in groups(conf, script)]
    if not scripts:
        return compose(config_name=f"{group}/{name}")
    failures = []
    for script in scripts:
        try:
            return compose(config_name=script, overrides=[f"{group}={name}"])
        except HydraException as failure:
            failures.append(failure)
    raise failures[-1]


@pytest.fixture
def conf():
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        yield CONF


@pytest.mark.parametrize("script", script_configs(CONF))
def test_a_script_configuration_composes(script, conf):
    assert compose(config_name=script) is not None


@pytest.mark.parametrize(("group", "name"), choices(CONF))
def test_a_choice_composes(group, name, conf):
    assert compose_choice(conf, group, name) is not None


@pytest.fixture
def small(tmp_path):
    files = {
        "train.yaml": "defaults:\n  - _self_\n  - cluster: small\n  - optional experiment: null\nseed: 0\n",
        "evaluate.yaml": "defaults:\n  - cluster: small\n",
        "cluster/small.yaml": "nodes: 1\n",
        "cluster/large.yaml": "nodes: 9\n",
        "cluster/broken.yaml": "defaults:\n  - absent\nnodes: 9\n",
        "experiment/demo.yaml": "# @package _global_\ndefaults:\n  - override /cluster: large\nseed: 1\n",
        "loose/alone.yaml": "nodes: 3\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    with initialize_config_dir(version_base="1.3", config_dir=str(tmp_path)):
        yield tmp_path


def test_files_and_groups_are_found(small):
    assert script_configs(small) == ["evaluate", "train"]
    assert list(groups(small, "train")) == ["cluster", "experiment"]
    assert ("experiment", "demo") in choices(small)
    assert ("cluster", "broken") in choices(small)


def test_a_choice_is_placed_under_its_group(small):
    assert compose_choice(small, "cluster", "large").cluster.nodes == 9
    assert compose_choice(small, "loose", "alone").loose.nodes == 3


def test_an_experiment_overrides_other_groups(small):
    config = compose_choice(small, "experiment", "demo")
    assert (config.cluster.nodes, config.seed) == (9, 1)


def test_a_file_that_does_not_compose_is_seen(small):
    with pytest.raises(HydraException, match="absent"):
        compose_choice(small, "cluster", "broken")


def inherited(path):
    """Return the values that a file gets from the files of its own group in its defaults list."""
    content = yaml.safe_load(path.read_text()) or {}
    names = [entry.partition("@")[0] for entry in content.get("defaults", []) if isinstance(entry, str)]
    parents = [path.with_name(f"{name}.yaml") for name in names if name != "_self_"]
    layers = [layer for parent in parents for layer in (inherited(parent), own_values(parent))]
    return OmegaConf.to_container(OmegaConf.merge({}, *layers))


def own_values(path):
    """Return the values that a file states itself; of one with the package `_global_`, those of its own group."""
    content = yaml.safe_load(path.read_text()) or {}
    own = {key: value for key, value in content.items() if key != "defaults"}
    names = [entry for entry in content.get("defaults", []) if isinstance(entry, str)]
    return own.get(path.parent.name, {}) if any("@" in name for name in names) else own


def restated(before, own, key=""):
    """Keys that are given the value that they have already."""
    for name, value in own.items():
        if isinstance(value, dict) and isinstance(before.get(name), dict):
            yield from restated(before[name], value, f"{key}{name}.")
        elif name in before and before[name] == value:
            yield f"{key}{name}"


@pytest.mark.parametrize(("group", "name"), choices(CONF))
def test_no_file_restates_what_it_inherits(group, name):
    path = CONF / group / f"{name}.yaml"
    assert list(restated(inherited(path), own_values(path))) == []


def test_a_restated_value_is_seen(tmp_path):
    (tmp_path / "a.yaml").write_text("x: 1\ny: {z: 2, w: 3}\n")
    (tmp_path / "b.yaml").write_text("defaults: [a, _self_]\ny: {z: 2, w: 4}\n")
    (tmp_path / "c.yaml").write_text("defaults: [b, _self_]\nx: 1\ny: {w: 3}\n")
    found = {
        name: list(restated(inherited(path), own_values(path))) for path in tmp_path.iterdir() for name in [path.stem]
    }
    assert found == {"a": [], "b": ["y.z"], "c": ["x"]}
