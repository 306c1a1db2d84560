"""The configuration of each script composes, and no file of conf/ restates what it inherits (see also test_builds)."""

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from murmuration.config.choices import CONF  # registers the settings of commands


def script_configs(conf):
    """Names of the scripts' configurations, which are the top-level files."""
    return sorted(path.stem for path in conf.glob("*.yaml"))


def choices(conf):
    """(group, name) of every file in a group; groups can be nested."""
    files = sorted(path for path in conf.rglob("*.yaml") if path.parent != conf)
    return [(path.parent.relative_to(conf).as_posix(), path.stem) for path in files]


@pytest.fixture
def conf():
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        yield CONF


@pytest.mark.parametrize("script", script_configs(CONF))
def test_a_script_configuration_composes(script, conf):
    assert compose(config_name=script) is not None


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
