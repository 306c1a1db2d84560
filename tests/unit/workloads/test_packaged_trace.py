"""The trace that comes with the project is read where MURMURATION_DATA has none."""

from envs.workloads.readers import MuriTrace
from envs.workloads.readers.reader import locate


def test_one_trace_needs_no_download(monkeypatch, tmp_path):
    monkeypatch.delenv("MURMURATION_DATA", raising=False)
    jobs, _ = MuriTrace().read(locate(MuriTrace()))
    assert len(jobs) == 992
    monkeypatch.setenv("MURMURATION_DATA", str(tmp_path))
    assert not locate(MuriTrace()).is_relative_to(tmp_path)
    own = tmp_path / MuriTrace().location
    own.parent.mkdir(parents=True)
    own.write_bytes(locate(MuriTrace()).read_bytes())
    assert locate(MuriTrace()) == own
