"""Workloads for which there is no memory are refused before they are drawn."""

import numpy as np
import pytest

from envs.types import TraceError
from envs.workloads import SyntheticSource, memory
from envs.workloads.memory import free_memory, require_memory
from murmuration.config.errors import explain_error

GB = 10**9


def source(cluster, ideal, **options):
    return SyntheticSource(cluster, ideal, max_gpus=8, **options)


def test_three_million_jobs_are_refused_where_there_is_no_memory(cluster, ideal, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0 * GB)
    large = source(cluster, ideal, num_jobs=3_000_000)
    with pytest.raises(TraceError) as error:
        large.evaluation()
    assert str(error.value) == (
        "workload.num_jobs is 3,000,000; 5 workloads of so many jobs and the episode of one need about 13.5 GB of "
        "memory, and 2 GB are free; set it to at most 444,444, or lower workload.num_evaluation"
    )
    with pytest.raises(TraceError, match="1 workloads of so many jobs and the episode of one need about 6.3 GB"):
        large.episode(np.random.default_rng(0))
    with pytest.raises(TraceError, match="100,000 workloads"):
        source(cluster, ideal, num_evaluation=100_000).evaluation()


def test_the_limit_that_the_message_gives_is_allowed(monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: 2.0 * GB)
    require_memory(444_444, 5)
    with pytest.raises(TraceError):
        require_memory(444_445, 5)


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Files as Linux has them: 8 GB are free, and there is no other limit."""
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable: 7812500 kB\n")
    (tmp_path / "statm").write_text("250000 1 1\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_STATM", tmp_path / "statm")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    return tmp_path


def test_free_memory_of_the_machine(system):
    assert free_memory() == 8 * GB
    (system / "meminfo").unlink()
    assert free_memory() == float("inf")


def test_the_limit_of_a_container_counts_without_files_at_hand(system):
    (system / "memory.max").write_text(f"{4 * GB}\n")
    (system / "memory.current").write_text(f"{3 * GB}\n")
    assert free_memory() == GB
    (system / "memory.stat").write_text(f"anon {GB}\nfile {2 * GB}\nkernel 5\n")
    assert free_memory() == 3 * GB
    (system / "memory.max").write_text("max\n")
    assert free_memory() == 8 * GB


def test_the_limit_of_the_shell_counts(system, monkeypatch):
    import resource

    page = 4096
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 * GB, resource.RLIM_INFINITY))
    monkeypatch.setattr("os.sysconf", lambda _: page)
    assert free_memory() == 2 * GB - 250_000 * page


def test_an_allocation_that_fails_is_one_line():
    with pytest.raises(MemoryError) as error:
        np.zeros(2**50)
    said = explain_error(error.value)
    assert said is not None
    assert said.startswith("there is not enough memory (Unable to allocate")
    assert said.isprintable()
