"""The graph compiler: what stands in for neuronx-cc between a graph and a program of instructions.

`compile` gives a graph's time as one program for each NeuronCore; `program` has its instructions
and its values, `patterns` what is done to a graph before that, and `emit` what each operation
issues. A graph comes with AWS's flags (`Flags`), which change its data types, and `ncc` finds what
neuronx-cc documents that it refuses, each under its code.
"""

from __future__ import annotations

from trnsim.compiler.compilation import CompiledProgram, compile  # noqa: A004  the compilers' name
from trnsim.compiler.flags import Flags

__all__ = ["CompiledProgram", "Flags", "compile"]
