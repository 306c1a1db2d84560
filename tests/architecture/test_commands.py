"""Commands and settings in the pages: scripts exist, their options are options of the script, and settings are read."""

import dataclasses
import inspect
import re
import shlex
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import yaml
from hydra import compose
from hydra.errors import ConfigCompositionException
from hydra.utils import get_object

from murmuration.config.arguments import parse_overrides, split_words, translate_overrides
from murmuration.config.choices import open_configs, search_in
from murmuration.config.errors import ChoiceError
from murmuration.config.tables import read_choices
from murmuration.config.values import ALLOWED
from tests.architecture.test_recipes import FILE

COMMAND = re.compile(r"(?:\.venv/bin/python|\bpython|\$PY) scripts/(?P<script>\w+)\.py(?P<words>(?:\\\n|[^\n`#|&])*)")
DECORATOR = re.compile(r'@command\("(?P<config>\w+)", \w+(?:, schedulers="(?P<schedulers>\w+)")?\)')
SAVED = re.compile(r"`my_lab/(?P<path>[\w/]+\.yaml)`.*?```yaml\n(?P<text>.*?)```", re.DOTALL)
REPOSITORY = Path(__file__).resolve().parents[2]
PLACEHOLDER = re.compile(r"<[^>]*>")
BLOCK, SPAN = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE), re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
SETTING = re.compile(r"[+~]{0,2}(?P<key>[a-z_]\w*(?:\.\w+)*)(?P<value>@[\w.]+=|=|$)")
FILES = (".csv", ".json", ".md", ".parquet", ".py", ".txt")
GLOBAL = (".", "experiment", "task", "tuning")  # folders of conf/ whose files are not placed under the folder's name
# Arguments of functions, in prose; what Hydra and a scheduler of the reader's have.
OTHERS = ("categorical_actions", "key", "networks", "render_mode", "until", "hydra", "own")


def commands(text):
    """(script, words) of each command of a page; what the reader has to fill in is `x`."""
    for found in COMMAND.finditer(PLACEHOLDER.sub("x", text)):
        words = shlex.split(found["words"].replace("\\\n", " "))
        yield found["script"], [word for word in words if word != "..."]


def read_pages():
    """The text of every page by path."""
    paths = [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "checkpoints" / "README.md"]
    return {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}


PAGES = read_pages()
KNOWN = {(script, tuple(words)): path for path, text in PAGES.items() for script, words in commands(text)}


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    """A folder with the YAML files that the pages tell the reader to save."""
    folder = tmp_path_factory.mktemp("configs")
    files = {path: text for page in PAGES.values() for path, text in FILE.findall(page) if path.startswith("conf/")}
    files |= {f"conf/{path}": text for page in PAGES.values() for path, text in SAVED.findall(page)}
    files["conf/scheduler/mine.yaml"] = "_target_: my_scheduler.ShortestFirst\n"  # by `echo`
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return str(folder / "conf")


def first_of_sweep(line):
    """An override with the first of the values through which `--multirun` goes."""
    (override,) = parse_overrides([line])
    if not override.is_sweep_override():
        return line
    return f"{override.key_or_group}={next(override.sweep_string_iterator())}"


def composed(repository, script, words, configs):
    """The config of a command, as the script itself composes it; None for a script without one."""
    source = (repository / "scripts" / f"{script}.py").read_text(encoding="utf-8")
    found = DECORATOR.search(source)
    if not found:
        return None
    _, typed, _ = split_words(words)
    typed = [first_of_sweep(line) for line in typed if not line.startswith("hydra")]  # launchers are an extra
    with open_configs():
        try:
            return composed_in([], typed, found)
        except (ChoiceError, ConfigCompositionException):  # perhaps a file of the reader's
            return composed_in(search_in(configs), typed, found)


def composed_in(search, typed, script):
    """The config of options, with a folder to search or none.

    Schedulers without options are left out once their names are known: each composes (see `test_builds`).
    """
    overrides, _ = translate_overrides(typed, script["config"], script["schedulers"], search)
    if not any(line.startswith(("scheduler.", "schedulers.")) for line in typed):
        overrides = [line for line in overrides if not line.startswith("+scheduler@")]
    return compose(script["config"], [*search, *overrides])


