"""A kernel that is called again: recorded on some inputs, run on others, held against a fresh run.

By `trnsim.run` its Python is called and compared with the record, once as it was and once edited,
where it has to leave the record; by `trnsim.record` it is not called.
"""

from __future__ import annotations

import random
import re

import nki
import numpy as np
from runner import NKI, Failure, compiled

import trnsim
from trnsim.behaviours.chosen import pinned
from trnsim.errors import BadInput, EmulatorError

OPERATORS = re.compile(r"nl\.(add|subtract|multiply)\b")


def check_again(kernel):
    """The failure of a legal kernel that is called again, or None."""
    with pinned(NKI, "the fuzzer"):
        return _check_again(kernel)


def _check_again(kernel):
    first = kernel.arrays
    others = shuffled(kernel)
    body = [compiled(kernel)]

    def switched(*arrays):
        return body[0].__wrapped__(*arrays)

    again = launched(kernel, nki.jit(switched))
    for _ in range(2):
        called(again, first, kernel.target)
    failure = compare("called again", kernel, again, fresh(kernel, switched), others)
    if failure is None:
        failure = check_replay(kernel, switched, first, others)
    if failure is None:
        for _ in range(2):
            called(again, first, kernel.target)
        body[0] = edited(kernel)
        failure = compare("changed", kernel, again, fresh(kernel, switched), others)
    return failure


def check_replay(kernel, switched, first, others):
    """The failure of the kernel's replay on other inputs."""
    try:
        made = launched(kernel, nki.jit(switched))
        replay = trnsim.record(made, *first(), target=kernel.target)
    except BadInput as error:
        return None if "cannot be recorded" in str(error) else Failure("record", str(error))
    expected = outcome(lambda: called(fresh(kernel, switched), others, kernel.target))
    found = outcome(lambda: replay(*others()))
    for facts in (found, expected):  # its inputs were first seen where it was recorded
        for core in range(kernel.cores):
            facts.pop(f"uses {core}", None)
    return None if found == expected else Failure("replay", difference(found, expected))


def compare(what, kernel, again, anew, others):
    """The failure if a kernel with a record does otherwise than one without."""
    found, expected = (
        outcome(lambda made=made: called(made, others, kernel.target)) for made in (again, anew)
    )
    return None if found == expected else Failure(what, difference(found, expected))


def called(made, arrays, target):
    """A run of the kernel: always from this line, where its inputs seem to be made."""
    return trnsim.run(made, *arrays(), target=target)


def outcome(run):
    """Everything that a run tells, or the error that it ends in."""
    try:
        return told(run())
    except EmulatorError as error:
        return {"error": str(error), "line": str(error.line)}
    except UnboundLocalError as error:  # of exchanged lines
        return {"error": str(error)}


def told(run):
    """What a run says, without the numbers that differ from run to run."""
    facts = {"outputs": [np.asarray(output).tobytes() for output in run.outputs]}
    facts |= {"warnings": run.warnings, "time": run.total_time_s}
    for core, timeline in enumerate(run.timelines):
        program = timeline.program
        facts |= {
            f"instructions {core}": [str(span) for span in timeline.spans()],
            f"waits for {core}": [list(program.waits_for(i)) for i in range(len(program))],
            f"follows {core}": [list(program.follows(i)) for i in range(len(program))],
            f"uses {core}": [str(use) for use in program.uses.values()],
        }
    return facts


def difference(found, expected):
    """The first fact in which two outcomes differ."""
    for key in {**expected, **found}:
        one, other = found.get(key), expected.get(key)
        if one != other:
            return f"{key} is {one!r:.300}; a fresh kernel has {other!r:.300}"
    return "nothing"


def fresh(kernel, function):
    """A kernel of a function that has never been called."""
    return launched(kernel, nki.jit(function))


def launched(kernel, made):
    """The kernel on as many cores as it is for."""
    return made[2] if kernel.cores > 1 else made


def shuffled(kernel):
    """Gives the kernel's inputs with the values of each in another order.

    A loop that values end might then go on for ever: its kernel is given the same inputs again.
    """
    if "while_loop" in kernel.source():
        return kernel.arrays
    rng = np.random.default_rng(kernel.seed)
    orders = [rng.permutation(array.size) for array in kernel.arrays()]

    def arrays():
        pairs = zip(kernel.arrays(), orders, strict=True)
        return [array.reshape(-1)[order].reshape(array.shape) for array, order in pairs]

    return arrays


def edited(kernel):
    """The kernel with an instruction left out, two exchanged, another operator, or a line lower.

    A loop that values end might then go on for ever: its kernel stays as it is.
    """
    lines = kernel.source().split("\n")
    calls = [i for i, line in enumerate(lines) if line.startswith("    nisa.")]
    if "while_loop" in kernel.source() or not calls:
        return compiled(kernel)
    chance = random.Random(kernel.seed)  # noqa: S311  no secret
    one, other = chance.choice(calls), chance.choice(calls)
    kind = kernel.seed % 4
    if kind == 0:
        lines[one] = "    pass"
    elif kind == 1:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == len(("left out", "exchanged")):
        lines = [OPERATORS.sub("nl.maximum", line) for line in lines]
    else:
        lines.insert(2, "")
    return compiled(kernel, "\n".join(lines))
