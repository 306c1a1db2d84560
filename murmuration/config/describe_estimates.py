"""The door of the scripts about estimators and predictors, see `murmuration.config.describe`."""

from omegaconf import DictConfig

from murmuration.config.arguments import compose_options
from murmuration.config.choices import list_choices
from murmuration.config.describe import as_component, describe_problem
from murmuration.config.descriptions import CalibrationRun, EstimatorRun, PredictionRun


def describe_calibration(cfg: DictConfig) -> CalibrationRun:
    """Describe a comparison of estimators: those that are named, or all of conf/estimator."""
    names = list(cfg.estimators) or list_choices("estimator")
    found = {name: as_component(compose_options("compare", [f"estimator={name}"]).estimator) for name in names}
    return CalibrationRun(describe_problem(cfg), found, cfg.split, cfg.episodes, list(cfg.measured))


def describe_prediction(cfg: DictConfig) -> PredictionRun:
    """Describe a comparison of predictors: those that are named, or all of conf/predictor."""
    names = list(cfg.predictors) or list_choices("predictor")
    found = {name: as_component(compose_options("compare", [f"predictor={name}"]).predictor) for name in names}
    return PredictionRun(describe_problem(cfg), found, cfg.split, cfg.episodes)


def describe_estimator(cfg: DictConfig) -> EstimatorRun:
    """Describe a training of an estimator."""
    return EstimatorRun(describe_calibration(cfg), cfg.training_episodes, cfg.steps, cfg.hidden)
