"""The graph compiler, in the place of neuronx-cc: from a graph to a program of instructions.

`compile` estimates a graph's time as one program for each NeuronCore; `program` generates its
instructions and computes its values, `patterns` rewrites the graph first, and `emit` has the
instructions of exchanges. A graph comes with AWS's flags (`Flags`), which change its data types.
`ncc` checks for what neuronx-cc documents that it refuses, by error code.
"""

from __future__ import annotations

from trnsim.compiler.compilation import compile  # noqa: A004  the compilers' name
from trnsim.compiler.compiled_program import CompiledProgram
from trnsim.compiler.flags import Flags

__all__ = ["CompiledProgram", "Flags", "compile"]
