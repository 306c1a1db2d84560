"""Entries of `tasks=`: the names of tasks, and options that modify them."""

import pytest

from envs.workloads import SyntheticSource
from murmuration.config.arguments import compose_options
from murmuration.config.choices import open_configs
from murmuration.config.describe import describe_further
from murmuration.config.errors import ChoiceError
from murmuration.config.inputs import build_inputs


def test_options_behind_the_name_modify_the_task():
    with open_configs():
        name, described = describe_further("shared-16")
        modified_name, changed = describe_further("shared-16  workload.load=0.6 workload.num_jobs=50")
    plain, modified = build_inputs(described), build_inputs(changed)
    assert (name, modified_name) == ("shared-16", "shared-16-modified")
    assert isinstance(plain.source, SyntheticSource)
    assert isinstance(modified.source, SyntheticSource)
    assert (plain.source.load, modified.source.load) == (0.9, 0.6)
    assert modified.source.num_jobs == 50
    assert plain.setup.cluster.name == modified.setup.cluster.name


@pytest.mark.parametrize("entry", ["", "  ", 3, None])
def test_an_entry_that_names_no_task_is_refused(entry):
    with open_configs(), pytest.raises(ChoiceError, match="must be a task and options of it"):
        describe_further(entry)


def test_a_task_or_an_option_that_does_not_exist_is_refused():
    with open_configs():
        with pytest.raises(ChoiceError, match="task=rigid-63: no such task, did you mean rigid-64"):
            describe_further("rigid-63")
        with pytest.raises(ChoiceError, match="lode"):
            build_inputs(describe_further("rigid-64 workload.lode=1")[1])


def test_the_worlds_of_the_mix_can_be_built():
    with open_configs():
        cfg = compose_options("train", ["experiment=bidding_mix"], "[]")
        found = [describe_further(entry) for entry in cfg.tasks]
    assert [name for name, _ in found] == ["shared-16-modified", "rigid-64-modified", "full-64-modified"]
    rigid, full = (build_inputs(problem) for _, problem in found[1:])
    assert isinstance(rigid.source, SyntheticSource)
    assert rigid.source.elastic == 1.0
    assert {node.gpu_type for node in full.setup.cluster.nodes} == {"V100", "P100", "K80"}
