"""Changed answers of Slurm, recordings, notes and journals end in no traceback and hide no honest job."""

import pytest

from deployment.slurm.parsing import read_tasks
from murmuration.config.errors import RunFailedError
from murmuration.soak.fuzzing import readers
from murmuration.soak.fuzzing.readers import fuzz_readers
from murmuration.soak.fuzzing.sacct import fuzz_sacct


def test_changed_inputs_of_the_bridges_readers_are_read_or_refused_in_one_line():
    count = fuzz_readers(700, seed=64)
    assert count.inputs == 700
    assert 600 < count.changed < 700
    assert 50 < count.refused < 300  # damaged as a whole


def test_changed_output_of_sacct_is_read_or_refused_in_one_line():
    count = fuzz_sacct(1000, seed=69)
    assert count.inputs == 1000
    assert 900 < count.changed < 1000
    assert 100 < count.refused < 600


def test_the_fuzz_of_sacct_finds_a_reader_that_raises(monkeypatch):
    def raise_it(*_args, **_options):
        raise KeyError("State")

    monkeypatch.setattr("envs.workloads.readers.slurm.read_sacct", raise_it)
    with pytest.raises(RunFailedError, match="sacct: input 0: KeyError"):
        fuzz_sacct(1, seed=69)


def hide(text, user):
    return read_tasks(text, user)[1:]


def refuse(text, user):
    if "-1" in text:
        raise KeyError(text)
    return read_tasks(text, user)


@pytest.mark.parametrize(("faulty", "why"), [(hide, "not read beside damaged ones"), (refuse, "KeyError")])
def test_the_fuzz_finds_a_reader_that_hides_a_task_or_raises(monkeypatch, faulty, why):
    asked = []

    def read(text, user):  # the first call for an input reads honest jobs alone
        asked.append(text)
        return read_tasks(text, user) if len(asked) % 2 else faulty(text, user)

    monkeypatch.setattr(readers, "read_tasks", read)
    with pytest.raises(RunFailedError, match=f"input [0-9]+: .*{why}"):
        fuzz_readers(700, seed=64)
