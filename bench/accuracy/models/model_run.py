"""`make accuracy`: what the programs of published rows take; writes programs.json.

usage: model_run.py [--only WORD] [--patience SECONDS] [--graphs | --kept]

Each graph is made once and priced once; what was found lies in build/accuracy/models, a file a
graph, so that a stopped run goes on where it was. `--only` takes rows whose id, class or model has
the word, `--graphs` makes graphs alone, `--kept` takes what is known already, `--patience` leaves
out what takes longer to compile. programs.json, beside this file, keeps rows that are not taken or
left out; docs/generated/accuracy-models.md is written from it by `bench/system/page.py`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import pickle
import signal
import sys
import time
from pathlib import Path

import model_rows
import programs
from graphs import graph_of
from model_estimate import Estimate, whole
from model_fit import Row

from trnsim.errors import EmulatorError
from trnsim.files import write

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
KEPT = ROOT / "build" / "accuracy" / "models"
SOURCE = ROOT / "src" / "trnsim"
OF_GRAPHS = (
    *("device/configured.py", "graph", "torch/aten", "torch/compile", "torch/models"),
    "workload",
)
OF_TIMES = (
    *("arch", "compiler", "dtypes", "graph", "isa", "lower", "memory", "nki", "program"),
    *("timing", "runs.py"),
)


_LATE = "not compiled within"
MANY, LONG = 4, 8192
"""Prompts, and tokens of all of them, from which on one prompt and two stand for all."""


def digest(places, files):
    """Of the statements in rooms of the emulator and in files beside this one."""
    paths = [HERE / name for name in files]
    for place in places:
        path = SOURCE / place
        paths += [path] if path.is_file() else sorted(path.rglob("*.py"))
    found = hashlib.sha256()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        found.update((statements(text) if path.suffix == ".py" else text).encode())
    return found.hexdigest()


def statements(source):
    """A module's statements, without comments and docstrings, on which no program depends."""
    module = ast.parse(source)
    for part in ast.walk(module):
        if isinstance(getattr(part, "body", None), list):
            part.body = [statement for statement in part.body if not _is_text(statement)]
    return ast.dump(module)


def _is_text(statement):
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


class Known:
    """What was found already, by what it is of and by the sources that decide it."""

    def __init__(self, patience_s=0):
        self.patience_s = patience_s
        signal.signal(signal.SIGALRM, _out_of_time)
        files = ("graphs.py", "parts.py", "vision.py", "architectures.json")
        self.graphs = digest(OF_GRAPHS, files)
        both = digest(OF_TIMES, ("model_estimate.py",)) + self.graphs
        self.times = hashlib.sha256(both.encode()).hexdigest()

    def graph_path(self, spec):
        """The file of a part's graph."""
        return KEPT / f"{_key(spec, self.graphs)}.pkl"

    def graph(self, spec):
        """The graph of a part."""
        path = self.graph_path(spec)
        if not path.exists():
            write(path, pickle.dumps(graph_of(**spec)), parents=True)
        return pickle.loads(path.read_bytes())  # noqa: S301  our own file

    def estimate(self, spec, target, lnc, cast):
        """What a part takes; what it cannot be priced for is kept as well."""
        path = KEPT / f"{_key([spec, target, lnc, cast], self.times)}.json"
        if not path.exists():
            made = self._found(spec, target, lnc, cast)
            if made.get("refusal", "").startswith(_LATE):
                return made
            write(path, json.dumps(made), parents=True)
        found = json.loads(path.read_text())
        return found if "refusal" in found else Estimate(**found)

    def is_known(self, case):
        """Whether all parts of a row are priced."""
        options = (case.target, case.lnc, case.cast)
        keys = [_key([part.spec, *options], self.times) for part in case.parts]
        return all((KEPT / f"{key}.json").exists() for key in keys)

    def _found(self, spec, target, lnc, cast):
        made = self.graph(spec)
        signal.alarm(self.patience_s)
        try:
            return whole(made, target, lnc, cast, self._fewer(spec)).as_dict()
        except EmulatorError as error:
            return {"refusal": str(error).splitlines()[0]}
        except TimeoutError:
            return {"refusal": f"{_LATE} {self.patience_s} s"}
        finally:
            signal.alarm(0)

    def _fewer(self, spec):
        """Graphs of one prompt and of two, where there are many long ones."""
        batch, tokens = spec.get("batch", 1), spec.get("sequence", 0)
        if spec.get("phase") != "prefill" or batch < MANY or batch * tokens < LONG:
            return ()
        return *(self.graph({**spec, "batch": n}) for n in (1, 2)), batch


def _out_of_time(*_):
    raise TimeoutError


def _key(what, decided):
    text = json.dumps([what, decided], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def asked():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--patience", type=int, default=0, help="seconds for a graph; 0: any")
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--kept", action="store_true")
    return parser.parse_args()


def words(case):
    """What `--only` looks at."""
    return f"{case.row['id']} {case.kind} {case.row['kernel_or_model']}"


def priced(known, case):
    """A row with what its parts take, or why it has none."""
    parts = [known.estimate(part.spec, case.target, case.lnc, case.cast) for part in case.parts]
    refusals = [one["refusal"] for one in parts if isinstance(one, dict)]
    return refusals[0] if refusals else programs.found_of(Row(case, parts), known.times)


def main():
    """Price every row and keep what was found."""
    given = asked()
    known = Known(given.patience)
    chosen = [case for case in model_rows.cases() if not case.left_out]
    chosen = [case for case in chosen if given.only in words(case)]
    if given.kept:
        chosen = [case for case in chosen if known.is_known(case)]
    rows, refused = programs.read()
    for number, case in enumerate(chosen, 1):
        started, name = time.monotonic(), case.row["id"]
        if given.graphs:
            for part in case.parts:
                known.graph(part.spec)
        else:
            found = priced(known, case)
            is_refused = isinstance(found, str)
            if not (is_refused and found.startswith(_LATE) and name in rows):
                kept, other = (refused, rows) if is_refused else (rows, refused)
                kept[name] = found
                other.pop(name, None)
                programs.keep(rows, refused)
        spent = time.monotonic() - started
        print(f"{number}/{len(chosen)} {name} {spent:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
