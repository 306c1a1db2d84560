"""The door: a script's configuration becomes one typed description, and what it names is found and checked.

Below it nobody sees a configuration. `describe_estimates` and `describe_ablation` are parts of it; `arguments`,
`choices`, `errors`, `outcomes`, `provenance`, `recall`, `registry` and `murmuration.runs.commands` stand at the door
too: configurations are what they are about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from deployment.bridge import BridgeRules
from deployment.service import ServiceRules
from envs.evaluation.task import Task
from envs.types import did_you_mean
from murmuration.config.arguments import compose_options
from murmuration.config.building import Component, build_object
from murmuration.config.choices import find_shipped, list_choices, read_choice
from murmuration.config.declare import settings_in
from murmuration.config.descriptions import (
    VALIDATED_PARTS,
    AdviceRun,
    BenchmarkRun,
    ComparisonRun,
    CurvesRun,
    DeploymentRun,
    EvaluationRun,
    FilmRun,
    InterfaceRun,
    ProblemSpec,
    Repetition,
    ReproductionRun,
    SeedRun,
    ServiceRun,
    ShadowRun,
    SoakRun,
    SweepRun,
    TrainingRun,
    TuningRun,
    ValidationRun,
)
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import check_resolved
from murmuration.config.provenance import resolve_config
from murmuration.config.recall import existing_folder, recall_parts, recall_repeated, recall_run, recall_setup
from murmuration.config.registry import registered
from murmuration.config.schema import OPTIONAL, REQUIRED
from murmuration.config.settings import (
    AdviceSettings,
    CurveSettings,
    DataFolder,
    DeploymentSettings,
    EvaluationSettings,
    FilmSettings,
    InterfaceSettings,
    KeptFrames,
    RecordChoice,
    Referred,
    SeedSettings,
    ServiceSettings,
    ShadowSettings,
    SoakSettings,
    SweepSettings,
    TrainingProcesses,
)
from murmuration.home import SCRIPTS

# Top-level keys of configs that are not schedulers of the user's own.
RESERVED_KEYS = (*REQUIRED, *OPTIONAL, "ray", "schedulers")


def settings_of(class_: type, cfg: DictConfig) -> dict[str, Any]:
    """Return the values that a configuration has for the settings of a class, as plain data."""
    given = {key: cfg[key] for key, _, _ in settings_in(class_) if key in cfg}
    return {key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value for key, value in given.items()}


def as_component(node: Any, key: str = "a group of the configuration") -> Component:
    """Return what a node of a configuration describes, with the value in place of every reference.

    Args:
        node: of the configuration.
        key: how a message calls it if it is none.

    Raises:
        ChoiceError: it is no node, or a value contains `${` all the same.
    """
    if not isinstance(node, DictConfig):
        raise ChoiceError(f"{key} is {node!r}; it must have a _target_, a class to build")
    values = cast(dict[str, Any], OmegaConf.to_container(node, resolve=True, throw_on_missing=True))
    check_resolved(values)
    return Component(str(node._get_full_key(None)), values)


def describe_problem(cfg: DictConfig) -> ProblemSpec:
    """Describe the problem of a run: its groups, from the cluster to the predictor, and the seed.

    Raises:
        ChoiceError: a group that is no node, or a task that cannot be built.
    """
    return ProblemSpec(
        as_component(cfg.cluster),
        as_component(cfg.performance),
        as_component(cfg.scenario),
        as_component(cfg.workload),
        as_component(cfg.estimator) if cfg.get("estimator") else None,
        as_component(cfg.predictor) if cfg.get("predictor") else None,
        cfg.seed,
        build_object(as_component(cfg.task), Task) if cfg.get("task") else None,
        as_component(cfg.world) if cfg.get("world") else None,
        as_component(cfg.queueing) if cfg.get("queueing") else None,
    )


def describe_schedulers(cfg: DictConfig) -> dict[str, Component]:
    """Describe the schedulers by name; the user's own are all further top-level keys with a `_target_`.

    Raises:
        ChoiceError: one of the user's own is also under `schedulers`, where it would be ignored.
    """
    others = {str(name): node for name, node in cfg.items() if name not in RESERVED_KEYS}
    own = {name: node for name, node in others.items() if isinstance(node, DictConfig) and "_target_" in node}
    library = {str(name): node for name, node in cfg.schedulers.items()}
    for name in own:
        if "_target_" in library.get(name, ()):
            raise ChoiceError(f"{name}: is a scheduler of the library and one of your own; give yours another name")
        if name in library:
            options = ", ".join(f"{name}.{option}" for option in library[name])
            raise ChoiceError(
                f"schedulers.{name}: {name} is a scheduler of your own, whose options are not under schedulers; "
                f"write {options}=<value>"
            )
    return {name: as_component(node) for name, node in {**library, **own}.items()}


def describe_library(names: Sequence[str]) -> dict[str, Component]:
    """Describe schedulers as `conf/scheduler` has them; no others."""
    known = [name for name in names if name in list_choices("scheduler")]
    if not known:
        return {}
    return describe_schedulers(compose_options("compare", ["task=none"], f"[{','.join(known)}]"))


def describe_comparison(cfg: DictConfig) -> ComparisonRun:
    """Describe a comparison.

    Raises:
        ChoiceError: see `describe_problem` and `describe_schedulers`.
    """
    return ComparisonRun(
        **settings_of(Referred, cfg),
        **settings_of(KeptFrames, cfg),
        problem=describe_problem(cfg),
        schedulers=describe_schedulers(cfg),
        optional=_optional_in(cfg),
        records=RecordChoice(**settings_of(RecordChoice, cfg)),
        text=OmegaConf.to_yaml(cfg),
    )


def compose_comparison(options: Sequence[str], script: str = "compare") -> ComparisonRun:
    """Describe a comparison from options as the command line of a script takes them, without default schedulers.

    Raises:
        ChoiceError: see `describe_comparison` and `compose_options`.
    """
    return describe_comparison(compose_options(script, options, "[]"))


def compose_training(options: Sequence[str]) -> tuple[TrainingRun, DictConfig]:
    """Describe a training run from options as the command line of `scripts/train.py` takes them.

    Returns:
        The description, and the configuration that its folder keeps.

    Raises:
        ChoiceError: see `describe_training` and `compose_options`.
    """
    cfg = resolve_config(compose_options("train", options, "[]"))
    return describe_training(cfg), cfg


def _optional_in(cfg: DictConfig) -> list[str]:
    return [str(name) for name in cfg.schedulers] if cfg.optional else []


def describe_evaluation(cfg: DictConfig) -> EvaluationRun | Repetition:
    """Describe an evaluation in the setup that the policy was trained in, or the repetition of an earlier run.

    Raises:
        ChoiceError: the folder does not exist or cannot be recalled, and all errors of `describe_comparison`.
    """
    if not cfg.run:
        return _describe_policy(recall_setup(cfg))
    folder = existing_folder(cfg, "run")
    recalled, earlier = recall_repeated(cfg, folder)
    match script := earlier.get("script"):
        case "compare":
            return Repetition(folder, earlier, describe_comparison(recalled))
        case "evaluate":
            return Repetition(folder, earlier, _describe_policy(recalled))
        case "train":
            *before, last = (_describe_seeds(part) for part in recall_parts(recalled, earlier))
            return Repetition(folder, earlier, last, before)
    raise ChoiceError(f"run={folder}: was made by {script}; only compare, evaluate and train can be repeated")


def _describe_policy(cfg: DictConfig) -> EvaluationRun:
    settings = settings_of(EvaluationSettings, cfg) | {"checkpoint": str(find_shipped(cfg.checkpoint))}
    return EvaluationRun(**settings, comparison=describe_comparison(cfg), trusted=registered(cfg))


def describe_training(cfg: DictConfig) -> TrainingRun:
    """Describe a training run; with `resume=`, the one that goes on.

    Raises:
        ChoiceError: a further task does not exist, or the run cannot be resumed.
    """
    if not cfg.resume:
        return _describe_seeds(cfg)
    recalled, folder, resumes = recall_run(cfg)
    return replace(_describe_seeds(recalled), resumed=folder, resumes=resumes)


def _describe_seeds(cfg: DictConfig) -> TrainingRun:
    trusted = registered(cfg) if cfg.start or cfg.evaluate or cfg.elsewhere else frozenset[str]()
    first = SeedRun(
        **settings_of(SeedSettings, cfg),
        problem=describe_problem(cfg),
        further=[describe_further(entry) for entry in cfg.tasks],
        schedulers=describe_schedulers(cfg),
        trainer=as_component(cfg.trainer),
        agent=as_component(cfg.agent),
        env=as_component(cfg.env),
        market=as_component(cfg.market) if cfg.get("market") else None,
        market_note=describe_market(cfg) if cfg.get("market") else {},
        trusted=trusted,
        text=OmegaConf.to_yaml(cfg),
    )
    return TrainingRun(
        seeds=[first, *(_with_seed(first, cfg, cfg.seed + number) for number in range(1, cfg.seeds or 1))],
        **settings_of(TrainingProcesses, cfg),
        evaluation=replace(describe_comparison(cfg), split="test") if cfg.evaluate else None,
        elsewhere=compose_comparison(list(cfg.elsewhere)) if cfg.elsewhere else None,
        trusted=trusted,
    )


def _with_seed(run: SeedRun, cfg: DictConfig, seed: int) -> SeedRun:
    own = cfg.copy()
    own.seed = seed
    return replace(run, problem=replace(run.problem, seed=seed), text=OmegaConf.to_yaml(own))


def describe_further(entry: str) -> tuple[str, ProblemSpec]:
    """Describe a further task from an entry of `tasks`: a name, and options that modify it, separated by spaces.

    Returns:
        Its name, which says whether it is modified, and the problem.

    Raises:
        ChoiceError: the entry is no text, or there is no such task or option.
    """
    words = entry.split() if isinstance(entry, str) else []
    if not words:
        raise ChoiceError(f"tasks: {entry!r} must be a task and options of it, such as 'rigid-64 workload.load=0.6'")
    name = words[0] if len(words) == 1 else f"{words[0]}-modified"
    return name, describe_problem(compose_options("train", [f"task={words[0]}", *words[1:]], "[]"))


def describe_market(cfg: DictConfig) -> dict[str, Any]:
    """Return the chosen market for a checkpoint's manifest: its name in `conf/market`, and its options."""
    market = as_component(cfg.market)
    choices = HydraConfig.get().runtime.choices if HydraConfig.initialized() else {}
    name = choices.get("market") or market_of_class(cfg.market._target_)
    return {"name": name, "options": without_names(market.values)}


