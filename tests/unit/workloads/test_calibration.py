"""Named job streams, and how close those of traces are to their traces."""

import numpy as np
import pytest

from envs.types import TraceError
from envs.workloads import STREAMS, Arrivals, JobStream, LogNormal
from envs.workloads.calibration import stream
from envs.workloads.readers import ItpTrace, PhillyTrace, TraceReader

SECOND = LogNormal(100.0, 1.0)


def test_shares_sum_to_one_and_sources_are_stated():
    for name, found in STREAMS.items():
        assert stream(name) is found
        assert sum(found.sizes.values()) == pytest.approx(1.0, abs=2e-4)
        assert found.source
    with pytest.raises(TraceError, match=r"workload\.stream is 'helios'"):
        stream("helios")


def test_durations_apply_from_their_size_upwards():
    four = LogNormal(900.0, 1.0)
    made = JobStream({1: 1.0, 2: 1.0, 8: 1.0}, {1: SECOND, 4: four}, Arrivals(), "test")
    assert [made.durations_of(size) for size in (1, 2, 4, 8)] == [SECOND, SECOND, four, four]


@pytest.mark.parametrize("sizes", [{}, {0: 1.0}, {1: -1.0}, {1: 0.0}])
def test_impossible_sizes_are_refused(sizes):
    with pytest.raises(TraceError, match="job sizes are"):
        JobStream(sizes, {1: SECOND}, Arrivals(), "test")


@pytest.mark.parametrize("durations", [{}, {2: SECOND}])
def test_every_size_needs_a_duration(durations):
    with pytest.raises(TraceError, match="durations begin at"):
        JobStream({1: 1.0}, durations, Arrivals(), "test")


# (reader, days in which the trace is dense)
TRACES: dict[str, tuple[TraceReader, tuple[float, float]]] = {
    "philly": (PhillyTrace(), (20.0, 100.0)),
    "itp": (ItpTrace(), (0.0, 60.0)),
}


@pytest.fixture(scope="module", params=TRACES)
def pair(request, real_data):
    """(frame of the real trace, sizes and durations drawn from its stream, the stream, dense days)."""
    reader, dense = TRACES[request.param]
    frame, _ = reader.read(real_data(reader.location))
    made, rng, count = STREAMS[request.param], np.random.default_rng(0), 200_000
    sizes = rng.choice(list(made.sizes), size=count, p=np.array(list(made.sizes.values())) / sum(made.sizes.values()))
    duration = np.empty(count)
    for size in made.sizes:
        rows = sizes == size
        duration[rows] = made.durations_of(size).sample(rng, int(rows.sum()))
    return frame, sizes, duration, made, dense


def test_sizes_match_the_trace(pair):
    frame, sizes, *_ = pair
    for size, share in frame["num_gpus"].value_counts(normalize=True).items():
        assert (sizes == size).mean() == pytest.approx(share, abs=0.002)


def test_quantiles_of_durations_match_the_trace(pair):
    """Compare all jobs together, although the tables are by size."""
    frame, _, duration, *_ = pair
    levels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]
    np.testing.assert_allclose(np.quantile(duration, levels), frame["duration"].quantile(levels), rtol=0.15)


def test_moments_of_durations_match_the_trace(pair):
    frame, sizes, duration, *_ = pair
    real = frame["duration"]
    assert duration.mean() == pytest.approx(real.mean(), rel=0.12)
    assert duration.std() / duration.mean() == pytest.approx(real.std() / real.mean(), rel=0.12)
    assert np.log(duration).std() == pytest.approx(np.log(real).std(), rel=0.05)
    assert (sizes * duration).mean() == pytest.approx((frame["num_gpus"] * real).mean(), rel=0.12)


def test_arrivals_match_the_trace(pair):
    frame, *_, made, (first, last) = pair
    submit = frame["submit_time"].to_numpy()
    gaps = np.diff(submit[(submit >= first * 86400) & (submit < last * 86400)])
    drawn = np.diff(made.arrivals.sample(np.random.default_rng(1), 200_000, float(gaps.mean())))
    assert drawn.mean() == pytest.approx(gaps.mean(), rel=0.05)
    assert (drawn == 0).mean() == pytest.approx((gaps == 0).mean(), abs=0.005)
    assert drawn.std() / drawn.mean() == pytest.approx(gaps.std() / gaps.mean(), rel=0.1)


def test_the_daily_peak_matches_the_trace(pair):
    frame, *_, made, _ = pair
    by_hour = np.bincount((frame["submit_time"] // 3600 % 24).astype(int), minlength=24)
    daily = np.asarray(made.arrivals.daily)
    # ITP's clock begins at an unknown hour, so compare the sizes of peak and trough and not their times.
    assert daily.max() / daily.mean() == pytest.approx(by_hour.max() / by_hour.mean(), rel=0.05)
    assert daily.min() / daily.mean() == pytest.approx(by_hour.min() / by_hour.mean(), rel=0.05)
