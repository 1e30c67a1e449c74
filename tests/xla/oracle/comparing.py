"""Our answers beside those of the real torch_xla, and the table of their differences."""

import gc
import importlib
import json
import math
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "programs")]

from oracle_run import answer_of, programs_of

MODULES = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
TOLERANCE = 1e-5
NOT_COMPARED = {"TransferToDeviceTime"}
"""The real one sends numbers to the device too, as its graphs need them."""


def stored(module):
    """Program -> the real package's answer."""
    return json.loads((HERE / "answers" / f"{module}.json").read_text(encoding="utf-8"))


def table():
    """The rows of the table of differences."""
    return tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))["difference"]


def is_close(ours, theirs):
    """True of equal values, floating-point numbers within the tolerance."""
    if isinstance(theirs, bool) or isinstance(ours, bool):
        return ours is theirs
    if isinstance(theirs, int | float) and isinstance(ours, int | float):
        return math.isclose(ours, theirs, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(is_close, ours, theirs))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(is_close(ours[k], theirs[k]) for k in theirs)
    return ours == theirs


def parts(answer):
    """Field -> value of an answer."""
    counted = {k: v for k, v in answer.get("counted", {}).items() if k not in NOT_COMPARED}
    return {
        "ended": answer.get("ended", ""),
        "result": answer.get("result"),
        "printed": answer.get("printed", ""),
        "error": (answer.get("error") or [""])[0],
        **counted,
    }


def differences(ours, theirs):
    """The fields in which two answers differ, with both values."""
    own, real = parts(ours), parts(theirs)
    if real["error"] in ours.get("error", []):  # ours may be a class below it
        own["error"] = real["error"]
    lacking = dict.fromkeys({*own, *real}, 0)
    own, real = lacking | own, lacking | real
    return {f: (own[f], real[f]) for f in sorted(lacking) if not is_close(own[f], real[f])}


def rows_of(rows, name, field):
    """The rows of the table for a field of a program, as MODULE.PROGRAM."""
    return [
        row
        for row in rows
        if any(fnmatchcase(name, pattern) for pattern in row["programs"])
        and any(fnmatchcase(field, pattern) for pattern in row["fields"])
    ]


def own_answers(module):
    """Program -> our answer."""
    programs = programs_of(importlib.import_module(module))  # it may set variables first
    import torch_xla.debug.metrics as met

    from trnsim.xla.cuts.cutting import cuts

    answers = {}
    for name, program in programs.items():
        met.clear_all()
        cuts.ledger.forget()
        cuts.recorder.settle()
        gc.freeze()  # what a program leaves is found soon
        answers[name] = answer_of(program)
    return answers