def market_of_class(target: str) -> str | None:
    """Return the name in `conf/market` of a market's class, as for a resumed run, for which none is typed."""
    return next((name for name in list_choices("market") if read_choice("market", name)["_target_"] == target), None)


def without_names(options: Mapping[Any, Any]) -> dict[str, Any]:
    """Return options without the names of classes and Hydra's other keys, at every level."""
    return {
        str(key): without_names(value) if isinstance(value, Mapping) else value
        for key, value in options.items()
        if not str(key).startswith("_")
    }


def describe_film(cfg: DictConfig) -> FilmRun:
    """Describe a film.

    Raises:
        ChoiceError: the name has another ending, or the policy's folder does not exist.
    """
    if Path(cfg.film).suffix not in (".gif", ".mp4"):
        raise ChoiceError(f"film={cfg.film}: the name of a film must end with .gif or .mp4")
    if cfg.checkpoint:
        cfg = recall_setup(cfg)
    return FilmRun(**settings_of(FilmSettings, cfg), **_describe_actor(cfg))


def _describe_actor(cfg: DictConfig) -> dict[str, Any]:
    """Describe the fields of an `ActorRun` that are no settings."""
    return {
        "problem": describe_problem(cfg),
        "schedulers": describe_schedulers(cfg),
        "trusted": registered(cfg) if cfg.checkpoint else frozenset(),
    }


