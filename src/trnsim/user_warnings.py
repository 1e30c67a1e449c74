"""Warnings of Python at the user's line, each shown once.

Errors of `trnsim.errors` stop a program; warnings are about legal but perhaps unintended uses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from trnsim.errors import SourceLine, user_line


class SpillWarning(UserWarning):
    """Live tensors exceed SBUF or PSUM; AWS's compiler moves some to the next memory and back.

    Source: memory-hierarchy-overview.rst, the note on the capacity of on-chip memory.
    """


_shown: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}
"""By file, Python's registry of the warnings already shown, by message, category and line."""


def warn(message: str, category: type[Warning], line: SourceLine | None = None) -> None:
    """Show a warning at `line`, by default the user's innermost, unless it was shown before."""
    line = line or user_line()
    file, number = (line.file, line.line) if line is not None else (__name__, 1)
    registry = _shown.setdefault(file, {})
    warnings.warn_explicit(message, category, file, number, registry=registry)


def warn_of_all(texts: Sequence[str], category: type[Warning]) -> None:
    """Warn with the first of `texts` and the number of further ones; without texts, do nothing."""
    if texts:
        others_text = f"\n  and {len(texts) - 1} more" if len(texts) > 1 else ""
        warn(texts[0] + others_text, category)


def warn_of_spills(overfull: Sequence[str]) -> None:
    """Warn of the tensors that exceeded SBUF or PSUM in a run."""
    warn_of_all(overfull, SpillWarning)
