"""Loggers of the curves of a training run: TensorBoard, CSV, Weights & Biases, MLflow, or one of your own."""

from agents.loggers.protocol import LOGGER_CLASSES, CurveLogger, Loggers, open_loggers

__all__ = ["LOGGER_CLASSES", "CurveLogger", "Loggers", "open_loggers"]
