"""One kernel: run it on trnsim, hold it against the oracle, make a failing one small."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from kernel import Alloc
from meanings import MEANINGS
from oracle import Oracle, Refused

import trnsim
from trnsim import isa
from trnsim.errors import EmulatorError, InternalError
from trnsim.nki.notices import DynamicLoopWarning, OlderFormWarning
from trnsim.program import current_core


@dataclass(frozen=True)
class Failure:
    """What is wrong with a kernel.

    Attributes:
        kind: "values", or the name of the exception.
        text: a description for people.
        output: the number of the output that differs, or -1.
    """

    kind: str
    text: str
    output: int = -1


@dataclass
class Tally:
    """Elements compared: with one possible value, with an interval of them, with none known."""

    exact: int = 0
    bounded: int = 0
    unknown: int = 0

    def add(self, other):
        self.exact += other.exact
        self.bounded += other.bounded
        self.unknown += other.unknown


def expected(kernel):
    """An interval for each output.

    Raises:
        Refused: where a step has no documented result.
    """
    oracle = Oracle(kernel.target, kernel.inputs)
    with np.errstate(all="ignore"):
        oracle.run(kernel.steps, MEANINGS)
    found = []
    for name, shape, *_ in kernel.outputs:
        tensor = oracle.tensors.get(name)
        if tensor is None or not tensor.written.all():
            raise Refused(f"{name} is not written")
        found.append(tensor.values.map(lambda values, shape=shape: values.reshape(shape)))
    return found


NKI = "0.6"
"""The version of NKI of these kernels: the last that has every kind of their loops."""


def file_name(kernel):
    """The name of the file that a kernel's lines seem to come from."""
    return f"fuzz-{kernel.seed}.py"


def compiled(kernel, source=None):
    """The kernel of its source, or of another text with the same inputs."""
    names = {"nki": nki, "nisa": nisa, "nl": nl, "np": np}
    names |= {"isa": isa, "current_core": current_core}
    exec(compile(source or kernel.source(), file_name(kernel), "exec"), names)  # noqa: S102  the test
    return names["kernel"]


def execute(kernel, version=NKI, notices=(DynamicLoopWarning,)):
    """What the kernel returns on trnsim.

    Args:
        kernel: the kernel.
        version: of NKI.
        notices: warnings that it may give; any other is an error.

    Raises:
        EmulatorError: what trnsim refuses.
    """
    made = compiled(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for notice in notices:
            warnings.simplefilter("ignore", notice)
        launched = made[2] if kernel.cores > 1 else made
        return trnsim.run(launched, *kernel.arrays(), target=kernel.target, nki=version).outputs


def check(kernel):
    """The failure of a legal kernel, or None; and what was compared."""
    tally = Tally()
    intervals = expected(kernel)
    try:
        outputs = execute(kernel)
    except Exception as error:  # noqa: BLE001  any exception of a legal kernel is a finding
        return Failure(type(error).__name__, str(error)), tally
    for number, (interval, output) in enumerate(zip(intervals, outputs, strict=True)):
        failure = _compare(kernel.outputs[number][0], number, interval, output)
        if failure is not None:
            return failure, tally
        unknown, exact = interval.unknown().sum(), (interval.low == interval.high).sum()
        exact += np.isnan(interval.low).sum()
        tally.add(Tally(int(exact), int(interval.low.size - exact - unknown), int(unknown)))
    return None, tally


def _compare(name, number, interval, output):
    values = np.asarray(output).astype(np.float64)
    wrong = ~interval.contains(values)
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    text = (
        f"{name}{list(first)} is {values[first]!r}; the oracle says {interval.low[first]!r} to "
        f"{interval.high[first]!r} ({int(wrong.sum())} of {wrong.size} elements differ)"
    )
    return Failure("values", text, number)


def check_refusal(kernel, *, must_fail):
    """The failure of an illegal kernel: not refused, or not by an error that helps; else None."""
    try:  # a mistake may be an older form, such as an integer for a member
        execute(kernel, notices=(DynamicLoopWarning, OlderFormWarning))
    except InternalError as error:
        return Failure("InternalError", str(error))
    except EmulatorError as error:
        if not error.fix:
            return Failure("no fix", str(error))
        if error.line is None or error.line.file != file_name(kernel):
            return Failure("no line of the kernel", str(error))
        return None
    except Exception as error:  # noqa: BLE001  any other exception is a finding
        return Failure(type(error).__name__, str(error))
    return Failure("accepted", "an illegal kernel ran") if must_fail else None


def shrink(kernel, failure):
    """The kernel without the steps and outputs that the failure does not need."""
    if failure.output >= 0:
        kernel = _try(replace(kernel, outputs=(kernel.outputs[failure.output],)), failure) or kernel
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for place in reversed(range(len(kernel.steps))):
            steps = kernel.steps[:place] + kernel.steps[place + 1 :]
            found = _try(replace(kernel, steps=steps), failure)
            if found is not None:
                kernel, is_smaller = found, True
    used = kernel.source().partition("\n    ")[2]
    inputs = {name: value for name, value in kernel.inputs.items() if name in used}
    return _try(replace(kernel, inputs=inputs), failure) or kernel


def _try(kernel, failure):
    """The kernel, without outputs that nothing allocates, if it still fails in the same way."""
    made = {step.name for step in kernel.steps if isinstance(step, Alloc)}
    kernel = replace(kernel, outputs=tuple(o for o in kernel.outputs if o[0] in made))
    try:
        found, _ = check(kernel)
    except Exception:  # noqa: BLE001  the oracle cannot tell what a step without its inputs does
        return None
    return kernel if found is not None and found.kind == failure.kind else None
