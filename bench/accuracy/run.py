"""`make accuracy`: published times against estimates, row by row; writes docs/accuracy.md.

usage: run.py FOLDER

FOLDER holds clones of nki-library and aws-neuron-sdk. What was recorded of each kernel is kept in
build/accuracy, so that an interrupted run goes on where it was, if the emulator is still the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import fit
import micro
import page

import kernels
import trnsim
from trnsim.arch import NEURONCORE_V3
from trnsim.files import write

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build" / "accuracy"
SOURCE = HERE.parents[1] / "src" / "trnsim"
ROOMS = ("arch", "isa", "memory", "nki", "program", "timing")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}


@dataclass
class Result:
    """A row with what was estimated for it.

    Attributes:
        row: as rows.json has it.
        kernel: what is left out together.
        cores: the size of the logical core.
        measured_s: published time.
        estimate_s: with the shipped constants.
        p10_s, p90_s: its interval.
        times: device times at points of the grid, where the row is a kernel of Trn2.
    """

    row: dict
    kernel: str
    cores: int
    measured_s: float
    estimate_s: float
    p10_s: float
    p90_s: float
    times: dict = field(default_factory=dict)


def kernel_of(row):
    """What is left out together: all shapes of one kernel."""
    family = row["family"]
    for name in ("attncte", "mlptkg", "tut-matmul", "instr", "dma-curve"):
        if family.startswith(name):
            return name
    raise ValueError(family)


def recorded(row, folder, make):
    """The timelines of a kernel, recorded once: (programs, interval, grid)."""
    path = CACHE / f"{row['id']}.pkl"
    if path.exists():
        return pickle.loads(path.read_bytes())  # noqa: S301  our own file
    cores, run = estimated(row, folder, make)
    programs = [timeline.program for timeline in run.timelines]
    times = fit.device_times(programs) if run.target.name == "trn2" else {}
    interval = run.timeline.interval()
    found = (cores, run.total_time_s, interval.p10, interval.p90, times)
    write(path, pickle.dumps(found))
    return found


def estimated(row, folder, make):
    """The size of the logical core, and the run without values, of a row's kernel."""
    kernel, cores, arguments = make(row, folder)
    arguments = {name.removesuffix(".must_alias_input"): a for name, a in arguments.items()}
    target = "trn1" if row["family"].endswith("trn1") else "trn2"
    launched = kernel[cores] if cores > 1 else kernel
    return cores, trnsim.run(launched, target=target, numerics=False, kernel_kwargs=arguments)


def forget_older_emulators():
    """Empty the cache where what decides a kernel's time has changed since it was filled."""
    digest = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            digest.update(path.read_bytes())
    stamp = CACHE / "emulator"
    if not stamp.exists() or stamp.read_text() != digest.hexdigest():
        for path in CACHE.glob("*.pkl"):
            path.unlink()
        write(stamp, digest.hexdigest())


def results(folder):
    """Every row that can be run; and the ids of those that cannot, with the reason."""
    rows = json.loads((HERE / "rows.json").read_text())
    found, left = [], {}
    answers = micro.estimates()
    makers = {
        "attncte": kernels.attention_cte,
        "mlptkg": kernels.mlp_tkg,
        "tut-matmul": kernels.matmul,
    }
    for number, row in enumerate(rows, 1):
        started, kernel = time.monotonic(), kernel_of(row)
        why = left_out(row, answers)
        if why:
            left[row["id"]] = why
        elif kernel in makers:
            cores, estimate_s, p10_s, p90_s, times = recorded(row, folder, makers[kernel])
            measured_s = row["value"] * SECONDS[row["unit"]]
            found.append(Result(row, kernel, cores, measured_s, estimate_s, p10_s, p90_s, times))
        else:
            s = answers[row["id"]]
            found.append(Result(row, kernel, 1, measured(row), s, s * 0.82, s * 1.21))
        spent = time.monotonic() - started
        print(f"\r{number}/{len(rows)} {row['id']} {spent:.1f} s\x1b[K", end="", file=sys.stderr)
    print(file=sys.stderr)
    return found, left


def measured(row):
    """Seconds; on the DMA curve from the share of the plateau, which is taken as documented."""
    if kernel_of(row) != "dma-curve":
        return row["value"] * SECONDS[row["unit"]]
    return 128 * row["shapes"]["F_bytes"] / (row["value"] * float(NEURONCORE_V3.dma_bytes_per_s))


def left_out(row, answers):
    """Why a row is not run; an empty string where it is."""
    if row["family"] == "tut-matmul-trn2":
        return "variants v2 to v5 of a guide whose code is not among the public examples"
    if row["family"] == "tut-matmul-trn1" and row["metric"] != "device_latency_p50":
        return "the same run's utilization, which its time implies"
    if row["family"] in ("instr", "dma-curve") and row["id"] not in answers:
        return "not modelled: table loads, LoadStationary alone, packets of single engines"
    return ""


def leave_one_out(found):
    """Kernel -> (constants chosen on the others, errors on its rows)."""
    by_kernel = defaultdict(list)
    for result in found:
        by_kernel[result.kernel].append(result)
    chosen = {}
    for kernel, own in by_kernel.items():
        others = [r for r in found if r.kernel != kernel and r.times]
        constants = fit.fit([(r.times, r.cores, r.measured_s) for r in others])
        errors = [
            (fit.estimate(r.times, r.cores, constants) if r.times else r.estimate_s) / r.measured_s
            - 1
            for r in own
        ]
        chosen[kernel] = (constants, errors)
    everything = [(r.times, r.cores, r.measured_s) for r in found if r.times]
    return fit.fit(everything), chosen


def main():
    """Run every row and write the page."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    CACHE.mkdir(parents=True, exist_ok=True)
    forget_older_emulators()
    os.chdir(folder / "nki-library")
    found, left = results(folder)
    best, chosen = leave_one_out(found)
    text = page.page(found, left, best, chosen)
    write(HERE.parents[1] / "docs" / "accuracy.md", text)
    print(text[: text.index("## Row by row")])


if __name__ == "__main__":
    main()
