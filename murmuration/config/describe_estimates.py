"""The door of the scripts about estimators and predictors, see `murmuration.config.describe`."""

from omegaconf import DictConfig

from murmuration.config.arguments import compose_options
from murmuration.config.choices import list_choices
from murmuration.config.describe import as_component, describe_problem, settings_of
from murmuration.config.descriptions import CalibrationRun, PredictionRun


def describe_calibration(cfg: DictConfig) -> CalibrationRun:
    """Describe a comparison of estimators: those that are named, or all of conf/estimator."""
    names = list(cfg.estimators) or list_choices("estimator")
    found = {name: as_component(compose_options("compare", [f"estimator={name}"]).estimator) for name in names}
    return CalibrationRun(**settings_of(CalibrationRun, cfg), problem=describe_problem(cfg), estimators=found)


def describe_prediction(cfg: DictConfig) -> PredictionRun:
    """Describe a comparison of predictors: those that are named, or all of conf/predictor."""
    names = list(cfg.predictors) or list_choices("predictor")
    found = {name: as_component(compose_options("compare", [f"predictor={name}"]).predictor) for name in names}
    return PredictionRun(**settings_of(PredictionRun, cfg), problem=describe_problem(cfg), predictors=found)
