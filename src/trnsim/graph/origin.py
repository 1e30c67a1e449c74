"""The origin of an operation in the framework's program."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.errors import SourceLine


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an operation.

    Attributes:
        module: the path of the module that calls it ("encoder.layers.0.mlp"), or "".
        operator: the framework's operator that it is a part of ("aten::linear").
        line: the innermost line of the user's program that led to it.
    """

    module: str = ""
    operator: str = ""
    line: SourceLine | None = None
