"""Changed answers of Slurm, recordings, notes and journals end in no traceback and hide no honest job."""

import pytest

from deployment.slurm.parsing import read_tasks
from murmuration.config.errors import RunFailedError
from murmuration.soak.fuzzing import readers
from murmuration.soak.fuzzing.readers import fuzz_readers


def test_changed_inputs_of_the_bridges_readers_are_read_or_refused_in_one_line():
    count = fuzz_readers(700, seed=64)
    assert count.inputs == 700
    assert 600 < count.changed < 700
    assert 50 < count.refused < 300  # damaged as a whole


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
