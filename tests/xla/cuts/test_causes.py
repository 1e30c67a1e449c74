"""Causes of recompilations: forty programs, one cause each, with its line."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path


def programs():
    path = Path(__file__).parent / "recompiling.py"
    spec = importlib.util.spec_from_file_location("recompiling", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["recompiling"] = module
    spec.loader.exec_module(module)
    return module.PROGRAMS


def expected(program):
    lines, first = inspect.getsourcelines(program)
    for number, line in enumerate(lines):
        match = re.search(r"  # ([a-z ]+)$", line.rstrip())
        if match:
            return match[1], first + number
    raise AssertionError(program)


def test_forty_programs_recompile_for_the_cause_and_at_the_line_that_they_say():
    found = programs()
    import torch_xla

    from trnsim.xla.cuts import cutting
    from trnsim.xla.cuts.cutting import cuts

    cutting.compile_program = lambda *_: None  # causes are found before
    assert len(found) == 40
    wrong = []
    for program in found:
        cuts.ledger.forget()
        for number in (0, 1):
            result = program(number)
            torch_xla.sync()
            del result
        last = list(cuts.ledger.programs.values())[-1]
        kind, line = expected(program)
        cause = last.cause
        if cause is None or (cause.kind, cause.place[1]) != (kind, line):
            wrong.append((program.__name__, kind, line, cause))
    assert not wrong, "\n".join(map(str, wrong))
