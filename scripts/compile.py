"""Compile everything now, so that no later start waits for it: some minutes once.

python scripts/compile.py
MURMURATION_CACHE=/opt/kernels python scripts/compile.py   # for an image: the folder where later starts find it
"""

import argparse
import time

import launch  # noqa: F401  the project's packages are found

# isort: split
from envs.simulation.compiled.kernel_cache import find_kernel_folder
from murmuration.config.errors import one_line_errors
from murmuration.runs.compiling import compile_all


def main() -> None:
    """Play tiny episodes of everything that has kernels; print how long it took and where the code is."""
    argparse.ArgumentParser(description="Compile everything now, so that no later start waits for it.").parse_args()
    with one_line_errors():
        folder, began = find_kernel_folder(), time.perf_counter()
        episodes = compile_all()
        if folder is None:
            print("compiled, but nothing can be kept: set MURMURATION_CACHE to a folder that can be written")
            return
        kept = len(list(folder.glob("*.kernel")))
        print(f"{episodes} episodes in {time.perf_counter() - began:.0f} s; {kept} compiled functions in {folder}")


if __name__ == "__main__":
    main()
