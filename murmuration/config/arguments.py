"""From the words that the user types to the arguments that Hydra reads.

Hydra's own syntax stays valid. Two things are added: several schedulers on one command line, and options that are not
in the YAML because their default is in a signature.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from hydra import compose
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from omegaconf import DictConfig, OmegaConf

from envs.types import did_you_mean
from murmuration.config.choices import CONF, list_choices, open_configs, search_in
from murmuration.config.errors import ChoiceError
from murmuration.config.values import check_values

ALL, FAST = "all", "fast"
OWN_READERS = (
    "CsvTrace",
    "JobsTrace",
    "KubernetesTrace",
    "SlurmTrace",
)  # of files of one's own, by the last name of their class
# They decide about GPUs only, as the agents do, and within milliseconds.
FAST_SCHEDULERS = (
    *("fifo", "fifo_backfill", "fifo_easy", "forecast_planner", "las", "optimus", "qssf", "random", "slurm"),
    *("srtf", "srtf_gpu_time", "starling", "starling_makespan", "tiresias"),
)
# All others but Starling take up to 10 ms of CPU time for a decision on task=full-64, and play only the first episodes
# of a task. The lists are fixed so that results do not depend on the machine.
SLOW_SCHEDULERS = (
    *("afs", "elastic_dp", "elastic_fixed_batch", "gavel_finish_time", "gavel_makespan", "gavel_max_min", "hesrpt"),
    *("optimus_literal", "rubick", "rubick_artifact", "rubick_neither", "rubick_plans_only", "rubick_resources_only"),
    *("sampling_matching", "sia", "synergy_greedy", "synergy_opt", "synergy_proportional", "synergy_tune", "themis"),
)
# They take 50 ms and more, and play fewer episodes still.
SLOWEST_SCHEDULERS = ("oracle", "planner", "pollux")
# They choose batch sizes: scheduler=all leaves them out of tasks in which every job keeps its usual one.
BATCH_SCHEDULERS = ("elastic_dp",)
# They know the future and measure headroom.
ORACLE_SCHEDULERS = ("oracle",)
# They are trained policies, which need the extra `learn`.
LEARNED_SCHEDULERS = ("learned_planner",)
# They place jobs beside others on the same GPUs, which few tasks allow.
PACKING_SCHEDULERS = (
    *("fifo_packed", "gavel_max_min_packed", "lucid_packed", "muri_las_packed", "muri_packed", "srtf_packed"),
    *("starling_packed", "tiresias_packed"),
)
# They follow another project's simulator where it differs from the paper.
SIMULATOR_SCHEDULERS = ("tiresias_pollux",)
# scheduler=all leaves them out: they must be named.
NAMED_SCHEDULERS = (*ORACLE_SCHEDULERS, *LEARNED_SCHEDULERS, *PACKING_SCHEDULERS, *SIMULATOR_SCHEDULERS)
# Optional groups, in which Hydra ignores a wrong choice.
CHECKED_GROUPS = ("experiment", "task", "network", "estimator", "predictor", "world", "queueing")


def hydra_arguments(words: Sequence[str], config_name: str, schedulers: str | None) -> tuple[list[str], list[str]]:
    """Translate a command line for Hydra.

    Args:
        words: what the user typed.
        config_name: the script's primary config.
        schedulers: the default of `scheduler=`; None if the script takes no schedulers.

    Returns:
        Overrides followed by flags, and the top-level keys that the script reads.

    Raises:
        ChoiceError: a scheduler or a folder that does not exist.
    """
    flags, typed, config_dir = split_words(words)
    with open_configs():
        overrides, keys = translate_overrides(typed, config_name, schedulers, search_in(config_dir))
    return [*overrides, *flags], keys


def compose_options(config_name: str, options: Sequence[str], schedulers: str | None = None) -> DictConfig:
    """Compose another script's config, within a run or outside of one, from options as its command line takes them.

    Raises:
        ChoiceError: a scheduler that does not exist, or a key that holds a value of another form.
    """
    with open_configs():
        cfg = compose(config_name, translate_overrides(options, config_name, schedulers)[0])
    check_values(cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False)))
    return cfg


def translate_overrides(
    typed: Sequence[str], config_name: str, schedulers: str | None, search: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Overrides for Hydra, and the top-level keys that the script reads; see `hydra_arguments`.

    An experiment may name its own schedulers, and an earlier run has its own. Typed ones join them; the default does
    not.
    """
    for word in typed:
        if re.match(r"~[^=]*\.\d+(\.|=|$)", word):
            raise ChoiceError(f"{word}: an entry of a list cannot be removed; it must be written whole, as <key>=[...]")
        if re.match(r"[~+]*settings\b", word):
            raise ChoiceError(f"{word}: no such key; settings are set one by one, as <key>=<value>; --help lists them")
    typed = [*typed, *trace_defaults(typed, config_name, search)]
    config = compose_base(config_name, typed, search)
    overrides = list(typed)
    if schedulers is not None:
        others = config.get("schedulers") or names_earlier_run(typed)
        overrides = choose_schedulers(typed, "[]" if others else schedulers, search)
    return force_options(overrides, built_keys(config)), sorted(config)


