"""A search of layouts: ``python bench/system/layouts.py [--ray ADDRESS [--kill]]``.

It makes 28,000 layouts of a mixture of experts, leaves out what HBM has no room for, ranks them,
and prints the seconds of each. With `--ray`, layouts are timed as a search times them (the point
of `trnsim.system.train.best`: layer times, exchanges, the schedule, the exact memory), here and on
the cluster; one of its workers is killed on the way with `--kill`, and all results are compared.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from trnsim.place.machine import machine
from trnsim.system import search
from trnsim.system.train.best import layout_step_s
from trnsim.system.train.candidates import LayoutRequest, fitting_layouts, layouts
from trnsim.system.train.step import TrainingSteps
from trnsim.workload.config import from_config

COUNT = 28_000
BATCH = 4096
CONFIG = {
    "model_type": "mixtral",
    "hidden_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "intermediate_size": 16384,
    "vocab_size": 32768,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
INSTANCES = 64
MODEL = from_config(CONFIG, "experts.json")


def made():
    """28,000 layouts, of batches that one machine can have."""
    found = []
    for batch in (BATCH, 2 * BATCH, 4 * BATCH, 8 * BATCH):
        asked = LayoutRequest(batch, 4096)
        found += layouts(MODEL, machine("trn2", INSTANCES), asked)
        found += layouts(MODEL, machine("trn2", INSTANCES), replace(asked, is_sequence=False))
    return found[:COUNT]


@lru_cache
def steps():
    """Steps of the model, once for each process."""
    return TrainingSteps(MODEL, machine("trn2", INSTANCES))


def killed_worker(after_s):
    """End one process of the cluster's that works for us, once it does."""
    time.sleep(after_s)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_text(encoding="utf-8").split("\0")[0]
        except OSError:
            continue
        if name.startswith("ray::_results"):
            os.kill(int(folder.name), signal.SIGKILL)
            print(f"killed {name}, process {folder.name}")
            return
    print("no worker was at work")


def timed(what, function):
    """What a function gives; its seconds are printed."""
    begun_s, spent_s = time.perf_counter(), time.process_time()
    found = function()
    wall_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - spent_s
    print(f"{what}: {wall_s:.2f} s, {cpu_s:.2f} s of this process")
    return found


def main():
    """Make, prune and rank layouts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", default="", help="a Ray cluster")
    parser.add_argument("--kill", action="store_true", help="kill one of its workers")
    parser.add_argument("--after", type=float, default=10.0, help="seconds until one is killed")
    parser.add_argument("--points", type=int, default=COUNT, help="layouts that are timed")
    asked = parser.parse_args()
    os.environ["TRNSIM_CACHE"] = "off"
    all_layouts = timed("layouts", made)
    fits = timed(
        "with room", lambda: fitting_layouts(MODEL, machine("trn2", INSTANCES), all_layouts)
    )
    print(f"{len(all_layouts):,} layouts, {len(fits):,} with room")
    timed("ranked", lambda: [steps().rough_s(one) for one in all_layouts])
    if not asked.ray:
        return
    points = [asdict(one) for one in all_layouts[: asked.points]]
    where = machine("trn2", INSTANCES)
    function = partial(
        layout_step_s,
        model=MODEL,
        name=where.instance.name,
        count=INSTANCES,
        lnc=where.lnc,
        measured=None,
    )
    if asked.kill:
        threading.Thread(target=killed_worker, args=(asked.after,), daemon=True).start()
    found = timed("on the cluster", lambda: search.map(function, points, ray=asked.ray))
    serial = timed("timed here", lambda: [function(one) for one in points])
    timed_s = [one for one in serial if one != "memory"]
    print(f"{len(points):,} points, {len(timed_s):,} with room, the shortest {min(timed_s):.3f} s")
    print("equal" if found == serial else "DIFFERENT")


if __name__ == "__main__":
    # As a module, so that other processes find its functions.
    import layouts as itself  # its own folder is the first to be looked in

    itself.main()
