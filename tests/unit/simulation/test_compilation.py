"""Compiled and interpreted kernels agree, and compiled code is never out of date."""

import os
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
RUN = """
import hashlib
from envs.simulation import Information, Rounds, Scenario, Setup, Simulator, run_episode
from tests.conformance.worlds import HETEROGENEOUS, Curved
from tests.unit.simulation.plays import Chance, jobs_of

workload = jobs_of(*((float(i // 4), 1 + i % 3, 15.0 + i) for i in range(16)), elastic=(1, 6))
scenario = Scenario(0.25, 0.5, rounds=Rounds(interval=3.0), information=Information("estimate"))
result = run_episode(Chance(), Simulator(workload, Setup(HETEROGENEOUS, Curved(), scenario), seed=5))
assert (result.log.events["kind"] == 5).any() and (result.log.events["kind"] == 7).any()
tables = (result.log.events, result.log.shares, result.records)
print(len(result.log), hashlib.sha256(b"".join(table.tobytes() for table in tables)).hexdigest())
"""


def python(code: str, folder: Path = REPOSITORY, **environment: str) -> str:
    """Run code in a fresh interpreter; return its output. Code of a folder of a test is kept in that folder."""
    if folder != REPOSITORY:
        environment = {"MURMURATION_CACHE": str(folder / "cache")} | environment
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{folder}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_interpreted_kernels_produce_the_same_log():
    assert python(RUN) == python(RUN, NUMBA_DISABLE_JIT="1")


def test_a_kernel_is_recompiled_after_a_change_to_a_file_that_it_calls(tmp_path):
    """Numba alone would use the old callee from the caller's cache."""
    (tmp_path / "upper.py").write_text(
        textwrap.dedent("""
        from envs.simulation.compiled.jit import jit
        from lower import amount

        @jit
        def twice() -> int:
            return 2 * amount()
        """)
    )
    seen = []
    for number in ("7", "21"):
        (tmp_path / "lower.py").write_text(
            f"from envs.simulation.compiled.jit import jit\n\n@jit\ndef amount() -> int:\n    return {number}\n"
        )
        printed = python("import upper; print(upper.twice())", tmp_path, NUMBA_DISABLE_JIT="0")
        seen.append(printed.strip())
    assert seen == ["14", "42"]


