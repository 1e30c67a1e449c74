"""Kernels of today under each version of NKI: they differ only where a row of the table says so.

What a kernel gives under NKI 0.6 is what the oracle checks. Under another version it gives the
same, or a row explains the difference that the two versions answer otherwise: the row that an error
names, or one of other values that was asked while the kernel ran.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from runner import NKI, Failure, execute

from trnsim.behaviours import VERSIONS, Effect, Version
from trnsim.behaviours.scalars import FORI_GIVES_SCALARS
from trnsim.behaviours.table import TABLE
from trnsim.behaviours.tensors import VIEW_METHODS
from trnsim.errors import EmulatorError


@dataclass
class Outcome:
    """What a kernel gave under a version: outputs or an error, and the rows that were asked."""

    outputs: list | None
    error: str
    asked: set

    def equals(self, other):
        """True if both gave the same, bit for bit."""
        if self.outputs is None or other.outputs is None:
            return self.outputs is other.outputs
        pairs = zip(self.outputs, other.outputs, strict=True)
        return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


@contextmanager
def asked_rows(lifted=()):
    """The names of the rows that a program asks for in this block; `lifted` ones always hold."""
    asked, follows = set(), Version.follows

    def recorded(version, row):
        asked.add(row.name)
        return row in lifted or follows(version, row)

    Version.follows = recorded
    try:
        yield asked
    finally:
        Version.follows = follows
    asked &= TABLE.keys()


def outcome(kernel, version, lifted=()):
    """What the kernel gives under a version."""
    with asked_rows(lifted) as asked:
        try:
            return Outcome(list(execute(kernel, version)), "", asked)
        except EmulatorError as error:
            return Outcome(None, str(error), asked)


_SUBJECTS = {FORI_GIVES_SCALARS.name: "NkiScalar"}
"""What the error of a consequence is about, where it does not name the row itself."""


def _words(row):
    subject = _SUBJECTS.get(row.name)
    return (row.otherwise, row.span, *((subject,) if subject else ()))


def explaining(found, version):
    """The rows that may have made an outcome another than that of `NKI`."""
    there, here = VERSIONS[version], VERSIONS[NKI]
    rows = [TABLE[name] for name in found.asked]
    rows = [row for row in rows if there.follows(row) != here.follows(row)]
    named = [row for row in rows if any(word in found.error for word in _words(row))]
    return named or [row for row in rows if row.effect is Effect.values]


def check_pins(kernel, versions=tuple(VERSIONS)):
    """The failure of a kernel under one of the versions, or None; and the rows that explained."""
    reference, explained = outcome(kernel, NKI), {}
    for version in versions:
        # Most kernels have a view method; with that row lifted the others are seen behind it.
        for lifted in ((), (VIEW_METHODS,)):
            found = reference if version == NKI else outcome(kernel, version, lifted)
            if found.equals(reference):
                break
            rows = explaining(found, version)
            if not rows:
                text = f"{found.error or 'other values'}; no row of the table explains it"
                return Failure(f"NKI {version}", text), explained
            names = {row.name for row in rows}
            explained[version] = sorted({*explained.get(version, ()), *names})
            if names != {VIEW_METHODS.name}:
                break
    return None, explained