def describe_service(cfg: DictConfig) -> ServiceRun:
    """Describe a scheduler that answers clusters.

    Raises:
        ChoiceError: the policy's folder does not exist.
        MurmurationError: a number of clusters or the patience is not positive.
    """
    if cfg.checkpoint:
        cfg = recall_setup(cfg)
    rules = ServiceRules(cfg.clusters, cfg.clients, cfg.patience)
    return ServiceRun(**settings_of(ServiceSettings, cfg), **_describe_actor(cfg), rules=rules)


def describe_deployment(cfg: DictConfig) -> DeploymentRun:
    """Describe a trace that is played on a real cluster.

    Raises:
        ChoiceError: a folder does not exist, or a number is not positive.
    """
    if not cfg.shorten > 0:
        raise ChoiceError(f"shorten={cfg.shorten}: must be above 0; 24 makes an hour of a day")
    rules = BridgeRules(
        shadow=not cfg.act,
        scale=float(cfg.scale),
        grace=cfg.grace,
        actions_per_minute=cfg.actions_per_minute,
        interval=cfg.interval,
        retry=5.0 * cfg.interval,
        knows_work=cfg.scenario.information.get("work", "exact") not in ("none", "predicted"),
    )
    if cfg.continued:
        existing_folder(cfg, "continued")
    return DeploymentRun(**settings_of(DeploymentSettings, cfg), **_describe_actor(cfg), rules=rules)


