"""All patterns of the compiler, in the order in which they are applied."""

from __future__ import annotations

from typing import Final

from trnsim.compiler.patterns.attention import ATTENTION
from trnsim.compiler.patterns.hoist import WEIGHT_HOISTING
from trnsim.compiler.patterns.merge import COMMON_SUBEXPRESSION
from trnsim.graph.rewriting import Pattern
from trnsim.lower.legalize import legal_patterns
from trnsim.lower.patterns.contractions import SPLIT_CONTRACTION
from trnsim.lower.patterns.convolutions import SINGLE_WINDOW, VOLUME
from trnsim.lower.patterns.enlarging import IMAGE_ENLARGEMENT
from trnsim.lower.patterns.rotation import ROTATION
from trnsim.lower.patterns.selection import GATHERED_FIRST, SUM_OF_ONE

PATTERNS: Final[tuple[Pattern, ...]] = (
    ATTENTION,
    SINGLE_WINDOW,
    VOLUME,
    GATHERED_FIRST,
    SUM_OF_ONE,
    COMMON_SUBEXPRESSION,
    SPLIT_CONTRACTION,
    WEIGHT_HOISTING,
    *legal_patterns(),
    ROTATION,
    IMAGE_ENLARGEMENT,
)
