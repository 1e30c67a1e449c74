"""Kinds of memory in a program: which of its arrays lie in HBM, and which in the host's memory.

JAX writes the kinds of arguments and results as attributes, and a custom call where an array moves
between memories. Values do not depend on kinds, so the host's client computes programs without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from trnsim.errors import BadInput

HBM: Final = "device"
PINNED_HOST: Final = "pinned_host"
KINDS: Final = (HBM, PINNED_HOST)
"""The default first."""

PLACEMENT: Final = "annotate_device_placement"
"""The name of JAX's call whose result is its operand, in the memory that it names."""
_KIND: Final = "mhlo.memory_kind"


def kinds_of(module: Any, arguments: int, results: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of a module's arguments and results; HBM by default.

    Raises:
        BadInput: for an unknown kind.
    """
    main = main_function(module)
    return _kinds_in(main, "arg_attrs", arguments), _kinds_in(main, "res_attrs", results)


def _kinds_in(main: Any, name: str, count: int) -> tuple[str, ...]:
    """The kinds in a function's attributes."""
    if main is None or name not in main.attributes:
        return (HBM,) * count
    kinds = [entry[_KIND].value if _KIND in entry else HBM for entry in main.attributes[name]]
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(
                f"memory_kind={kind!r} of an argument or result; legal: {', '.join(KINDS)}",
                fix=f"memory_kind={PINNED_HOST!r}",
            )
    return tuple(kinds)


def main_function(module: Any) -> Any:
    """The main function of a module, or None."""
    for operation in module.body.operations:
        attributes = operation.attributes
        if "sym_name" in attributes and attributes["sym_name"].value == "main":
            return operation
    return None


def is_placed(code: bytes) -> bool:
    """True if a module in bytes may name a memory."""
    return _KIND.encode() in code or PLACEMENT.encode() in code


def forget_kinds(module: Any) -> None:
    """Take the kinds out of a module: calls give way to their operands."""
    main = main_function(module)
    if main is not None:
        for name in ("arg_attrs", "res_attrs"):
            if name in main.attributes:
                main.attributes[name] = _remove_kinds(main, main.attributes[name])
    for op in [*_placements(module.body)]:
        op.result.replace_all_uses_with(op.operands[0])
        op.erase()


def _remove_kinds(main: Any, attributes: Sequence[Any]) -> Any:
    """The attributes of arguments or results without their kinds."""
    from jaxlib.mlir import ir  # noqa: PLC0415  slow to import, and only compiling needs it

    with main.context:
        rows = [{item.name: item.attr for item in row if item.name != _KIND} for row in attributes]
        return ir.ArrayAttr.get([ir.DictAttr.get(row) for row in rows])


def _placements(block: Any) -> Iterator[Any]:
    """The calls that name a memory, in a block and its inner blocks."""
    for view in block.operations:
        op = view.operation
        if (
            op.name == "stablehlo.custom_call"
            and op.attributes["call_target_name"].value == PLACEMENT
        ):
            yield op
        for region in op.regions:
            for inner_block in region.blocks:
                yield from _placements(inner_block)
