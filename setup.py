"""The build of the wheel: copies of the repository's folders within the package `murmuration`.

`envs`, `agents`, `baselines` and `deployment` are names that other packages have, too. As top-level packages of an
environment they would replace each other's files. Everything else about the build is in pyproject.toml.
"""

from pathlib import Path
from shutil import copyfile

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
LEFT_OUT = ROOT / "scripts" / "papers"  # scripts/reproduce.py says that it needs a clone
# Of each folder, the files that belong into a wheel. Records of results (baselines/records) are left out.
COPIED = {
    **dict.fromkeys(
        ("envs", "agents", "baselines", "deployment"),
        ("**/*.py", "py.typed", "**/tables/**/*", "**/traces/**/*", "**/static/*"),
    ),
    "scripts": ("**/*.py",),
    "conf": ("**/*.yaml", "*/choices.yml"),
    "checkpoints": ("anywhere/*.json", "anywhere/*.safetensors", "bids-*/*.json", "bids-*/*.safetensors"),
}


class NestedBuild(build_py):
    """Copies the repository's folders to `murmuration/clone`; an editable installation uses them where they are."""

    def run(self) -> None:
        """Build the package, then copy the folders beside its modules."""
        super().run()
        if self.editable_mode:
            return
        for folder, patterns in COPIED.items():
            for path in sorted(path for pattern in patterns for path in (ROOT / folder).glob(pattern)):
                if LEFT_OUT in path.parents or path.is_dir():
                    continue
                target = Path(self.build_lib, "murmuration", "clone", path.relative_to(ROOT))
                target.parent.mkdir(parents=True, exist_ok=True)
                copyfile(path, target)


setup(cmdclass={"build_py": NestedBuild})
