"""docs/generated/jax-ops.md: what becomes of each of StableHLO's operations."""

from __future__ import annotations

from typing import Final

from trnsim.jax.stablehlo import importing
from trnsim.jax.stablehlo.refused import REFUSED, RefusedOperation
from trnsim.jax.stablehlo.rules import RULES, Rule

_FAMILIES: Final = importing.RULES_IN
"""The modules whose import fills the table of rules."""
AWS: Final = {
    "stablehlo.case": "`jax.lax.cond` is not supported",
    "stablehlo.custom_call": "host callbacks are not supported",
    "stablehlo.dot_general": "not of integers; in the type of its operands",
    "stablehlo.gather": "an index out of bounds may end in an error",
    "stablehlo.if": "`jax.lax.cond` is not supported",
    "stablehlo.reduce": "variadic reductions are not supported",
    "stablehlo.reduce_precision": "not supported",
    "stablehlo.rng_bit_generator": "`rbg` is the algorithm to use: Threefry is supported in part",
    "stablehlo.scatter": "an index out of bounds may end in an error",
    "stablehlo.sort": "comparators of LE, GE, LT and GT",
    "stablehlo.while": "a number of trips that is known",
    **{
        f"stablehlo.{name}": "complex types are not supported"
        for name in ("complex", "fft", "imag", "real")
    },
}
"""What AWS documents of an operation (frameworks/jax/setup/jax-neuronx-known-issues.rst)."""
_RETURNS: Final = "stablehlo.return"

_HEAD = """\
# StableHLO's operations

A program of JAX is imported as a graph (`trnsim.jax.stablehlo.graph_of`, `trnsim compile FILE`).
Of the dialect's {all} operations {lowered} are lowered, {composed} composed, {host} left to the
host and {refused} refused:

- lowered: the graph has this operation, or it is control flow of the graph.
- composed: made of the operations that are named.
- host: XLA computes it on the host; a program with it has no time on the chip.
- refused: a program for a NeuronCore cannot have it. The error names the operation, the reason, and
  the line of your program.

The column AWS is from AWS's known issues of JAX
(`frameworks/jax/setup/jax-neuronx-known-issues.rst`).

| operation | here | how, and which forms | AWS |
|---|---|---|---|
"""
_OTHERS = """
## Operations of other dialects

`jax.jit(f).lower(x)` has these too. A portable artifact has CHLO's top_k and erf, as composites.

| operation | here | how, and which forms |
|---|---|---|
"""


def page() -> str:
    """The page in Markdown."""
    rows = {name: _row(name) for name in dialect()}
    counts = {
        kind: sum(row[0] == kind for row in rows.values())
        for kind in ("lowered", "composed", "host", "refused")
    }
    lines = [
        f"| `{name.partition('.')[2]}` | {here} | {how} | {AWS.get(name, '')} |"
        for name, (here, how) in rows.items()
    ]
    others = [
        f"| `{name}` | {' | '.join(_of_rule(RULES[name]))} |"
        for name in sorted(RULES)
        if not name.startswith("stablehlo.")
    ]
    head = _HEAD.format(all=len(rows), **counts)
    return head + "\n".join(lines) + "\n" + _OTHERS + "\n".join(others) + "\n"


def dialect() -> list[str]:
    """The names of StableHLO's operations, with the dialect."""
    ours = [name for name in RULES if name.startswith("stablehlo.")]
    return sorted({*ours, *REFUSED, _RETURNS})


def _row(name: str) -> tuple[str, str]:
    """What becomes of an operation, and how."""
    if name == _RETURNS:
        return "lowered", "the results of a function or a body"
    made = RULES.get(name)
    return _of_refusal(name, REFUSED[name]) if made is None else _of_rule(made)


def _of_rule(made: Rule) -> tuple[str, str]:
    first = (made.build.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    is_name = not first.partition(" ")[0][1:].islower() and first[1:2] != " "
    words = [first if is_name else first[:1].lower() + first[1:]]
    words += [f"of {made.composed}"] if made.composed else []
    words += [f"legal: {made.limits}"] if made.limits else []
    return "composed" if made.composed else "lowered", "; ".join(words).replace("|", "\\|")


def _of_refusal(name: str, found: RefusedOperation) -> tuple[str, str]:
    source = found.source.replace("{}", name.partition(".")[2])
    here = "host" if found.is_on_host else "refused"
    return here, f"{found.why}; {found.fix} ({source})"
