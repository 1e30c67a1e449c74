"""Recording: each kernel is run once, without values, and its programs are kept.

Pricing with other constants, or in another order, needs no second run. The programs are kept in
build/accuracy until something changes that decides them: the rooms in which instructions are
recorded, the builders here, what a core can do, or a clone.
"""

from __future__ import annotations

import gc
import hashlib
import json
import pickle
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import builders
import micro
from launches import Launch
from published import is_single, kernel_of
from variants import VARIANTS

from trnsim import arch
from trnsim.errors import EmulatorError
from trnsim.files import write

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build" / "accuracy"
SOURCE = HERE.parents[1] / "src" / "trnsim"
ROOMS = ("isa", "memory", "nki", "program")
FILES = (
    *("builders.py", "launches.py", "micro.py", "nkilib.py", "nkibench.py", "tutorials.py"),
    "variants.py",
    SOURCE / "arch" / "features.py",
)
CLONES = ("nki-library", "aws-neuron-sdk")


@dataclass
class Recording:
    """What a run of a kernel left.

    Attributes:
        target: the chip.
        cores: the size of the logical core.
        runs: the programs of each run, one per core: one run of a kernel, up to two where the time
            of an instruction is read from their difference.
        refusal: why it was refused, on one line.
    """

    target: str
    cores: int = 1
    runs: list = field(default_factory=list)
    refusal: str = ""


def recorded(row, folder, variant=""):
    """The recording of a row, made now or before; of a variant, with the emulator changed so."""
    with _file(row, folder, variant).open("rb") as file, _collecting_no_garbage():
        recording = pickle.load(file)  # noqa: S301  our own file
        recording.runs = pickle.load(file)  # noqa: S301  likewise
    for programs in recording.runs:
        for program in programs:
            program.core = core_of(recording)  # not the core of when it was recorded
    return recording


@contextmanager
def _collecting_no_garbage():
    """Without the collector, unpickling is four times as fast; it makes no garbage."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def heading(row, folder):
    """The same without its runs, which is quick."""
    with _file(row, folder).open("rb") as file:
        return pickle.load(file)  # noqa: S301  our own file


def size_bytes(row):
    """The size of a row's recording, which grows with its instructions."""
    return (CACHE / f"{key(row)}.pkl").stat().st_size


def _file(row, folder, variant=""):
    """The file with a row's recording: one pickle without its runs, then one of these."""
    path = CACHE / f"{key(row)}{variant and '-'}{variant}.pkl"
    if not path.exists():
        with VARIANTS[variant].change() if variant else nullcontext():
            recording = record(launches_of(row, folder))
        write(path, pickle.dumps(replace(recording, runs=[])) + pickle.dumps(recording.runs))
    return path


def launches_of(row, folder):
    """The kernels to run for a row."""
    if is_single(row):
        return micro.MEASURES[row["id"]].launches
    return (builders.launch(row, folder),)


def record(launches):
    """The recording of a row's kernels, made now."""
    first = launches[0] if launches else Launch(None, "trn2", {})
    recording = Recording(first.target, first.cores)
    try:
        for launch in launches:
            timelines = launch.run().timelines
            recording.runs.append([timeline.program for timeline in timelines])
    except EmulatorError as error:
        recording.refusal = str(error).splitlines()[0]
    return recording


def core_of(recording, change=lambda core: core):
    """The core with which a recording is priced, after a change to the chip's."""
    core = change(arch.target(recording.target).core)
    return core if recording.cores == 1 else core.paired()


def key(row):
    """A name for the row's kernel at its shape; rows of one kernel and shape have the same one."""
    which = row["id"] if is_single(row) or kernel_of(row) in IN_THE_ID else ""
    what = [kernel_of(row), which, row["hardware"], row["shapes"]]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:20]


IN_THE_ID = ("matmul tutorial (Trn1)", "matmul guide (Trn2)", "mamba")
"""Kernels of which a row's id says the version."""


def record_all(rows, folder):
    """Record each of `rows`, with progress on stderr."""
    for number, row in enumerate(rows, 1):
        started = time.monotonic()
        _file(row, folder)
        spent = time.monotonic() - started
        told = f"\rrecorded {number}/{len(rows)} {row['id']} {spent:.1f} s\x1b[K"
        print(told, end="", file=sys.stderr)
    print(file=sys.stderr)


def forget_older(folder):
    """Empty the cache where what decides a program has changed since it was filled."""
    now = digest(ROOMS, FILES) + "".join(_commit(folder / clone) for clone in CLONES)
    keep_if_same(CACHE / "recorded", now, "*.pkl")


def digest(rooms, files):
    """A digest of the sources of rooms of the emulator and of files beside this one."""
    found = hashlib.sha256()
    sources = [path for room in rooms for path in sorted((SOURCE / room).rglob("*.py"))]
    for path in [*sources, *(HERE / name for name in files)]:
        found.update(path.read_bytes())
    return found.hexdigest()


def keep_if_same(stamp, now, pattern):
    """Remove the files of a pattern beside `stamp`, unless it says `now`; then let it say so."""
    if not stamp.exists() or stamp.read_text() != now:
        for path in stamp.parent.glob(pattern):
            path.unlink()
        write(stamp, now)


def _commit(clone):
    """The commit of a clone; nothing where it is not one."""
    asked = ["git", "-C", str(clone), "rev-parse", "HEAD"]
    return subprocess.run(asked, capture_output=True, check=False).stdout.decode()  # noqa: S603  our own words
