"""Random programs of NKI 0.7: grids, scalars, device loops, exchanges in two steps.

python tests/fuzz/latest.py --seed 0 --programs 10000

For each seed a legal program, which gives what numpy says, and one with a mistake, which ends in a
named error at its line with what to write instead; so does, or runs, one with another number.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
import warnings
from dataclasses import dataclass, replace

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from latest_mistakes import EDGES, EXCHANGES, MISTAKES, PREAMBLE
from latest_parts import PARTS, RANKS, Draft, exchange

import trnsim
from trnsim.errors import EmulatorError, InternalError

VERSION = "0.7"
_EXCHANGES = 0.1
"""Share of programs that run on ranks."""
_OTHER_NUMBERS = 0.3
"""Share of the programs with a mistake whose mistake is a number."""
_OF_A_PART = 0.5
"""Share of the other programs with a schedule or an exchange whose mistake is in it."""


@dataclass(frozen=True)
class Program:
    """A kernel as text, its arguments and what it returns.

    Attributes:
        seed: the number that it was made from.
        ranks: on how many ranks it runs.
        lines: its statements, the last of which returns.
        inputs: for each argument its array on each rank.
        outputs: the returned arrays on each rank, in order.
        schedule: the edges of `with_schedule`.
    """

    seed: int
    ranks: int
    lines: tuple
    inputs: dict
    outputs: tuple
    schedule: tuple = ()

    @property
    def file(self):
        """The file that its lines seem to come from."""
        return f"latest-{self.seed}.py"

    def source(self):
        body = "\n".join(f"    {line}" for line in self.lines)
        end = f"kernel = kernel.with_schedule({list(self.schedule)!r})\n" if self.schedule else ""
        return f"@nki.jit\ndef kernel({', '.join(self.inputs)}):\n{body}\n{end}"

    def execute(self):
        """What each rank returns.

        Raises:
            EmulatorError: what trnsim refuses.
        """
        names = {"nki": nki, "nisa": nisa, "nl": nl, "ncc": ncc, "np": np}
        exec(compile(self.source(), self.file, "exec"), names)  # noqa: S102  the test
        kernel = names["kernel"]
        arrays = [
            [np.array(each[rank]) for each in self.inputs.values()] for rank in range(self.ranks)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.ranks == 1:
                return [trnsim.run(kernel, *arrays[0], nki=VERSION).outputs]
            world = trnsim.run(kernel, ranks=self.ranks, inputs=arrays.__getitem__, nki=VERSION)
            return world.outputs


def generate(seed):
    """The legal program of a seed."""
    rng = np.random.default_rng((seed, 7))
    draft = Draft(rng, RANKS if rng.random() < _EXCHANGES else 1)
    if draft.ranks > 1:
        exchange(draft)
    for _ in range(draft.draw(draft.ranks == 1, 3)):
        draft.pick(*PARTS)(draft)
    lines = (*draft.lines, f"return [{', '.join(draft.outputs)}]")
    outputs = tuple(zip(*draft.outputs.values(), strict=True))
    return Program(seed, draft.ranks, lines, draft.inputs, outputs, tuple(draft.schedule))


def mutate(program):
    """The program with a mistake, and whether nothing can take it."""
    rng = np.random.default_rng((program.seed, 8))
    numbers = [at for at, line in enumerate(program.lines) if re.search(r"\b\d+\b", line)]
    if numbers and rng.random() < _OTHER_NUMBERS:
        return replace(program, lines=_other_number(rng, program.lines, numbers)), False
    if program.ranks > 1 and rng.random() < _OF_A_PART:
        right, wrong = EXCHANGES[int(rng.integers(len(EXCHANGES)))]
        lines = tuple(line.replace(right, wrong) for line in program.lines)
        return replace(program, lines=lines), True
    if program.schedule and rng.random() < _OF_A_PART:
        return replace(program, schedule=EDGES[int(rng.integers(len(EDGES)))]), True
    text, choices = MISTAKES[int(rng.integers(len(MISTAKES)))]
    drawn = {name: values[int(rng.integers(len(values)))] for name, values in choices.items()}
    lines = (*program.lines[:-1], *PREAMBLE.split("\n"))
    lines += (*text.format(**drawn).split("\n"), program.lines[-1])
    return replace(program, lines=lines), True


def _other_number(rng, lines, numbers):
    """The lines with one integer replaced."""
    at = numbers[int(rng.integers(len(numbers)))]
    found = list(re.finditer(r"\b\d+\b", lines[at]))
    one = found[int(rng.integers(len(found)))]
    value = int(one.group())
    other = (0, 1, value + 1, max(value - 1, 0), 2 * value, 10**6)[int(rng.integers(6))]
    line = lines[at][: one.start()] + str(other) + lines[at][one.end() :]
    return (*lines[:at], line, *lines[at + 1 :])


def check(program):
    """The difference of a legal program from numpy, or its refusal; "" if there is none."""
    try:
        outputs = program.execute()
    except Exception:  # noqa: BLE001  any exception of a legal program is a finding
        return traceback.format_exc(limit=-3)
    for rank, (given, expected) in enumerate(zip(outputs, program.outputs, strict=True)):
        for number, (ours, theirs) in enumerate(zip(given, expected, strict=True)):
            if not np.array_equal(ours, theirs):
                return f"rank {rank}, out{number} differs:\n{ours}\n{theirs}"
    return ""


def check_refusal(program, *, must_fail):
    """What is wrong with the end of a program with a mistake; "" for a named error that helps."""
    try:
        program.execute()
    except InternalError:
        return traceback.format_exc(limit=-3)
    except EmulatorError as error:
        if not error.fix:
            return f"no fix: {error}"
        if error.line is None or error.line.file != program.file:
            return f"no line of the program: {error}"
        return ""
    except Exception as error:  # noqa: BLE001  any other exception is a finding
        is_own = traceback.extract_tb(error.__traceback__)[-1].filename == program.file
        return "" if is_own else traceback.format_exc(limit=-3)  # of the program's own lists
    return "a program with a mistake ran" if must_fail else ""


def examine(seed):
    """The failures of the two programs of a seed, as text."""
    program = generate(seed)
    wrong, must_fail = mutate(program)
    ends = [(program, check(program)), (wrong, check_refusal(wrong, must_fail=must_fail))]
    return [f"seed {seed}\n{made.source()}\n{text}" for made, text in ends if text]


def main(arguments=None):
    """Examine the seeds; 1 where a program failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=10_000)
    given = parser.parse_args(arguments)
    failures = 0
    for seed in range(given.seed, given.seed + given.programs):
        for text in examine(seed):
            failures += 1
            print(text)
    print(f"{given.programs} programs of NKI 0.7, and as many with a mistake: {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
