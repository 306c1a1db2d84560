"""Where the curves of a training run go: TensorBoard, CSV, Weights & Biases, MLflow, or a logger of your own."""

from agents.loggers.protocol import LOGGER_CLASSES, CurveLogger, Loggers, open_loggers

__all__ = ["LOGGER_CLASSES", "CurveLogger", "Loggers", "open_loggers"]