def describe_shadow(cfg: DictConfig) -> ShadowRun:
    """Describe a scheduler that watches a cluster.

    Raises:
        ChoiceError: the policy's folder does not exist, or the interval is not positive.
    """
    _check_interval(cfg)
    return ShadowRun(**settings_of(ShadowSettings, cfg), **_describe_actor(cfg))


def describe_advice(cfg: DictConfig) -> AdviceRun:
    """Describe a scheduler that advises a cluster; see `describe_shadow`."""
    _check_interval(cfg)
    return AdviceRun(**settings_of(AdviceSettings, cfg), **_describe_actor(cfg))


def _check_interval(cfg: DictConfig) -> None:
    if not cfg.interval > 0:
        raise ChoiceError(f"interval={cfg.interval}: must be above 0 seconds")


def describe_sweep(cfg: DictConfig) -> SweepRun:
    """Describe a sweep; see `describe_comparison`."""
    loads = [cfg.loads] if isinstance(cfg.loads, int | float) else list(cfg.loads)
    return SweepRun(
        **settings_of(SweepSettings, cfg) | {"loads": loads},
        problem=describe_problem(cfg),
        schedulers=describe_schedulers(cfg),
        optional=_optional_in(cfg),
    )


def describe_interface(cfg: DictConfig) -> InterfaceRun:
    """Describe a measurement of the interface loss; see `describe_comparison`."""
    return InterfaceRun(
        **settings_of(InterfaceSettings, cfg),
        problem=describe_problem(cfg),
        schedulers=describe_schedulers(cfg),
        env=as_component(cfg.env),
    )