def test_commands_are_found():
    text = ".venv/bin/python scripts/compare.py a=<file> \\\n    'b=[1, 2]'  # why\n$PY scripts/list.py && ls\n"
    assert list(commands(text)) == [("compare", ["a=x", "b=[1, 2]"]), ("list", [])]


@pytest.mark.parametrize(
    ("word", "error"),
    [("sed=3", ConfigCompositionException), ("task=full-65", ChoiceError), ("scheduler=fifa", ChoiceError)],
)
def test_a_command_that_fails_is_seen(repository, configs, word, error):
    with pytest.raises(error):
        composed(repository, "compare", [word], configs)


def test_pages_have_commands():
    assert len(KNOWN) > 40


@pytest.mark.parametrize("page", sorted(set(KNOWN.values())))
def test_commands_of_pages_are_understood(page, repository, configs):
    failed = []
    known = [command for command, path in KNOWN.items() if path == page]
    for script, words in known:
        try:
            composed(repository, script, list(words), configs)
        except Exception as error:
            failed.append(f"{script} {shlex.join(words)}: {error}")
    assert failed == []


def settings_below(node, key):
    """Yield the keys in a node of a YAML file, and those that the signatures of its classes take."""
    for each in node if isinstance(node, list) else []:
        yield from settings_below(each, key)
    for name, value in node.items() if isinstance(node, dict) else []:
        yield f"{key}{name}"
        yield from settings_below(value, f"{key}{name}.")
        if name == "_target_":
            yield from parameters_of(get_object(value), key)
        if name == "target" and "options" in node:
            yield from parameters_of(get_object(value), f"{key}options.")


def parameters_of(made, key):
    """Yield the parameters of a class or function, and those of the data classes that they hold."""
    hints = get_type_hints(made.__init__ if inspect.isclass(made) else made)
    for name in inspect.signature(made).parameters:
        yield f"{key}{name}"
        for part in (hints.get(name), *get_args(hints.get(name))):
            if dataclasses.is_dataclass(part):
                yield from parameters_of(part, f"{key}{name}.")


@pytest.fixture(scope="module")
def settings(repository):
    """All settings with their endings: pages may leave out the beginning, as in `information.work`."""
    found = {*ALLOWED}
    conf = repository / "conf"
    for folder in (conf, *(path for path in sorted(conf.iterdir()) if path.is_dir())):
        group = folder.relative_to(conf).as_posix()
        for name, text in read_choices(folder).items():
            found |= {group, *settings_below(yaml.safe_load(text), "" if group in GLOBAL else f"{group}.")}
            found |= {f"schedulers.{name}"} if group == "scheduler" else set()
    return {key.split(".", start)[-1] for key in found for start in range(key.count(".") + 1)}, found


def named_settings(text):
    """Words of commands and of prose in code style."""
    yield from (word for _, words in commands(text) for word in words)
    yield from (word for span in SPAN.findall(BLOCK.sub("", text)) for word in span.split())


def is_unknown(word, endings, found):
    """Whether a word looks like a setting, by its first part or by a value, and is none."""
    match = SETTING.match(word)
    if not match or match["key"].endswith(FILES):
        return False
    first, *rest = [part for part in match["key"].split(".") if not part.isdigit()]
    if first == "schedulers" and len(rest) > 1:
        name = re.sub(r"_\d+$", "", rest[0])  # a second one of the same class
        return f"schedulers.{name}" in found and ".".join(["scheduler", *rest[1:]]) not in found
    is_setting = match["value"] or (rest and first in {key.partition(".")[0] for key in found})
    return bool(is_setting) and first not in OTHERS and ".".join([first, *rest]) not in endings


@pytest.mark.parametrize(
    ("word", "unknown"),
    [
        ("trainer.method.num_env_runners=8", False),
        ("informaton.throughput=observed", True),
        ("+failures@scenario.failures=rsc1", False),
        ("schedulers.planner_2.rollouts=2", False),
    ],
)
def test_a_setting_that_does_not_exist_is_seen(settings, word, unknown):
    assert is_unknown(word, *settings) == unknown


def test_settings_that_pages_name_exist(settings):
    found = {
        path: {word for word in named_settings(text) if is_unknown(word, *settings)} for path, text in PAGES.items()
    }
    del found["CHANGELOG.md"]  # tells of earlier ones
    assert {path: words for path, words in found.items() if words} == {}
