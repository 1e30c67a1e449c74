"""The graph compiler: what stands in for neuronx-cc between a graph and a program of instructions.

A graph comes with AWS's flags (`Flags`). `casts` changes its data types as the flags say, and
`refusals` finds what neuronx-cc documents that it refuses, each under its code (`ncc_errors`).
"""

from __future__ import annotations

from trnsim.compiler.flags import Flags

__all__ = ["Flags"]
