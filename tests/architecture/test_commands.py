"""Commands in the pages: their scripts exist, and their options are options of the script."""

import re
import shlex
from pathlib import Path

import pytest
from hydra import compose
from hydra.errors import ConfigCompositionException

from launch.arguments import parse_overrides, split_words, translate_overrides
from launch.choices import open_configs, search_in
from launch.errors import ChoiceError
from tests.architecture.test_recipes import FILE

COMMAND = re.compile(r"(?:\.venv/bin/python|\bpython|\$PY) scripts/(?P<script>\w+)\.py(?P<words>(?:\\\n|[^\n`#|&])*)")
DECORATOR = re.compile(r'@command\("(?P<config>\w+)", \w+(?:, schedulers="(?P<schedulers>\w+)")?\)')
SAVED = re.compile(r"`my_lab/(?P<path>[\w/]+\.yaml)`.*?```yaml\n(?P<text>.*?)```", re.DOTALL)
REPOSITORY = Path(__file__).resolve().parents[2]
PLACEHOLDER = re.compile(r"<[^>]*>")


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
        search = search_in(configs)
        overrides, _ = translate_overrides(typed, found["config"], found["schedulers"], search)
        return compose(found["config"], [*search, *overrides])


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


@pytest.fixture(scope="module")
def bases():
    """Compose only once what commands with the same experiment, task and folders begin with."""
    found = {}

    def compose_once(config_name, overrides):
        key = (config_name, *overrides)
        if key not in found:
            found[key] = compose(config_name, overrides)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("launch.arguments.compose", compose_once)
        yield found


def test_pages_have_commands():
    assert len(KNOWN) > 40


@pytest.mark.parametrize("page", sorted(set(KNOWN.values())))
def test_commands_of_pages_are_understood(page, repository, configs, bases):
    failed = []
    known = [command for command, path in KNOWN.items() if path == page]
    for script, words in known:
        try:
            composed(repository, script, list(words), configs)
        except Exception as error:
            failed.append(f"{script} {shlex.join(words)}: {error}")
    assert failed == []
