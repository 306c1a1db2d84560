"""Requirements on every predictor of `conf/predictor`, and on schedulers that are told what they predict."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.scheduling import WorkPredictor
from envs.simulation import Information, Setup, Simulator, run_episode
from envs.simulation.reference import ReferenceSimulator
from envs.types import NUM_OUTCOMES, JobFacts
from murmuration.config.choices import CONF
from murmuration.config.tables import read_choices
from tests.conformance.audit import check_run
from tests.conformance.test_schedulers import SCHEDULERS
from tests.conformance.worlds import HETEROGENEOUS, Curved, scenarios, workloads

NAMES = list(read_choices(CONF / "predictor"))
TEXTS = st.sampled_from(["", "a", "b"])
ROWS = st.tuples(st.floats(0, 1e5), st.integers(1, 4), TEXTS, TEXTS, TEXTS, TEXTS, st.floats(1e-3, 1e6))


@cache
def build(name: str) -> WorkPredictor:
    """Build the predictor of a YAML file as the scripts do."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        predictor: WorkPredictor = instantiate(compose(overrides=[f"+predictor={name}"]).predictor)
    return predictor


def facts(rows):
    """Facts about jobs from rows of values."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 7
    dtypes = (np.float64, np.int64, *[np.str_] * 4, np.float64)
    return JobFacts._make(np.array(column, dtype) for column, dtype in zip(columns, dtypes, strict=True))


@cache
def train(name: str) -> WorkPredictor:
    """Build a predictor and train it on 150 jobs of two users."""
    rng = np.random.default_rng(0)
    predictor = deepcopy(build(name))
    users = ["first", "second"]
    rows = [(60.0 * i, 1 + i % 4, "a", "", users[i % 2], "", float(np.exp(rng.normal(3, 1)))) for i in range(150)]
    predictor.train([facts(rows)])
    return predictor


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(
    past=st.lists(st.lists(ROWS, max_size=8), max_size=3),
    asked=st.lists(ROWS, min_size=1, max_size=6),
    ended=st.lists(ROWS, max_size=6),
)
def test_run_times_ascend_and_do_not_depend_on_the_order_of_jobs(name, past, asked, ended):
    """Whatever has ended, and with little or no history."""
    predictor = deepcopy(build(name))
    predictor.train([facts(rows) for rows in past])
    check(predictor, asked, ended)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3)
@given(past=st.lists(ROWS, min_size=1, max_size=8), asked=st.lists(ROWS, min_size=1, max_size=6))
def test_a_long_history_may_be_of_equal_jobs_or_tell_nothing_of_some_attributes(name, past, asked):
    """200 jobs: the same few again and again, submitted together, so that none has ended before the others."""
    predictor = deepcopy(build(name))
    predictor.train([facts([(0.0, *row[1:]) for row in past * 200])])
    check(predictor, asked, past)


def check(predictor, asked, ended):
    """Assert that predictions ascend, and depend on neither an earlier question nor the order of jobs."""
    found = predictor.predict(facts(asked), facts(ended))
    assert found.shape == (len(asked), NUM_OUTCOMES)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert (np.diff(found, axis=1) >= 0).all()
    np.testing.assert_array_equal(predictor.predict(facts(asked), facts(ended)), found)
    if len({row[0] for row in asked + ended}) == len(asked + ended):
        np.testing.assert_allclose(predictor.predict(facts(asked[::-1]), facts(ended[::-1]))[::-1], found, rtol=1e-9)


@pytest.mark.parametrize("name", ["srtf", "optimus", "afs", "starling", "themis"])
@settings(max_examples=3)
@given(data=st.data(), scenario=scenarios, seed=st.integers(0, 3))
def test_both_engines_show_the_same_predictions(name, data, scenario, seed):
    """All jobs end with exactly their work, and both engines leave the same log."""
    workload = data.draw(workloads(HETEROGENEOUS, most_jobs=6))
    users = tuple(data.draw(st.sampled_from(["first", "second"])) for _ in range(len(workload)))
    told: dict[str, Any] = {} if data.draw(st.booleans()) else {"throughput": "observed"}
    batch_sizes = "usual" if told else scenario.batch_sizes
    scenario = replace(scenario, information=Information("predicted", **told), batch_sizes=batch_sizes)
    predictor = train(data.draw(st.sampled_from(NAMES)))
    setup = Setup(HETEROGENEOUS, Curved(), scenario, predictor=predictor)
    result = run_episode(SCHEDULERS[name], Simulator(replace(workload, users=users), setup, seed))
    check_run(result, Curved(), scenario)
    assert result.finished.all()
    again = ReferenceSimulator(replace(workload, users=users), setup, seed)
    assert run_episode(SCHEDULERS[name], again).log == result.log