def trace_defaults(typed: Sequence[str], config_name: str, search: Sequence[str]) -> list[str]:
    """Return what a trace of one's own chooses beside what is typed; see `own_defaults`."""
    parsed = parse_overrides(typed)
    chosen = {key_of(each): each for each in parsed}
    workload = chosen.get("workload")
    if workload is None or workload.is_delete() or any(each.is_sweep_override() for each in parsed):
        return []
    if workload.value() not in list_choices("workload", search):
        return []
    config = compose_plain(config_name, [*search, f"workload={workload.value()}"])
    texts = {key: str(each.value()) for key, each in chosen.items() if not each.is_delete()}
    return own_defaults(texts, config.get("workload"))


def own_defaults(chosen: dict[str, str], workload: Any) -> list[str]:
    """Return the groups that the trace of one's own chooses, as overrides: no task, and the rules of `scenario=own`.

    Args:
        chosen: by name, the groups and keys that were typed.
        workload: the part `workload` of the configuration.
    """
    reader = workload.get("reader") if isinstance(workload, dict) else None
    target = reader.get("_target_", "") if isinstance(reader, dict) else ""
    others = {"scenario", "experiment", "world", "checkpoint", "resume", "run", "start"}
    if target.rpartition(".")[2] not in OWN_READERS or others & chosen.keys() or chosen.get("task", "none") != "none":
        return []
    predictor = [] if "predictor" in chosen else ["predictor=group_history"]
    return ["task=none", "scenario=own", *predictor]


def names_earlier_run(typed: Sequence[str]) -> bool:
    """Whether the options ask for an earlier run, which has schedulers of its own: `resume=` or `run=`."""
    named = [each for each in parse_overrides(typed) if each.key_or_group in ("resume", "run") and not each.is_delete()]
    return any(each.is_sweep_override() or each.value() for each in named)


def split_words(words: Sequence[str]) -> tuple[list[str], list[str], str | None]:
    """Separate flags from overrides, since Hydra reads only overrides that are not interrupted by flags.

    Returns:
        Flags with their values, overrides (with the home directory for `~`), and the value of `--config-dir`.
    """
    parsed, _ = get_args_parser().parse_known_intermixed_args(list(words))
    flags = list(words)
    for override in parsed.overrides:
        flags.remove(override)
    return flags, [expand_home(word) for word in parsed.overrides], parsed.config_dir


def expand_home(word: str) -> str:
    """Return an option with the home directory in place of `~` at the beginning of its value, as shells do for words.

    Hydra would read `~` in an option without quotes as a sign of its own.
    """
    found = re.fullmatch(r"""(?P<key>[^=]+=)(?P<quote>["']?)(?P<path>~.*)(?P=quote)""", word)
    if not found or (home := os.path.expanduser(found["path"])) == found["path"]:
        return word
    quoted = home.replace('"', r"\"")
    return f'{found["key"]}"{quoted}"'


