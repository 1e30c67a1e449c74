"""The language in which operations of the graph are declared, each by one class.

    class Maximum(Elementwise, alu="maximum"):
        '''The larger of two; NaN where one is.'''

        operands = ("lhs", "rhs")

        def reference(self, lhs, rhs):
            return np.maximum(lhs, rhs)

An instance holds the attributes; an operation of a graph (`Node`) adds operands and results.
Walkers of a graph distinguish operations by kind, never by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, NoReturn, dataclass_transform

from trnsim.errors import BadInput
from trnsim.graph.types import ELEMENT_TYPES, TensorType


class Kind(Enum):
    """The way in which an operation uses its operands: the basis of fusion and lowering."""

    ELEMENTWISE = "each element of the result comes from the elements at the same place"
    LEAF = "no operands; each reader of the result computes it"
    ALIAS = "the operand's memory under another type; nothing moves"
    VIEW = "elements of the operand, read by other strides"
    REDUCTION = "several elements become one"
    CONTRACTION = "sums of products"
    KERNEL = "elements move, or depend on all of the operand"
    CONTROL = "other graphs run, as values decide"
    COLLECTIVE = "cores exchange values"
    CALL = "a kernel of the user's own"


@dataclass(frozen=True, slots=True)
class Example:
    """An operation with operands, on which the reference is compared with the lowered kernel.

    Attributes:
        values: contents of each operand: "edges" (of the element type), "small" (around 0),
            "places" (indices from 0 to below `limit`), "distinct" (no two equal).
        limit: upper bound of indices, exclusive.
    """

    operation: Operation
    operands: tuple[TensorType, ...]
    values: tuple[str, ...] = ()
    limit: int = 0


OPERATIONS: Final[dict[str, type[Operation]]] = {}
"""Every operation by its name."""


_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""The boundary of two words of a class name."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Operation:
    """An operation; its attributes are fields.

    Attributes:
        name: StableHLO's name without the dialect, if it has the operation.
        kind: the way in which it uses its operands.
        source: the document that defines its meaning.
        operands: names of the operands; a last name with a star stands for any number of operands.
        legal: for each operand the element types that it may have; the last entry holds for all
            further operands, and an empty tuple allows all types.
        names_dtype: True if a graph may choose the result's element type: an engine rounds its
            output to any type.
        reference: a method that computes the result from the operands; operands and result are
            arrays in float64, int64 or bool. Several results are a tuple.
        tolerance: largest error of a kernel against the reference before rounding, divided by
            max(abs(value), tolerance_floor).
        tolerance_floor: the magnitude below which the error is absolute: tolerance * floor.
        reads_stored: True if the reference takes operands in the dtype in which they are stored.
    """

    name: ClassVar[str] = ""
    kind: ClassVar[Kind]
    source: ClassVar[str]
    operands: ClassVar[tuple[str, ...]] = ()
    legal: ClassVar[tuple[tuple[str, ...], ...]] = ()
    names_dtype: ClassVar[bool] = False
    reads_stored: ClassVar[bool] = False
    reference: ClassVar[Callable[..., Any]]
    tolerance: ClassVar[float] = 2.0**-18
    tolerance_floor: ClassVar[float] = 1.0

    def __init_subclass__(
        cls, *, kind: Kind | None = None, source: str = "", abstract: bool = False
    ) -> None:
        """Declare an operation, named after its class; an abstract one is the base of a family."""
        super().__init_subclass__()
        if kind is not None:
            cls.kind = kind
        dataclass(frozen=True)(cls)
        if not abstract:
            cls.name = _WORD_BOUNDARY.sub("_", cls.__name__).lower()
            cls.source = source or f"StableHLO Specification, {cls.name}"
            OPERATIONS[cls.name] = cls

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The types of the results, from those of the operands.

        Raises:
            BadInput: where the operation is not defined on them.
        """
        raise NotImplementedError

    def flop(self, *tensors: TensorType) -> float:
        """Multiplications and additions in its sums of products; 0 for operations without any."""
        del tensors
        return 0.0

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Typical instances, with edge values."""
        raise NotImplementedError

    def refuse(self, what: str, fix: str = "") -> NoReturn:
        """Raise `BadInput`: the operation is not defined on these operands or attributes.

        Args:
            what: the message after the operation's name, "of f32 as lhs; legal: s32".
            fix: a remedy; "" for a hint at the operation's help.
        """
        raise BadInput(f"{self.name} {what}", fix=fix or self._help_hint(), source=self.source)

    def _help_hint(self) -> str:
        """A hint at the call that prints the legal operands."""
        return f"help(trnsim.graph.OPERATIONS[{self.name!r}]) says what is legal"

    def check(self, tensors: tuple[TensorType, ...]) -> None:
        """Check that the number and element types of the operands are legal."""
        names, legal = self.operands, self.legal
        is_open = bool(names) and names[-1].startswith("*")
        if (len(tensors) < len(names) - 1) if is_open else (len(tensors) != len(names)):
            self.refuse(f"takes {', '.join(names) or 'no operands'}; given {len(tensors)}")
        for place, operand in enumerate(tensors):
            dtypes = legal[min(place, len(legal) - 1)] if legal else ELEMENT_TYPES
            if operand.dtype not in dtypes:
                name = names[min(place, len(names) - 1)].lstrip("*")
                self.refuse(f"of {operand} as {name}; legal: {', '.join(dtypes)}", "convert it")
