"""The settings of every command, and those below groups of `conf/`."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from murmuration.config.settings import (
    AblationSettings,
    AdviceSettings,
    BenchmarkSettings,
    ChosenEstimators,
    ChosenPredictors,
    ChosenSchedulers,
    ChosenVariants,
    CurveSettings,
    DataFolder,
    DeploymentSettings,
    EvaluatedEpisodes,
    EvaluationSettings,
    FilmSettings,
    HeldOutSettings,
    InterfaceSettings,
    KeptFrames,
    MeasuredSettings,
    OnRay,
    ReadRecords,
    RecordChoice,
    Referred,
    RepeatedRun,
    ReproductionSettings,
    Seeded,
    SeedSettings,
    ServiceSettings,
    ShadowSettings,
    SoakSettings,
    SweepSettings,
    TrainerOptions,
    TrainingProcesses,
    TrainSettings,
    Trusted,
    TunedWorlds,
    TuningGroup,
    TuningSettings,
    ValidatedParts,
)

COMMANDS: Mapping[str, Sequence[type]] = MappingProxyType(
    {
        "ablate": (AblationSettings, ChosenVariants),
        "advise": (ChosenSchedulers, AdviceSettings, Seeded, Trusted),
        "benchmark": (BenchmarkSettings, DataFolder, ChosenSchedulers),
        "calibrate_estimators": (ChosenEstimators, MeasuredSettings, Seeded),
        "calibrate_predictors": (ChosenPredictors, HeldOutSettings, Seeded),
        "compare": (ChosenSchedulers, Referred, KeptFrames, Seeded, RecordChoice, OnRay),
        "curves": (CurveSettings,),
        "deploy": (ChosenSchedulers, DeploymentSettings, Seeded, Trusted),
        "evaluate": (
            *(RepeatedRun, EvaluationSettings, EvaluatedEpisodes, ChosenSchedulers, Seeded, ReadRecords),
            *(KeptFrames, Trusted, OnRay),
        ),
        "film": (ChosenSchedulers, FilmSettings, Seeded, Trusted),
        "interface": (ChosenSchedulers, InterfaceSettings, Seeded, OnRay),
        "reproduce": (ReproductionSettings, DataFolder),
        "serve": (ChosenSchedulers, ServiceSettings, Seeded, Trusted),
        "shadow": (ChosenSchedulers, ShadowSettings, Seeded, Trusted),
        "soak": (SoakSettings,),
        "sweep": (ChosenSchedulers, SweepSettings, Seeded, OnRay),
        "train": (ChosenSchedulers, Seeded, TrainSettings, TrainingProcesses, SeedSettings, Trusted, OnRay),
        "tune": (TunedWorlds, TuningSettings, Seeded, OnRay),
        "validate_performance": (DataFolder, ValidatedParts, Seeded),
    }
)
RECALLED_COMMANDS = ("compare", "evaluate", "train")  # whose runs can be repeated, or lend their setup
BELOW: Mapping[str, type] = MappingProxyType({"tuning": TuningGroup, "trainer": TrainerOptions})  # by group of `conf/`
