"""Beliefs about the fraction of its throughput that a job keeps on GPUs that it shares with another one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from baselines import Packing, Starling
from envs.options import OptionBatch
from envs.simulation import Information, Simulator, run_episode
from envs.simulation.known.pair_beliefs import PairBeliefs, PairPrior
from envs.simulation.reference import ReferenceSimulator
from envs.types import MurmurationError, Placement
from tests.unit.simulation.test_beliefs import JOBS, PAIRS, begun, place

ENGINES = pytest.mark.parametrize("engine", [Simulator, ReferenceSimulator])


def drawn_factors(prior: PairPrior, num_models: int, seed: int = 0) -> np.ndarray:
    """Factors of pairs that follow a prior; none is 0, and some may be above 1."""
    rng = np.random.default_rng(seed)
    effects = np.array([[prior.loss, prior.both], [prior.both, prior.harm]])
    loss, harm = rng.multivariate_normal(np.zeros(2), effects, num_models).T
    together = rng.normal(0.0, np.sqrt(prior.together), (num_models, num_models))
    rest = rng.normal(0.0, np.sqrt(prior.rest), (len(prior.mean), num_models, num_models))
    factors: np.ndarray = np.exp(prior.mean[:, None, None] + loss[:, None] + harm + together + rest)
    return factors


def test_the_prior_finds_the_variances_with_which_factors_were_drawn():
    wanted = PairPrior(np.array([-0.4, -0.5, -0.6]), 0.03, 0.05, 0.02, 0.01, 0.008)
    found = PairPrior.of(drawn_factors(wanted, 400))
    assert found.mean == pytest.approx(wanted.mean, abs=0.05)
    for name in ("loss", "harm", "both", "together", "rest"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=0.2)


def test_pairs_that_do_not_fit_say_nothing():
    factors = drawn_factors(PairPrior(np.array([-0.5]), 0.03, 0.03, 0.0, 0.0, 0.01), 30)
    factors[0, 3, :] = factors[0, :, 3] = 0.0
    assert PairPrior.of(factors).mean == pytest.approx(PairPrior.of(np.delete(np.delete(factors, 3, 1), 3, 2)).mean)
    alone = PairPrior.of(np.full((1, 1, 1), 0.7))
    assert alone.mean == pytest.approx(np.log([0.7]))
    assert (alone.loss, alone.harm, alone.both) == (0.0, 0.0, 0.0)


def beliefs_about(factors: np.ndarray, prior: PairPrior, error: float = 0.0) -> PairBeliefs:
    table = replace(Simulator(JOBS, PAIRS, 0).table, models=tuple("abcdef"), pair_factors=factors)
    return PairBeliefs(prior, table, error)


def test_a_pair_that_was_seen_is_known_and_tells_of_the_same_models_beside_others():
    """A model that lost much beside one other is believed to lose more beside all; one that harmed, to harm more."""
    prior = PairPrior(np.array([-0.5, -0.6]), 0.03, 0.03, 0.02, 0.0, 0.005)
    factors = np.minimum(np.broadcast_to(np.exp(prior.mean)[:, None, None], (2, 6, 6)), 1.0).copy()
    factors[0, 1, 2] = 0.2
    beliefs = beliefs_about(factors, prior)
    before = beliefs.factors()
    assert before == pytest.approx(np.broadcast_to(np.exp(prior.mean)[:, None, None], (2, 6, 6)))
    beliefs.add(0, 1, 2, 0.0)
    after = beliefs.factors()
    assert after[0, 1, 2] == pytest.approx(0.2)
    assert (after[:, 1] < before[:, 1]).all(), "model 1 loses"
    assert (after[:, :, 2] < before[:, :, 2]).all(), "model 2 harms"
    assert after[:, 3:, 3:] == pytest.approx(before[:, 3:, 3:])


def test_what_is_believed_is_the_conditional_mean_of_the_gaussian():
    """Equal to the textbook formula over all pairs at once, also where a pair was seen several times."""
    prior = PairPrior(np.array([-0.7, -0.9]), 0.01, 0.02, 0.01, 0.004, 0.003)
    factors = drawn_factors(prior, 6, seed=4)
    beliefs = beliefs_about(factors, prior, error=0.1)
    rng = np.random.default_rng(5)
    seen = [tuple(int(rng.integers(high)) for high in (2, 6, 6)) for _ in range(20)]
    seen += seen[:7]
    errors = rng.normal(0.0, 0.1, len(seen))
    for (gpu_type, model, other), error in zip(seen, errors, strict=True):
        beliefs.add(gpu_type, model, other, error)
    pairs, every = np.array(seen), np.argwhere(np.ones((2, 6, 6), bool))
    shown = np.log(factors[tuple(pairs.T)]) + errors - prior.mean[pairs[:, 0]]
    covariance = prior.covariance(pairs, pairs) + 0.1**2 * np.eye(len(pairs))
    wanted = prior.mean[every[:, 0]] + prior.covariance(every, pairs) @ np.linalg.inv(covariance) @ shown
    assert np.log(beliefs.factors()).ravel() == pytest.approx(np.minimum(wanted, 0.0))


def paired(engine=Simulator, setup=PAIRS):
    """An engine at 200 s: job 1 was placed beside job 0 at 100 s and has made progress; both are on a V100 node."""
    simulator = begun(setup, engine)
    place(simulator, 0, {0: 2})
    assert simulator.advance()
    believed = simulator.view.pair_factors.copy()
    place(simulator, 1, Placement({0: 2}, beside=0))
    assert simulator.advance()
    return simulator, believed


@ENGINES
def test_a_pair_shows_what_it_keeps_once_both_have_made_progress(engine):
    """Without errors, what is believed of a pair that was seen is true; it is seen once."""
    information = replace(PAIRS.scenario.information, sample_error=0.0)
    setup = replace(PAIRS, scenario=replace(PAIRS.scenario, information=information))
    simulator, before = paired(engine, setup)
    after, truth = simulator.view.pair_factors, Simulator(JOBS, setup, 3).table.pair_factors
    on, (one, other) = int(setup.cluster.node_types[0]), JOBS.jobs["model"][:2].tolist()
    for pair in ((on, one, other), (on, other, one)):
        assert after[pair] == pytest.approx(truth[pair])
        assert abs(before[pair] - truth[pair]) > 0.01
    assert ((after > 0) == (truth > 0)).all()
    simulator.apply(simulator.view.allocation(keep_running=True))
    assert simulator.advance()
    assert np.array_equal(simulator.view.pair_factors, after)


def test_errors_of_pairs_are_the_same_for_all_schedulers():
    """They depend on the two jobs and the GPU type, not on when they are seen."""
    shown = []
    for late in (False, True):
        simulator, _ = paired()
        if late:
            place(simulator, 1, Placement({1: 2}))
            assert simulator.advance()
            place(simulator, 1, Placement({0: 2}, beside=0))
            assert simulator.advance()
        shown.append(simulator.beliefs._pairs._samples)
    assert shown[0] == shown[1]


@ENGINES
def test_a_copy_goes_on_at_what_is_believed_of_a_pair(engine):
    """The copy's first completion is when believed throughputs and factors say."""
    simulator, _ = paired(engine)
    view = simulator.view
    left = view.remaining_work(np.array([0, 1]))
    copy = view.snapshot()
    copy.apply(copy.view.allocation(keep_running=True))
    assert copy.advance()
    on, models = int(PAIRS.cluster.node_types[0]), JOBS.jobs["model"][:2]
    alone = np.array([view.throughputs(job)[on, 2] for job in (0, 1)])
    together = alone * [view.pair_factors[on, models[0], models[1]], view.pair_factors[on, models[1], models[0]]]
    first = (left / together).min()
    assert copy.view.time == pytest.approx(view.time + first)
    assert copy.view.remaining_work(np.array([0, 1])) == pytest.approx(left - first * together, abs=1e-6)


def test_schedulers_make_pairs_on_what_they_believe():
    """Were every pair believed to lose all but a hundredth, none would be made; here some are, and all jobs end."""
    made = run_episode(Packing(Starling()), Simulator(JOBS, PAIRS, 3))
    assert made.finished.all()
    assert (made.log.events["beside"] >= 0).any()
    simulator = Simulator(JOBS, PAIRS, 3)
    assert simulator.beliefs is not None
    pairs: Any = simulator.beliefs._pairs
    pairs._prior = replace(pairs._prior, mean=np.full_like(pairs._prior.mean, np.log(0.01)))
    pairs._factors = None
    assert not (run_episode(Packing(Starling()), simulator).log.events["beside"] >= 0).any()


def test_the_placement_environment_refuses_pairs_that_must_be_found_out():
    for information in (Information(), PAIRS.scenario.information):
        setup = replace(PAIRS, scenario=replace(PAIRS.scenario, information=information))
        with pytest.raises(MurmurationError, match="scenario.sharing is pairs where throughputs are hidden or drawn"):
            OptionBatch(setup, JOBS.models, len(JOBS))
