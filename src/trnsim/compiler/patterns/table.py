"""Every pattern of the compiler, in the order in which they are looked for."""

from __future__ import annotations

from typing import Final

from trnsim.compiler.patterns.attention import ATTENTION
from trnsim.compiler.patterns.hoist import AHEAD
from trnsim.compiler.patterns.merge import TWICE
from trnsim.graph.rewriting import Pattern
from trnsim.lower.legalize import legal_patterns
from trnsim.lower.patterns.contractions import IN_PARTS
from trnsim.lower.patterns.enlarging import ENLARGING
from trnsim.lower.patterns.rotation import ROTATION

PATTERNS: Final[tuple[Pattern, ...]] = (
    ATTENTION,
    TWICE,
    IN_PARTS,
    AHEAD,
    *legal_patterns(),
    ROTATION,
    ENLARGING,
)
