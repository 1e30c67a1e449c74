"""`make fuzz`: random kernels against the oracle: legal ones, called again, and with a mistake.

For each seed also two programs of NKI 0.7, one with a mistake (latest.py). With --nki the legal
kernels run under that version or under all, and differ only where a row says so (pins.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from functools import partial
from multiprocessing import Pool

# Each process multiplies alone.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import latest
from again import check_again
from generate import generate
from mutate import mutate
from pins import check_pins
from runner import Tally, check, check_refusal, shrink
from script import write_script

from trnsim.behaviours import VERSIONS

_EVERY = 500


def examine(seed):
    """The failures of the kernels of a seed, as text, and what was compared."""
    kernel = generate(seed)
    failure, tally = check(kernel)
    texts = []
    if failure is not None:
        kernel = shrink(kernel, failure)
        failure = check(kernel)[0] or failure
        texts.append(_report(kernel, failure))
    else:
        failure = check_again(kernel)
        if failure is not None:
            texts.append(_report(kernel, failure))
    wrong, must_fail = mutate(generate(seed), seed)
    failure = check_refusal(wrong, must_fail=must_fail)
    if failure is not None:
        texts.append(_report(wrong, failure))
    return texts + latest.examine(seed), tally


def examine_pins(seed, versions):
    """The failures of a seed's kernel under versions of NKI, and the rows that explained."""
    kernel = generate(seed)
    failure, explained = check_pins(kernel, versions)
    return [] if failure is None else [_report(kernel, failure)], explained


def _pins(given):
    """Examine the seeds under versions of NKI; 1 where a difference has no row, else 0."""
    versions = tuple(VERSIONS) if given.nki == "all" else (given.nki,)
    seeds = range(given.seed, given.seed + given.kernels)
    counts, failures = Counter(), 0
    with Pool(given.processes) as pool:
        examined = pool.imap_unordered(partial(examine_pins, versions=versions), seeds, 20)
        for texts, explained in examined:
            failures += len(texts)
            for text in texts:
                print(text)
            for version, rows in explained.items():
                counts.update((version, row) for row in rows)
    print(
        f"{given.kernels} kernels under {', '.join(versions)}: {failures} unexplained differences"
    )
    for (version, row), number in sorted(counts.items()):
        print(f"  {version}: {number} by {row}")
    return 1 if failures else 0


def _report(kernel, failure):
    path = write_script(kernel, failure)
    source = kernel.source().replace("\n", "\n    ")
    return f"seed {kernel.seed}: {failure.kind}: {failure.text}\n    {source}\n  {path}"


def main():
    """Examine the seeds; 1 where a kernel failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--nki", choices=[*VERSIONS, "all"])
    given = parser.parse_args()
    if given.nki:
        return _pins(given)
    start, total, failures = time.perf_counter(), Tally(), 0
    with Pool(given.processes) as pool:
        seeds = range(given.seed, given.seed + given.kernels)
        for done, (texts, tally) in enumerate(pool.imap_unordered(examine, seeds, 20), 1):
            total.add(tally)
            failures += len(texts)
            for text in texts:
                print(text)
            if done % _EVERY == 0 or done == given.kernels:
                rate = done / (time.perf_counter() - start)
                print(
                    f"{done} of {given.kernels} kernels, {failures} failures, {rate:.0f} a second",
                    file=sys.stderr,
                    flush=True,
                )
    compared = total.exact + total.bounded + total.unknown
    print(
        f"{given.kernels} legal kernels, each called again, and as many with a mistake, from "
        f"seed {given.seed}: {failures} failures; of {compared} elements "
        f"{total.exact / compared:.1%} compared exactly, {total.bounded / compared:.1%} within an "
        f"interval; {given.kernels} legal programs of NKI 0.7, and as many with a mistake"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
