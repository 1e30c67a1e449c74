"""Notes what every kernel launch of a process gives; also a pytest plugin, which adds outcomes.

usage: TRNSIM_DIGEST=FILE TRNSIM_DIGEST_FOLDERS=A:B pytest -p digest_hook ...

A line of FILE is one JSON object: the key of a row and the row (digest.py). Of trnsim only names
that other versions have are used: `launch` of trnsim.runs, what it is given, and the Run it makes.
Messages are kept without the folders named, without addresses, and without trnsim's own lines.
"""

import functools
import hashlib
import json
import os
import random
import re
import sys
import tempfile
from contextlib import contextmanager
from enum import Enum
from importlib import import_module
from pathlib import Path

import numpy as np

FILE, FOLDERS = "TRNSIM_DIGEST", "TRNSIM_DIGEST_FOLDERS"
SHOWN = 60  # characters of an argument that is no array
SEED = 0


class Notes:
    """The rows of a process, each written as it is made.

    Attributes:
        path: the file to which they go.
        suite: the first part of every key.
        test: the second part, the same for all launches of a test.
        is_estimating: whether launches without values are an estimate's own, of which only the
            first of its kind happens; they are no rows then.
    """

    def __init__(self, path, suite, folders=()):
        self.path = Path(path)
        self.suite = suite
        self.test = ""
        self.is_estimating = False
        self.launches = 0
        self._rules = cleaning(folders)

    def begin(self, test):
        """Count launches anew, and seed what a test may draw from."""
        self.test, self.launches = test, 0
        seed()

    def write(self, place, **row):
        """A row of the test under way; `place` says which."""
        entry = {"key": f"{self.suite} | {self.clean(self.test)} | {place}", "row": row}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def clean(self, text):
        """The text without what differs from checkout to checkout and from run to run."""
        for pattern, put in self._rules:
            text = pattern.sub(put, text)
        return text

    def said(self, error):
        """An error in words."""
        return self.clean(f"{type(error).__name__}: {error}".rstrip(": "))

    @contextmanager
    def launching(self, kernel, args, kwargs, chip, has_values):
        """A row for the launch inside, which puts its Run into the list given."""
        self.launches += 1
        number, found = self.launches, []
        call = f"{kernel.title} on {chip.name}{described(args, kwargs)}"
        try:
            yield found
        except BaseException as error:
            self.write(number, call=self.clean(call), error=self.said(error))
            raise
        (run,) = found
        self.write(
            number,
            call=self.clean(call),
            values=fingerprint((run.outputs, args, kwargs)) if has_values else "",
            time=repr(run.total_time_s),
            instructions=sum(len(timeline) for timeline in run.timelines),
            warnings=[self.clean(text) for text in run.warnings],
        )


def cleaning(folders):
    """What is replaced in messages, and by what: patterns and texts, in order."""
    named = [(re.compile(re.escape(f"{folder}{os.sep}")), "") for folder in folders if folder]
    return [
        # The line of the user's program belongs to a refusal; lines of trnsim and of this do not.
        (re.compile(r"\S*\btrnsim/[\w/]+\.py:\d+"), "trnsim"),
        (re.compile(r"\S*\bdigest_\w+\.py:\d+"), "digest"),
        *named,
        (re.compile(r"\btrnsim(\.\w+)*\.(?=\w)"), ""),
        (re.compile(r"\b0x[0-9a-f]{6,}"), "0x"),
        (re.compile(re.escape(tempfile.gettempdir()) + r"/[\w./-]+"), "(temporary)"),
    ]


def seed():
    """Start every generator that a test may leave unseeded."""
    random.seed(SEED)
    np.random.seed(SEED)  # noqa: NPY002  theirs draw from it
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(SEED)


def described(args, kwargs):
    """The shapes and dtypes of arguments, other values in short."""
    named = [f"{name}={_described(value)}" for name, value in kwargs.items()]
    return f"({', '.join([*map(_described, args), *named])})"


