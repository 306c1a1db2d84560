"""Tables of choices: each entry is composed, read and described as the file of its own that it stands for."""

import pytest
from hydra import compose
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from murmuration.config.choices import CONF, list_choices, open_configs, register_tables
from murmuration.config.tables import read_choices, read_table, split_table

TABLE = """# About the table.

# @package cluster
# One sentence.
10g:
  network_gbps: 10  # of each node
# Another.
own-one:
  inner:
    _target_: a.B
"""


@pytest.fixture
def store(monkeypatch):
    kept = ConfigStore.instance().repo
    monkeypatch.setattr(ConfigStore.instance(), "repo", dict(kept))
    return ConfigStore.instance()


def test_an_entry_is_the_text_of_a_file():
    assert split_table(TABLE) == {
        "10g": "# @package cluster\n# One sentence.\nnetwork_gbps: 10  # of each node\n",
        "own-one": "# Another.\ninner:\n  _target_: a.B\n",
    }


def test_entries_stand_beside_files_and_are_found_by_hydra(tmp_path, store):
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "choices.yml").write_text(TABLE)
    (tmp_path / "made_up" / "file.yaml").write_text("x: 1\n")
    assert list(read_choices(tmp_path / "made_up")) == ["10g", "file", "own-one"]
    register_tables(tmp_path)
    with open_configs():
        assert list_choices("made_up") == ["10g", "own-one"]
        assert compose(overrides=["+made_up=own-one"]) == {"made_up": {"inner": {"_target_": "a.B"}}}
        assert compose(overrides=["+made_up=10g"]) == {"cluster": {"network_gbps": 10}}


@pytest.mark.parametrize("group", [path.parent.name for path in sorted(CONF.glob("*/choices.yml"))])
def test_what_is_registered_is_what_omegaconf_reads_from_the_text(group):
    """Two parsers are used, which differ in numbers such as 1e5; and entries have no defaults lists."""
    registered = ConfigStore.instance().repo[group]
    for name, text in read_table(CONF / group).items():
        assert registered[f"{name}.yaml"].node == OmegaConf.create(text)
        assert "defaults" not in registered[f"{name}.yaml"].node
        assert not (CONF / group / f"{name}.yaml").exists()
