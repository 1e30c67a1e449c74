"""docs/generated/ncc-errors.md: the errors that AWS documents for neuronx-cc."""

from __future__ import annotations

from ncc_absent import ABSENT, Absent
from ncc_programs import PROGRAMS

from trnsim.compiler.ncc.errors import NCC_ERRORS, NccError

_HEAD = """\
# What neuronx-cc refuses

This page lists each error that AWS documents for its graph compiler (aws-neuron-sdk
`compiler/error-codes`), in our words: whether it can arise here, what to do about it, and a program
that raises it. {arising} of {all} can arise. Under `TRNSIM_POLICY=chip` they are errors, with the
operator and the line of your program. Otherwise `torch.compile` warns, `trnsim compile` prints
them, and the graph goes on as far as trnsim can take it; errors marked final are errors under
either policy. A test runs every program below.

Set flags such as `--implicit-integer-downcast` in `NEURON_CC_FLAGS`, in
`torch.compile(backend="neuron", options={{"implicit_integer_downcast": "none"}})`, and in
`trnsim compile --flags`.
"""


def page() -> str:
    """The page in Markdown."""
    arising = NCC_ERRORS.values()
    head = _HEAD.format(arising=len(arising), all=len(arising) + len(ABSENT))
    parts = [head, _table(), "## Programs that raise them\n", *map(_section, arising)]
    return "\n".join(parts)


def _table() -> str:
    documented: list[NccError | Absent] = [*NCC_ERRORS.values(), *ABSENT]
    documented.sort(key=lambda row: row.code)
    rows = [f"| {_named(row)} | {row.rule} | {_here(row)} | {row.fix} |" for row in documented]
    head = ["| code | what is refused | here | what to do |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _named(row: NccError | Absent) -> str:
    return row.code if isinstance(row, Absent) else f"[{row.code}](#{row.code.lower()})"


def _here(row: NccError | Absent) -> str:
    """Whether it arises, as a cell."""
    if isinstance(row, Absent):
        return f"no: {row.why_not}"
    return "yes, final" if row.is_final else "yes"


def _section(row: NccError) -> str:
    """An error that can arise, and the program that raises it."""
    said = f"{row.rule[0].upper()}{row.rule[1:]}."
    reading = f"\n{row.reading}\n" if row.reading else ""
    return f"### {row.code}\n\n{said}\n{reading}\n```python\n{PROGRAMS[row.code]}```\n"
