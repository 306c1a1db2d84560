"""Tuples that compiled functions refer to by their address.

Numba passes each number of a tuple as an argument of its own, which makes more than two hundred for a `World`. Most of
a function's code then handles its arguments, and a first start takes longer.

Compiled code never changes a tuple, so that an address serves as well as a copy, as long as the tuple is there. Each
place of a function that makes a tuple, or calls a function that returns one, has memory for one; the next tuple from
this place overwrites it. `envs.simulation.compiled.one_value` refuses functions that would still use the one before.

This module uses numba's data models, which are undocumented (hence the pinned version).
"""

from functools import cached_property
from typing import Any, TypeVar

import numba
import numba.core.cgutils
import numba.core.datamodel.models
import numba.core.datamodel.registry
import numba.core.imputils
import numba.core.registry
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

Class = TypeVar("Class", bound=type)

_cgutils: Any = numba.core.cgutils
_imputils: Any = numba.core.imputils
_TupleModel: Any = numba.core.datamodel.models.TupleModel
_registry: Any = numba.core.datamodel.registry
_context: Any = numba.core.registry.cpu_target.target_context
_make_tuple: Any = _context.make_tuple
CLASSES: set[type] = set()  # those of `by_reference`


def by_reference(class_: Class) -> Class:
    """Decorate a `NamedTuple` class whose tuples compiled functions receive as addresses.

    Compiled code may read fields by name only; it cannot index or unpack such a tuple, or return it to Python. A class
    whose fields all have one type is passed as numba does by default.
    """
    CLASSES.add(class_)
    return class_


def refers(tuple_type: Any) -> bool:
    """Whether compiled functions refer to tuples of a type by their address."""
    return isinstance(tuple_type, types.NamedTuple) and tuple_type.instance_class in CLASSES


@_registry.register_default(types.NamedTuple)
class _NamedTupleModel(_TupleModel):  # type: ignore[misc]  # a class without types
    """How numba represents named tuples: those of `by_reference` classes by an address, others as before."""

    @cached_property
    def _fields_type(self) -> Any:
        return ir.LiteralStructType([model.get_value_type() for model in self._models])

    def get_value_type(self) -> Any:
        """Return the type of a tuple in a function."""
        return self._fields_type.as_pointer() if refers(self.fe_type) else super().get_value_type()

    def get_argument_type(self) -> Any:
        """Return the type of an argument."""
        return self.get_value_type() if refers(self.fe_type) else super().get_argument_type()

    def as_argument(self, builder: Any, value: Any) -> Any:
        """Return what the caller passes."""
        return value if refers(self.fe_type) else super().as_argument(builder, value)

    def from_argument(self, builder: Any, value: Any) -> Any:
        """Return the tuple that the caller passes."""
        if not refers(self.fe_type):
            return super().from_argument(builder, value)
        value.add_attribute("noalias")  # nothing writes to it while the function runs
        return value

    def get_data_type(self) -> Any:
        """Return the type of a result: all fields, since the memory of the function that returns them is gone."""
        if not refers(self.fe_type):
            return super().get_data_type()
        return ir.LiteralStructType([model.get_data_type() for model in self._models])

    def as_data(self, builder: Any, value: Any) -> Any:
        """Return the fields of a tuple."""
        if not refers(self.fe_type):
            return super().as_data(builder, value)
        fields = ir.Constant(self.get_data_type(), ir.Undefined)
        for i, model in enumerate(self._models):
            fields = builder.insert_value(fields, model.as_data(builder, self.get(builder, value, i)), i)
        return fields

    def from_data(self, builder: Any, value: Any) -> Any:
        """Return the tuple of fields that a function returned."""
        if not refers(self.fe_type):
            return super().from_data(builder, value)
        fields = [model.from_data(builder, builder.extract_value(value, i)) for i, model in enumerate(self._models)]
        return self.store(builder, fields)

    def as_return(self, builder: Any, value: Any) -> Any:
        """Return the fields of a tuple."""
        return self.as_data(builder, value) if refers(self.fe_type) else super().as_return(builder, value)

    def from_return(self, builder: Any, value: Any) -> Any:
        """Return the tuple of fields that a function returned."""
        return self.from_data(builder, value) if refers(self.fe_type) else super().from_return(builder, value)

    def get(self, builder: Any, value: Any, position: int | str) -> Any:
        """Return a field of a tuple."""
        if not refers(self.fe_type):
            return super().get(builder, value, position)
        index = self.get_field_position(position) if isinstance(position, str) else position
        return builder.load(_cgutils.gep_inbounds(builder, value, 0, index))

    def traverse(self, builder: Any) -> Any:
        """Return the types of fields, and functions that read them from a tuple, for numba to count references.

        Numba also releases what a variable holds before its first value and after its last: zeros, as an address that
        points to nothing. LLVM may take code for unreachable that reads from there; zeros are read elsewhere.
        """
        if not refers(self.fe_type):
            return super().traverse(builder)

        def reader(index: int) -> Any:
            def read(value: Any) -> Any:
                empty = _cgutils.is_null(builder, value)
                zeros = _zeros(builder.module, self._fields_type)
                return self.get(builder, builder.select(empty, zeros, value), index)

            return read

        return [(self.get_type(name), reader(index)) for index, name in enumerate(self._fields)]

    def store(self, builder: Any, fields: Any) -> Any:
        """Store fields in the memory of the present function; return the address."""
        address = _cgutils.alloca_once(builder, self._fields_type)
        for i, field in enumerate(fields):
            builder.store(field, _cgutils.gep_inbounds(builder, address, 0, i))
        return address


def _zeros(module: Any, type_: Any) -> Any:
    """The address of constant zeros of a type."""
    name = f"zeros.{type_}"
    if name not in module.globals:
        zeros = ir.GlobalVariable(module, type_, name)
        zeros.linkage, zeros.global_constant, zeros.initializer = "internal", True, ir.Constant(type_, None)
    return module.globals[name]


@_imputils.lower_getattr_generic(types.NamedTuple)
def _get_field(context: Any, builder: Any, tuple_type: Any, value: Any, name: str) -> Any:
    """Load a field by its name."""
    index = tuple_type.fields.index(name)
    field = context.data_model_manager[tuple_type].get(builder, value, index)
    return _imputils.impl_ret_borrowed(context, builder, tuple_type[index], field)


def _make(builder: Any, tuple_type: Any, values: Any) -> Any:
    """Make a tuple, like numba's function of this name."""
    if not refers(tuple_type):
        return _make_tuple(builder, tuple_type, values)
    return _context.data_model_manager[tuple_type].store(builder, values)


_context.make_tuple = _make


def _emit_copy(typing_context: Any, given: Any) -> Any:
    """Return the signature of `copy_fields` and a function that generates its code."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        """Load all fields and store them in the memory of the present function."""
        model = context.data_model_manager[signature.return_type]
        return model.store(builder, [model.get(builder, args[0], i) for i in range(len(given))])

    return given(given), generate


def _return_unchanged(given: Any) -> Any:
    """Return the tuple unchanged: replaces `copy_fields` where compilation is switched off."""
    return given


_compiles: bool = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]
copy_fields: Any = intrinsic(_emit_copy) if _compiles else _return_unchanged
"""Return a `by_reference` tuple whose fields the present kernel holds itself, in registers where it can.

This pays in a kernel that runs for long: it reads the fields of its argument from memory again and again.
"""
