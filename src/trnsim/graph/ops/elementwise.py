"""The classes that elementwise operations share."""

from __future__ import annotations

from typing import ClassVar

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.types import ELEMENT_TYPES, TensorType


class Elementwise(Operation, kind=Kind.ELEMENTWISE, abstract=True):
    """An operation whose result has, at each place, a function of the operands' elements there.

    Operands have one shape. Their element types may differ, as engines read any, and a number may
    stand for an operand.

    Attributes:
        alu: the Vector Engine's operator that computes it on floating point, or "".
        number: constant second operand of that operator; None without.
        activation: the Scalar Engine's function that computes it, or "".
        domain: range of floating-point operands for which `tolerance` holds.
        largest_quotient: largest quotient of two floating-point operands for which `tolerance`
            holds.
    """

    names_dtype: ClassVar = True
    alu: ClassVar[str] = ""
    number: ClassVar[float | None] = None
    activation: ClassVar[str] = ""
    tolerance: ClassVar[float] = 2.0**-22
    domain: ClassVar[tuple[float, float]] = (float("-inf"), float("inf"))
    largest_quotient: ClassVar[float] = float("inf")

    def __init_subclass__(
        cls,
        *,
        alu: str = "",
        number: float | None = None,
        activation: str = "",
        source: str = "",
        abstract: bool = False,
    ) -> None:
        """Declare an operation; `alu` and `activation` are names of `nki.language`."""
        cls.alu, cls.number, cls.activation = alu, number, activation
        super().__init_subclass__(source=source, abstract=abstract)

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The type of the first operand."""
        if len({operand.shape for operand in tensors}) > 1:
            self.refuse(f"of {', '.join(map(str, tensors))}; legal: operands of one shape")
        return (
            TensorType(tensors[0].shape, self.result_dtype(*(tensor.dtype for tensor in tensors))),
        )

    def result_dtype(self, *dtypes: str) -> str:
        """The result's element type, unless the graph names another."""
        return dtypes[0]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example for each element type that all operands may have."""
        operands = len(cls.operands)
        legal = [set(dtypes) for dtypes in cls.legal] or [set(ELEMENT_TYPES)]
        return tuple(
            Example(cls(), (TensorType((3, 40), dtype),) * operands, ("edges",) * operands)
            for dtype in ELEMENT_TYPES
            if all(dtype in dtypes for dtypes in legal)
        )


class Unary(Elementwise, abstract=True):
    """An elementwise operation with one operand."""

    operands: ClassVar[tuple[str, ...]] = ("operand",)


class Binary(Elementwise, abstract=True):
    """An elementwise operation with two operands."""

    operands: ClassVar[tuple[str, ...]] = ("lhs", "rhs")
