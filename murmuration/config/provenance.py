"""Where a run's figures come from: `provenance.json` in every run folder."""

import json
import platform
import shlex
import subprocess
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from envs.evaluation.files import file_hash, write_whole
from envs.evaluation.task import HASH_DIGITS, hash_text
from envs.simulation import WORLD_VERSION
from envs.types import MurmurationError
from envs.workloads import TraceSource, WorkloadSource
from envs.workloads.readers.reader import locate
from murmuration.config.errors import ChoiceError
from murmuration.config.plain import check_resolved, load_json
from murmuration.config.values import ALLOWED, check_values
from murmuration.home import ROOT

PROVENANCE = "provenance.json"
SAVED = Path(".hydra") / "config.yaml"  # the configuration of a run
GIT_SECONDS = 20.0  # after which the revision counts as unknown
FURTHER_PACKAGES = ("omegaconf", "gymnasium", "llvmlite")  # that decide about results, besides the direct requirements


def write_provenance(
    folder: Path, script: str, cfg: DictConfig, options: Sequence[str], program: Sequence[str]
) -> None:
    """Write what is known of a run before it begins, and its configuration without references, as it is played.

    It has the script and its options, the hash of the whole configuration, the seed, the time, the git revision of the
    clone and whether it has uncommitted changes, and the versions of Python and of the packages. `add_provenance` adds
    what is known only later.

    Args:
        folder: of the run.
        script: its primary config.
        cfg: the resolved configuration.
        options: with which it was composed.
        program: the words of the command before these.
    """
    content = {
        "script": script,
        "options": list(options),
        "command": shlex.join([*program, *options]),
        "configuration": hash_config(cfg),
        "seed": cfg.get("seed"),
        "started": datetime.now().astimezone().isoformat(timespec="seconds"),
        "murmuration": version("murmuration"),
        "world_version": WORLD_VERSION,
        "git": describe_clone(ROOT),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": package_versions(),
    }
    _write(folder, content)
    if (folder / SAVED).exists():  # Hydra has written it with references, and not at all with hydra.output_subdir=null
        write_whole(folder / SAVED, OmegaConf.to_yaml(cfg, resolve=False))


def resolve_config(cfg: DictConfig, known: Collection[str] = ALLOWED) -> DictConfig:
    """Return a configuration with the value in place of every reference `${...}`.

    A run is played with it and keeps it, so that whoever reads it again resolves nothing. A value that depends on
    `seed` is that of the first training seed for all of them.

    Args:
        cfg: the composed configuration.
        known: the keys that the script reads.

    Raises:
        ChoiceError: a value contains `${` all the same, or is of another form than its key takes.
    """
    plain = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(plain, dict)
    check_resolved(plain)
    check_values(cast(dict[str, Any], plain), known=known)
    resolved = OmegaConf.create(plain)
    OmegaConf.set_struct(resolved, OmegaConf.is_struct(cfg))
    return resolved


def hash_config(cfg: DictConfig) -> str:
    """Return the hash of a whole configuration."""
    return hash_text(OmegaConf.to_yaml(cfg, resolve=False, sort_keys=True))


def add_provenance(folder: Path, **further: Any) -> None:
    """Add entries to a run's provenance, such as the hash of its task or the hashes of the traces that it read.

    A training seed's folder has none of its own: they are added to that of the run. Nothing is added to a damaged file,
    which a resumed run does not need; a line says so.
    """
    for run in (folder, folder.parent):
        if (run / PROVENANCE).exists():
            try:
                found = read_provenance(run)
            except ChoiceError as error:
                print(f"note: {error}")
                return
            _write(run, {**found, **further})
            return


def read_provenance(folder: Path) -> dict[str, Any]:
    """Read the provenance of a run.

    Raises:
        ChoiceError: the file is missing or is no JSON object.
    """
    try:
        found = load_json(folder / PROVENANCE)
    except ChoiceError as error:
        raise ChoiceError(f"{error}; give a run folder of this version") from error
    if not isinstance(found, dict):
        raise ChoiceError(f"{folder / PROVENANCE}: is no JSON object; give a run folder of this version")
    return cast(dict[str, Any], found)


def describe_clone(folder: Path) -> dict[str, Any] | None:
    """Return the revision of a clone and whether it has uncommitted changes; None if it is no clone or has no git."""
    found = [_git(folder, *words) for words in (("rev-parse", "--show-toplevel", "HEAD"), ("status", "--porcelain"))]
    if found[0] is None or found[1] is None:
        return None
    top, _, revision = found[0].strip().partition("\n")
    if Path(top).resolve() != folder.resolve():
        return None
    return {"revision": revision, "dirty": bool(found[1].strip())}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=GIT_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def package_versions() -> dict[str, str]:
    """Return the versions of the installed packages that this project requires to run, by name."""
    lines = [line for line in requires("murmuration") or () if 'extra == "dev"' not in line]
    names = {requirement_name(line) for line in lines} | set(FURTHER_PACKAGES)
    found = {}
    for name in sorted(names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed
    return found


def requirement_name(line: str) -> str:
    """Return the name of the package in a requirement, such as "ray" of "ray[rllib]==2.60.*"."""
    end = next((i for i, letter in enumerate(line) if not (letter.isalnum() or letter in "-_.")), len(line))
    return line[:end]


def trace_hashes(source: WorkloadSource) -> dict[str, str]:
    """Return the SHA-256 of every file that a workload source reads, by path; empty for synthetic workloads."""
    if not isinstance(source, TraceSource):
        return {}
    try:
        path = locate(source.reader, source.path)
    except MurmurationError:
        return {}  # the source says so itself when it is read
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return {str(each): file_hash(each) for each in files}


def checkpoint_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a policy's files, by path."""
    return {str(path.resolve()): file_hash(path) for path in sorted(folder.iterdir()) if path.is_file()}


def changed_since(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[str]:
    """Say what differs between the provenance of two runs, apart from commands and times."""
    skipped = {"script", "options", "command", "configuration", "started", "resumes"}
    return list(_differences({k: v for k, v in earlier.items() if k not in skipped}, now, ""))


def _differences(earlier: Mapping[str, Any], now: Mapping[str, Any], where: str) -> Sequence[str]:
    found: list[str] = []
    for key, before in earlier.items():
        name, after = f"{where}{key}", now.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += _differences(before, after, f"{name}.")
        elif before != after:
            found.append(f"{name} was {_short(before)} and is {_short(after)} now")
    return found


def _short(value: Any) -> str:
    text = str(value)
    return text[:HASH_DIGITS] if len(text) >= 40 and text.isalnum() else text


def _write(folder: Path, content: Mapping[str, Any]) -> None:
    write_whole(folder / PROVENANCE, json.dumps(content, indent=2) + "\n")
