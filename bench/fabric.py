"""Collectives by events beside their closed form: bench/fabric.py [--ranks 4096].

Seconds are of this machine, beside those of numpy's sort of ten million numbers in the same run.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from trnsim.fabric.choice import KINDS
from trnsim.fabric.closed_form import time_s
from trnsim.fabric.fabric import fabric
from trnsim.fabric.group import RankGroup

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fabric"))

from simulation import simulate

MB = 1e6
NODE_RANKS = 64


def row(group, algorithm, kind, nbytes):
    """One algorithm: what events and the closed form say, and how long each took here."""
    start = time.perf_counter()
    plan = algorithm.plan(group, nbytes)
    closed_s = time_s(group.fabric, plan)
    middle = time.perf_counter()
    found = simulate(group.fabric, plan)
    took_s = time.perf_counter() - middle
    off = 100 * (found.time_s / closed_s - 1)
    print(
        f"{group.size:6} {kind:15} {algorithm.name:17} {nbytes / MB:8g} {closed_s * 1e6:12.1f} "
        f"{found.time_s * 1e6:12.1f} {off:+7.2f} {middle - start:9.2f} {took_s:9.2f}",
        flush=True,
    )
    return took_s


def reference():
    """Seconds that numpy takes to sort ten million numbers."""
    numbers = np.random.default_rng(0).random(10_000_000)
    start = time.perf_counter()
    np.sort(numbers)
    return time.perf_counter() - start


def is_shown(algorithm, kind, ranks):
    """Over several instances a flat ring has steps by the thousand: one kind of it is enough."""
    return ranks == NODE_RANKS or algorithm.name != "ring" or kind == "all_gather"


def main():
    """Every algorithm on one instance, or those of several."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=NODE_RANKS)
    ranks = parser.parse_args().ranks
    made = fabric("trn2.48xlarge", nodes=max(1, ranks // NODE_RANKS), lnc=2)
    group = RankGroup(made, tuple(range(ranks)))
    print(
        f"{'ranks':>6} {'collective':15} {'algorithm':17} {'MB':>8} {'closed us':>12} "
        f"{'events us':>12} {'off %':>7} {'closed s':>9} {'events s':>9}"
    )
    all_s = [
        row(group, one, kind, nbytes)
        for kind in ("all_gather", "reduce_scatter", "all_reduce")
        for one in KINDS[kind]
        if one.is_possible(group) and is_shown(one, kind, ranks)
        for nbytes in (1 * MB, 1024 * MB)
    ]
    ratio = max(all_s) / reference()
    print(
        f"the longest simulation took {ratio:.2f} times as long as numpy sorts ten million numbers"
    )


if __name__ == "__main__":
    main()