def compose_base(config_name: str, overrides: Sequence[str], search: Sequence[str] = ()) -> dict[str, Any]:
    """The script's config without the user's options, but with the experiment and the task that the user chose.

    Raises:
        ChoiceError: no such experiment, task or network, or a group is given what is no name.
    """
    parsed = parse_overrides(overrides)
    check_names(parsed, search)
    check_choices([override for override in parsed if override.key_or_group in CHECKED_GROUPS], search)
    chosen = [override for override in parsed if override.key_or_group in ("experiment", "task")]
    # Of several experiments of a multirun, the first one stands for all.
    lines = [
        f"{override.key_or_group}={next(override.sweep_string_iterator())}"
        if override.is_sweep_override()
        else line_of(override)
        for override in chosen
    ]
    with open_configs() as loader:
        places = [str(source.full_path()) for source in loader.get_sources()]
    if search or any(place.startswith("file:") and place != f"file://{CONF}" for place in places):
        return compose_plain(config_name, [*search, *lines])  # the user's own files may change
    return _compose_ours(config_name, tuple(lines))


def compose_plain(config_name: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Compose a config, with its references, as plain values."""
    return cast(dict[str, Any], OmegaConf.to_container(compose(config_name, list(overrides)), resolve=False))


_compose_ours = lru_cache(maxsize=64)(compose_plain)  # nothing changes what it returns


def check_names(overrides: Sequence[Override], search: Sequence[str]) -> None:
    """Check that a group is given names, not null or numbers: Hydra says neither the group nor what is allowed.

    Raises:
        ChoiceError: names the group and its choices.
    """
    for override in overrides:
        if override.is_delete() or override.is_sweep_override() or isinstance(override.value(), dict):
            continue
        group, value = override.key_or_group, override.value()
        if isinstance(value, str) or "." in group or not (known := list_choices(group, search)):
            continue
        names = value if isinstance(value, list) else [value]
        if group == "scheduler" and all(isinstance(name, str) for name in names):
            continue  # `select_schedulers` reads them
        if not names or any(name not in known for name in names):
            raise ChoiceError(
                f"{line_of(override)}: {group} is chosen by name; there are: {', '.join(known)}; leave it out for the "
                "default"
            )


def check_choices(chosen: Sequence[Override], search: Sequence[str]) -> None:
    """Check that what overrides choose in their groups exists.

    Raises:
        ChoiceError: names the choice and the most similar one.
    """
    for override in chosen:
        group = override.key_or_group
        known = list_choices(group, search)
        names = override.sweep_string_iterator() if override.is_sweep_override() else [override.value()]
        for name in names:
            if isinstance(name, str) and name not in known:
                hint, there = did_you_mean(name, known, lead=", "), ", ".join(known)
                if group == "task" and (found := re.fullmatch(r"(.+)-v(\d+)", name)) and found[1] in known:
                    hint = f", write task={found[1]}; with task.version={found[2]} it says which release plays that"
                raise ChoiceError(f"{group}={name}: no such {group}{hint}; there are: {there}")


def parse_overrides(lines: Iterable[str]) -> list[Override]:
    """Hydra's reading of overrides.

    Raises:
        OverrideParseException: one of them is none.
    """
    return OverridesParser.create().parse_overrides([str(line) for line in lines])


def choose_schedulers(typed: Sequence[str], default: str, search: Sequence[str] = ()) -> list[str]:
    """Write each chosen scheduler as a group choice of its own, under `schedulers`.

    `scheduler=all`, `scheduler=fast`, `scheduler=fifo` and `scheduler=[fifo,srtf]` choose; `scheduler=[]` chooses none,
    for runs of the user's own scheduler alone. `scheduler.backfill=skip` is an option of the only one chosen.

    Args:
        typed: the overrides.
        default: the value of `scheduler=` if the user did not type it.
        search: the result of `search_in`.

    Raises:
        ChoiceError: no such scheduler, or an option for a single scheduler where several were chosen.
    """
    parsed = parse_overrides(typed)
    choices = [override for override in parsed if line_of(override).startswith("scheduler=")]
    (last,) = choices[-1:] or parse_overrides([f"scheduler={default}"])
    wanted = list(last.sweep_string_iterator()) if last.is_sweep_override() else last.value()
    wanted = [str(name) for name in (wanted if isinstance(wanted, list) else [wanted]) if name != ""]
    names = select_schedulers(wanted, search)
    rest = [_address_scheduler(override, names) for override in parsed if override not in choices]
    optional = ["++optional=true"] if wanted in ([ALL], [FAST]) else []
    return [f"+scheduler@schedulers.{name}={name}" for name in names] + optional + rest


def select_schedulers(wanted: Sequence[str], search: Sequence[str] = ()) -> list[str]:
    """Names of schedulers, in the order given and each once; `all` and `fast` stand for several.

    Raises:
        ChoiceError: no such scheduler.
    """
    known = list_choices("scheduler", search)
    if list(wanted) == [ALL]:
        return [name for name in known if name not in NAMED_SCHEDULERS]
    if list(wanted) == [FAST]:
        return list(FAST_SCHEDULERS)
    for name in wanted:
        if name not in known:
            there = ", ".join([ALL, FAST, *known])
            raise ChoiceError(
                f"scheduler={name}: no such scheduler{did_you_mean(name, known, lead=', ')}; there are: {there}"
            )
    return list(dict.fromkeys(wanted))


def _address_scheduler(override: Override, names: Sequence[str]) -> str:
    """Give `scheduler.key=value` to the only scheduler chosen; any other override stays as it is."""
    if not override.key_or_group.startswith("scheduler."):
        return line_of(override)
    option = line_of(override).lstrip("+")
    key = option.removeprefix("scheduler.")
    if len(names) != 1:
        some = names[0] if names else "<name>"
        raise ChoiceError(f"{option}: {len(names)} schedulers are chosen; say which, as in schedulers.{some}.{key}")
    return f"schedulers.{names[0]}.{key}"


def built_keys(config: Mapping[str, Any]) -> set[str]:
    """Top-level keys below which every option is an argument of a `_target_`."""
    return {"schedulers", *(key for key, node in config.items() if isinstance(node, dict) and "_target_" in node)}


def force_options(typed: Sequence[str], built: Iterable[str]) -> list[str]:
    """Put `++` before every option of an object that a `_target_` builds.

    Defaults are in the signature and YAML only overrides them, so a config need not have the key that the user sets.
    A key that the signature does not have is still an error, at the time of building.

    Args:
        typed: the overrides.
        built: top-level keys whose nodes have a `_target_`.
    """
    parsed = parse_overrides(typed)
    targets = [override.key_or_group for override in parsed if override.key_or_group.endswith("._target_")]
    forcible = {*built, *(key.removesuffix("._target_") for key in targets)}
    forced = []
    for override in parsed:
        group, dot, _ = override.key_or_group.partition(".")
        is_option = override.type is OverrideType.CHANGE and dot and override.package is None
        forced.append(f"++{line_of(override)}" if is_option and group in forcible else line_of(override))
    return forced


def line_of(override: Override) -> str:
    """The text of an override."""
    return str(override.input_line)


def key_of(override: Override) -> str:
    """The key of the config that an override changes, with dots."""
    return str(override.package or override.key_or_group).replace("/", ".")


def check_keys(cfg: DictConfig, known: Sequence[str], *, own: bool) -> None:
    """Check that the script reads every top-level key that the user added; `+foo=3` would have no effect.

    To be called within a run of Hydra.

    Args:
        cfg: the composed config.
        known: the keys that the script reads.
        own: whether further keys with a `_target_` are schedulers of the user's own.

    Raises:
        ChoiceError: names the key.
    """
    for override in parse_overrides(HydraConfig.get().overrides.task):
        name = key_of(override).partition(".")[0]
        if override.type is OverrideType.CHANGE or name not in cfg or name in known:
            continue
        node = cfg._get_node(name)
        if not (own and isinstance(node, DictConfig) and "_target_" in node):
            hint = f"; a scheduler of your own is +{name}._target_=<module>.<class>" if own else ""
            there = f"there are: {', '.join(known)}"
            raise ChoiceError(f"{name}: no such key{did_you_mean(name, known, lead=', ')}; {there}{hint}")