def _described(value):
    if _is_array(value):
        return f"{str(value.dtype).removeprefix('torch.')}{[*map(int, value.shape)]}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_described, value))}]"
    if isinstance(value, dict):
        return described((), value)
    if isinstance(value, bool | int | float | str | None | np.generic):
        return f"{value!r:.{SHOWN}}"
    return value.name if isinstance(value, Enum) else type(value).__name__


def fingerprint(values):
    """sha256 of the dtypes, shapes and bytes of every array of nested values, and of numbers."""
    digest = hashlib.sha256()
    _feed(digest, values)
    return digest.hexdigest()


def _feed(digest, value):
    if _is_array(value):
        array, dtype = _bytes(value)
        digest.update(f"{dtype}{[*map(int, value.shape)]}".encode())
        digest.update(array)
    elif isinstance(value, dict):
        _feed(digest, list(value.items()))
    elif isinstance(value, tuple | list):
        digest.update(f"{len(value)} of".encode())
        for item in value:
            _feed(digest, item)
    elif isinstance(value, bool | int | float | complex | str | None | np.generic):
        digest.update(f"{type(value).__name__} {value!r}".encode())
    elif not isinstance(value, Enum) and hasattr(value, "__dict__"):
        _feed(digest, {name: item for name, item in vars(value).items() if _is_array(item)})


def _is_array(value):
    has_all = hasattr(value, "shape") and hasattr(value, "dtype")
    return has_all and not isinstance(value, np.generic | type)


def _bytes(array):
    """The array's bytes in order, and its dtype's name."""
    if type(array).__module__.partition(".")[0] == "torch":
        torch = sys.modules["torch"]
        plain = array.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return plain.reshape(-1).view(torch.uint8).numpy().data, str(array.dtype)
    plain = np.ascontiguousarray(np.asarray(array))
    return plain.reshape(-1).view(np.uint8).data, str(plain.dtype)


def _launch():
    """What every run goes through; its module was `trnsim.run` before `trnsim.runs`."""
    try:
        return import_module("trnsim.runs").launch
    except ModuleNotFoundError:
        return import_module("trnsim.run").launch


def hook(notes):
    """Note every launch from now on; the function undoes it."""
    original = _launch()

    @functools.wraps(original)
    def launch(kernel, args, kwargs, chip, *rest, **named):
        has_values = rest[0] if rest else named.get("numerics", True)
        if notes.is_estimating and not has_values:
            return original(kernel, args, kwargs, chip, *rest, **named)
        with notes.launching(kernel, args, kwargs, chip, has_values) as found:
            found.append(original(kernel, args, kwargs, chip, *rest, **named))
        return found[0]

    # An error is at the innermost line outside trnsim; frames of "<...>" are nobody's.
    launch.__code__ = launch.__code__.replace(co_filename="<digest>")
    _replace(original, launch)
    return lambda: _replace(launch, original)


def _replace(old, new):
    """Put a function in the place of another in every module of trnsim that has it."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "trnsim":
            for attribute, value in list(vars(module).items()):
                if value is old:
                    setattr(module, attribute, new)


def notes_of_process():
    """Notes as the environment asks for them."""
    file = Path(os.environ[FILE])
    return Notes(file, file.stem, os.environ.get(FOLDERS, "").split(os.pathsep))


class Plugin:
    """Rows for the launches of each test, and one for its outcome."""

    def __init__(self, notes):
        self.notes = notes

    def pytest_runtest_setup(self, item):
        self.notes.begin(item.nodeid)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = str(crash.message if crash is not None else report.longrepr)
            lines = [line for line in said.splitlines() if line.strip()]
            first = self.notes.clean(lines[0]) if lines else ""
            self.notes.write("outcome", outcome=f"failed in {report.when}: {first}")
        elif report.when == "call":
            self.notes.write("outcome", outcome=report.outcome)


def pytest_configure(config):
    if os.environ.get(FILE):
        notes = notes_of_process()
        hook(notes)
        config.pluginmanager.register(Plugin(notes))
