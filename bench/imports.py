"""`make bench`: how long imports take, as ratios to numpy's in the same run.

Each statement runs in processes of its own, in turn with the others, all with compiled bytecode in
one folder. The time is the CPU time that the process used in user mode, which other work on the
machine disturbs less than wall time, and has Python's own start in it; the figure is the ratio of
the least times, with the median of the ratios of each round beside it.

PyTorch loads the device when it is imported. What that takes is the difference from an import with
TORCH_DEVICE_BACKEND_AUTOLOAD=0: of the least times, and the median of each round's. What
`import torch_xla` takes is the difference from an import of PyTorch with the device.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile

ROUNDS = 15
NUMPY, PARSER = "import numpy", "import numpy, typer"
ROWS = {
    "import trnsim": (NUMPY, 1.3),
    "from trnsim import run": (NUMPY, None),
    "import nki": (NUMPY, 1.3),
    "import trnsim.cli": (PARSER, 1.8),
    "from trnsim.cli import app; app(['--help'])": (PARSER, 1.8),
}
"""A statement, what it is compared with, and the ratio that it should not exceed."""
PYTORCH = "import torch"
BARE = "PyTorch without backends"
PYTORCH_ROWS = {
    PYTORCH: (BARE, 0.2),
    "import torch; torch.ones(1, device='neuron')": (BARE, 0.5),
    "import torch, torch_xla": (PYTORCH, 0.05),
}
"""A statement, what it is compared with, and the seconds that it should at most take more."""
WITHOUT_BACKENDS = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def seconds(statement, environment):
    """CPU time in user mode of a Python that runs `statement`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(  # noqa: S603  one of the statements above
        [sys.executable, "-c", statement],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def measured(statements, folder):
    """The times of each statement, round by round; a first round compiles.

    `statements` are by name, each with the variables of its environment.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = folder
    times = {name: [] for name in statements}
    for turn in range(ROUNDS + 1):
        for name, (statement, variables) in statements.items():
            spent = seconds(statement, environment | variables)
            if turn:
                times[name].append(spent)
    return times


def main():
    """A row for each statement."""
    with tempfile.TemporaryDirectory() as folder:
        times = measured({name: (name, {}) for name in (NUMPY, PARSER, *ROWS)}, folder)
        statements = {BARE: (PYTORCH, WITHOUT_BACKENDS)} | {row: (row, {}) for row in PYTORCH_ROWS}
        pytorch_times = measured(statements, folder)
    print(f"{'':<45} {'ms':>5}   {'ratio to':<20} {'best':>5} {'median':>6}   at most")
    for statement, (other, limit) in ROWS.items():
        ours, theirs = times[statement], times[other]
        middle = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        print(
            f"{statement:<45} {min(ours) * 1e3:5.0f}   {other:<20} {min(ours) / min(theirs):5.2f}"
            f" {middle:6.2f}   {'-' if limit is None else limit}"
        )
    print(f"\n{'':<45} {'ms':>5}   {'s more than':<25} {'best':>5} {'median':>6}   at most")
    for statement, (other, limit) in PYTORCH_ROWS.items():
        ours, theirs = pytorch_times[statement], pytorch_times[other]
        middle = statistics.median(a - b for a, b in zip(ours, theirs, strict=True))
        above = min(ours) - min(theirs)
        print(
            f"{statement:<45} {min(ours) * 1e3:5.0f}   {other:<25} {above:5.2f} {middle:6.2f}"
            f"   {limit}"
        )


if __name__ == "__main__":
    main()