def test_a_copy_loads_what_was_compiled_elsewhere_and_a_process_that_dies_leaves_nothing_in_use(tmp_path):
    """Two processes at once, one of which ends before its code has its name; then a copy in another folder."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    (first / "kernels.py").write_text(
        "from envs.simulation.compiled.jit import kernel, part\n\n@part\ndef half(a):\n    return 0.5 * a\n\n"
        "@kernel\ndef quarter(a):\n    return half(half(a))\n"
    )
    tell = "from envs.simulation.compiled.jit import on_first_compilation as on; on(lambda: print('compiling')); "
    show = f"{tell}import kernels; print(kernels.quarter(8.0))"
    shared = {"MURMURATION_CACHE": str(tmp_path / "cache"), "NUMBA_DISABLE_JIT": "0"}
    assert python(f"import os; os.replace = lambda *_: os._exit(0); {show}", first, **shared).split() == ["compiling"]
    with ThreadPoolExecutor() as both:
        told = list(both.map(lambda _: python(show, first, **shared).split(), range(2)))
    assert [words[-1] for words in told] == ["2.0", "2.0"]
    shutil.copytree(first, second, copy_function=shutil.copyfile)
    assert python(show, second, **shared).split() == ["2.0"]


def test_unrelated_imports_do_not_invalidate_a_kernel(tmp_path):
    """`upper` calls `lower`; `other` is unrelated, whatever the order of imports."""
    kernel = "from envs.simulation.compiled.jit import kernel\n{}\n@kernel\ndef {}(a):\n    return {}\n"
    (tmp_path / "lower.py").write_text(kernel.format("", "one_more", "a + 1"))
    (tmp_path / "upper.py").write_text(kernel.format("from lower import one_more\n", "two_more", "one_more(a) + 1"))
    (tmp_path / "other.py").write_text(kernel.format("", "double", "2 * a"))
    tell = "from envs.simulation.compiled.jit import on_first_compilation as on; on(lambda: print('compiling')); "
    play = "print(upper.two_more(1))"
    orders = ["import upper", "import other, upper", "import lower, upper"]
    told = [python(f"{tell}{imports}; {play}", tmp_path, NUMBA_DISABLE_JIT="0").split() for imports in orders]
    assert told == [["compiling", "3"], *[["3"]] * 2]
    (tmp_path / "lower.py").write_text(kernel.format("", "one_more", "a + 10"))
    again = python(f"{tell}import other, upper; {play}", tmp_path, NUMBA_DISABLE_JIT="0").split()
    assert again == ["compiling", "12"]


def test_a_part_is_linked_into_several_kernels_from_the_cache_too_and_python_can_call_it(tmp_path):
    """A part has no machine code of its own: kernels get it, and Python compiles it again."""
    (tmp_path / "parts.py").write_text(
        textwrap.dedent("""
        from envs.simulation.compiled.jit import kernel, leaf, part

        @leaf
        def one_more(a):
            return a + 1

        @part
        def steps(a, b):
            total = 0
            for i in range(a, b):
                total += one_more(i)
            return total

        @kernel
        def both(a, b):
            return steps(a, b) + 1000

        @kernel
        def twice(a, b):
            return 2 * steps(a, b)
        """)
    )
    tell = "from envs.simulation.compiled.jit import on_first_compilation as on; on(lambda: print('compiling')); "
    calls = ("parts.both(0, 4)", "parts.both(0, 4), parts.twice(1, 3), parts.steps(0, 2), parts.one_more(5)")
    told = [python(f"{tell}import parts; print({call})", tmp_path, NUMBA_DISABLE_JIT="0").split() for call in calls]
    assert told == [["compiling", "1010"], ["compiling", "1010", "10", "3", "6"]]


def test_code_that_only_kernels_call_is_kept_without_machine_code(tmp_path):
    (tmp_path / "parts.py").write_text(
        "from envs.simulation.compiled.jit import kernel, part\n\n@part\ndef half(a):\n    return 0.5 * a\n\n"
        "@kernel\ndef quarter(a):\n    return half(half(a))\n"
    )
    ask = "import parts; print(parts.quarter(2.0)); [library] = [c.library for c in parts.half.overloads.values()]; "
    tell = "print(type(library).__name__, library.get_pointer_to_function('half'))"
    assert python(ask + tell, tmp_path, NUMBA_DISABLE_JIT="0").split() == ["0.5", "LinkedLibrary", "0"]


def test_kernels_load_without_linear_algebra_which_compiled_code_may_still_use(tmp_path):
    (tmp_path / "kernels.py").write_text(
        textwrap.dedent("""
        import gc
        import sys
        from envs.simulation.compiled.jit import jit, kernel
        assert gc.isenabled() and gc.get_freeze_count() > 0

        @kernel
        def one_more(a):
            return a + 1

        @jit
        def product(a, b):
            return a @ b

        assert one_more(1) == 2
        print([name for name in sys.modules if name.startswith("scipy.linalg")])
        import numpy as np
        matrix = np.arange(9.0).reshape(3, 3)
        print(np.array_equal(product(matrix, matrix), matrix @ matrix), "scipy.linalg.cython_blas" in sys.modules)
        import scipy.linalg.cython_blas
        print("dgemm" in scipy.linalg.cython_blas.__pyx_capi__)
        """)
    )
    for _ in range(2):  # compiled, then loaded
        lines = python("import kernels", tmp_path, NUMBA_DISABLE_JIT="0").splitlines()
        assert lines == ["[]", "True True", "True"]