def describe_tuning(cfg: DictConfig) -> TuningRun:
    """Describe a search: over `tasks`, or if there are none, over `worlds`. `tuning.options` are added to all of them.

    Raises:
        ChoiceError: an option, a task or a scheduler that does not exist.
    """
    worlds = [(" ".join(options), options) for options in cfg.worlds]
    chosen = [(str(task), [f"task={task}"]) for task in cfg.tasks] or worlds
    reference = "" if cfg.tasks else cfg.tuning.reference
    return TuningRun(
        **settings_of(TuningRun, cfg),
        validation_workloads=cfg.validation_workloads or cfg.workloads,
        scheduler=as_component(cfg.tuning.scheduler),
        parameters={str(name): as_component(node) for name, node in cfg.tuning.parameters.items()},
        problems=[
            (title, describe_problem(compose_options("compare", [*options, *cfg.tuning.options])))
            for title, options in chosen
        ],
        reference=reference,
        library=describe_schedulers(compose_options("compare", [], schedulers=reference)) if reference else {},
    )


def describe_curves(cfg: DictConfig) -> CurvesRun:
    """Describe a comparison of learning curves.

    Raises:
        ChoiceError: `runs` is no mapping of names to folders.
    """
    content = OmegaConf.to_container(cfg, throw_on_missing=False)
    runs = content["runs"] if isinstance(content, dict) else None
    if not isinstance(runs, Mapping) or not runs:
        raise ChoiceError(f'runs is {runs!r}; give folders by name, as in "runs={{scorer: runs/train/a}}"')
    folders = {
        str(name): [str(each) for each in (value if isinstance(value, list) else [value])]
        for name, value in runs.items()
    }
    return CurvesRun(**settings_of(CurveSettings, cfg), runs=folders)


def describe_benchmark(cfg: DictConfig) -> BenchmarkRun:
    """Describe a benchmark.

    Raises:
        ChoiceError: there is no suite of that name.
    """
    if cfg.suite not in cfg.suites:
        names = list(map(str, cfg.suites))
        hint = did_you_mean(cfg.suite, names, lead=", ")
        raise ChoiceError(f"suite={cfg.suite}: no such suite{hint}; there are: {', '.join(names)}")
    parts = [cfg.parts] if isinstance(cfg.parts, str) else list(cfg.parts)
    return BenchmarkRun(
        **settings_of(DataFolder, cfg),
        name=cfg.suite,
        suite=as_component(cfg.suites[cfg.suite]),
        schedulers=describe_schedulers(cfg),
        parts=parts,
    )


def describe_reproduction(cfg: DictConfig) -> ReproductionRun:
    """Describe the entry of the registry in conf/reproduce.yaml for a table; the paper's first one if it is null.

    Raises:
        ChoiceError: there is no such paper or table, or this is no clone.
    """
    if not (SCRIPTS / "papers").is_dir():
        raise ChoiceError("tables of papers are no part of the installed package; run this in a clone of the project")
    tables, paper = cfg.tables, cfg.paper
    table = cfg.table or str(next(iter(tables.get(paper) or {}), ""))
    for option, name, known in (("paper", paper, tables), ("table", table, tables.get(paper) or {})):
        if name not in known:
            hint = did_you_mean(name, known, lead=", ")
            raise ChoiceError(f"{option}={name}: no such {option}{hint}; there are: {', '.join(known)}")
    found = as_component(tables[paper][table], f"tables.{paper}.{table}")
    return ReproductionRun(**settings_of(DataFolder, cfg), table=found)


def describe_soak(cfg: DictConfig) -> SoakRun:
    """Describe a soak."""
    return SoakRun(**settings_of(SoakSettings, cfg))


def describe_validation(cfg: DictConfig) -> ValidationRun:
    """Describe a validation of the performance model.

    Raises:
        ChoiceError: there is no such part.
    """
    parts = [cfg.parts] if isinstance(cfg.parts, str) else list(cfg.parts)
    for name in parts:
        if name not in ("all", *VALIDATED_PARTS):
            hint, there = did_you_mean(name, VALIDATED_PARTS, lead=", "), ", ".join(("all", *VALIDATED_PARTS))
            raise ChoiceError(f"parts={name}: no such part{hint}; there are: {there}")
    return ValidationRun(**settings_of(ValidationRun, cfg), parts=VALIDATED_PARTS if "all" in parts else parts)
