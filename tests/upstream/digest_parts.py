"""The parts of the digest that are no tests: published times, peaks, examples, plans, PyTorch.

usage: TRNSIM_DIGEST=FILE TRNSIM_DIGEST_FOLDERS=A:B digest_parts.py PART FOLDER
"""

import io
import os
import runpy
import sys
import tempfile
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

from digest_hook import hook, notes_of_process
from ledger import sample

from trnsim.timing import policy_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SAMPLE = 20
"""Of the kernels with published times, which take a minute each at their largest."""
COMMANDS = (
    "run attention.py",
    "run mistake.py",
    *(f"run matmul_steps.py {step}" for step in "1234"),
    "run train_loop.py",
    "plan train llama-3.1-8b.json --tokens 1e10",
    "plan serve llama-3.1-8b.json --tensor-parallel-size 8 --max-num-seqs 16",
    "assess inventory.csv",
    "demo",
)


def accuracy(notes, folder):
    """A row for each published time of an instruction, and for some of kernels: their estimates."""
    sys.path.insert(0, str(ROOT / "bench" / "accuracy"))
    builders, micro, published, recording, pricing = map(import_module, ACCURACY)
    times = [row for row in published.rows() if published.is_time(row)]
    notes.begin("micro")
    for row in times:
        if row["id"] in micro.MEASURES:
            found = recording.record(micro.MEASURES[row["id"]].launches)
            core, order = recording.core_of(found), policy_of("compiler")
            time_s = pricing.work_s(row, found, core, order)
            notes.write(row["id"], time=repr(float(time_s)))
    by_name = {f"{row['family']}[{row['id']}]": row for row in times if builders.is_run(row)}
    chosen = sample(by_name, SAMPLE)
    os.chdir(folder / "nki-library")
    for name, row in by_name.items():
        if name in chosen:
            notes.begin(name)
            run = builders.launch(row, folder).run()
            interval = run.timeline.interval()
            notes.write("estimate", time=repr([run.total_time_s, interval.p10, interval.p90]))


ACCURACY = ("builders", "micro", "published", "recording", "pricing")
"""The modules of bench/accuracy that run the kernels of published times."""


def peaks(notes, folder):
    """A row for each peak."""
    del folder
    sys.path.insert(0, str(ROOT / "bench"))
    bench = import_module("peaks")
    notes.begin("rows")
    for what, target, found, *_ in bench.rows():
        notes.write(f"{what} {target}", time=repr(float(found)))
    notes.begin("chips")
    for chip, kind, found, _ in bench.chips():
        notes.write(f"{chip} {kind}", time=repr(float(found)))


def examples(notes, folder):
    """A row for what each command says of the examples, with their launches."""
    del folder
    for command in COMMANDS:
        notes.begin(command)
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            text, error = said_by(command)
            notes.write("output", text=notes.clean(text), error=notes.clean(error))
            os.chdir(ROOT)


def said_by(command):
    """What `trnsim COMMAND` prints, and the error or the exit status with which it ends."""
    words = [str(EXAMPLES / w) if (EXAMPLES / w).is_file() else w for w in command.split()]
    sys.argv = ["trnsim", *words]
    out = io.StringIO()
    sys.modules.pop("trnsim.__main__", None)  # runpy warns of a module that is there
    try:
        with redirect_stdout(out):
            runpy.run_module("trnsim", run_name="__main__")
    except SystemExit as end:
        return out.getvalue(), f"exit status {end.code}" if end.code else ""
    except Exception as error:  # noqa: BLE001  a refusal is a row
        return out.getvalue(), f"{type(error).__name__}: {error}"
    return out.getvalue(), ""


def plans(notes, folder):
    """A row for each question to a plan."""
    del folder
    import_module("digest_plans").run(notes)


def pytorch(notes, folder):
    """Operators and small models on the device."""
    del folder
    import_module("digest_torch").run(notes)


PARTS = {
    "accuracy": accuracy,
    "peaks": peaks,
    "examples": examples,
    "plans": plans,
    "torch": pytorch,
}


def main():
    """Write the rows of a part."""
    part, folder = sys.argv[1:]
    notes = notes_of_process()
    hook(notes)
    PARTS[part](notes, Path(folder))


if __name__ == "__main__":
    main()
