"""A check of compiled functions that refer to tuples by their address, see `envs.simulation.compiled.by_reference`.

Each place of a function that makes such a tuple has memory for one. If a variable gets its value at one place, which
comes before all its uses on every path, then the memory still holds this value wherever it is used: on a path that
leads to the place again, the variable gets its next value before the next use.
"""

from typing import Any

import numba.core.analysis
import numba.core.compiler_machinery
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass
from numba.core.errors import UnsupportedError
from numba.core.ir import Assign, Del
from numba.core.typed_passes import AnnotateTypes

from envs.simulation.compiled.by_reference import refers

_analysis: Any = numba.core.analysis
_DefaultPasses: Any = DefaultPassBuilder
_register_pass: Any = numba.core.compiler_machinery.register_pass


@_register_pass(mutates_CFG=False, analysis_only=True)
class _OneValue(AnalysisPass):
    """Refuse functions in which a tuple might be used after its place has made the next one."""

    _name = "one_value"

    def __init__(self) -> None:
        """Do nothing: numba asks for this method."""

    def run_pass(self, state: Any) -> bool:
        """Check the variables of a function."""
        names = {name for name, type_ in state.typemap.items() if _holds_reference(type_)}
        if names:
            _check_variables(state.func_ir.blocks, names)
        return False


def _holds_reference(type_: Any) -> bool:
    return refers(type_) or any(_holds_reference(field) for field in getattr(type_, "types", ()))


def _check_variables(blocks: dict[int, Any], names: set[str]) -> None:
    """Raise an error unless each variable gets its value at one place, which dominates all uses."""
    places: dict[str, tuple[int, int]] = {}
    uses: list[tuple[str, int, int, Any]] = []
    for label, block in blocks.items():
        for index, statement in enumerate(block.body):
            target = statement.target.name if isinstance(statement, Assign) else ""
            if target in places:
                raise _kept(target, statement.loc)
            if target in names:
                places[target] = label, index
            if not isinstance(statement, Del):
                used = (var.name for var in statement.list_vars() if var.name in names and var.name != target)
                uses.extend((name, label, index, statement.loc) for name in used)
    dominators = _analysis.compute_cfg_from_blocks(blocks).dominators()
    for name, label, index, where in uses:
        place, before = places[name]
        if before > index if place == label else place not in dominators[label]:
            raise _kept(name, where)


def _kept(name: str, where: Any) -> UnsupportedError:
    return UnsupportedError(
        f"{name} is a tuple that compiled code refers to by its address: it must get its value at one place, before all"
        " uses",
        loc=where,
    )


class Compiler(CompilerBase):
    """Numba's compiler, with the check of this module."""

    def define_pipelines(self) -> list[Any]:
        """Add the check before code is generated."""
        manager = _DefaultPasses.define_nopython_pipeline(self.state)
        manager.add_pass_after(_OneValue, AnnotateTypes)
        manager.finalize()
        return [manager]
