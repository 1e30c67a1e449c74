"""`monotonic.py [FOLDER]`: whether faster hardware ever makes a kernel's estimate longer.

The programs are those that `make accuracy` keeps in build/accuracy (or another FOLDER of pickles),
then kernels of tests/fuzz until there are enough. Each change is tried twice: in the order that was
chosen with the nominal constants, where nothing may take longer, and in an order chosen anew, where
it may: a list scheduler that sees something ready sooner may take it first, to the others' cost.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench" / "accuracy"), str(ROOT / "tests" / "fuzz")]

from generate import generate
from runner import compiled

import trnsim
from trnsim.arch.draws import stack_cores
from trnsim.facts import Rate, assumed
from trnsim.program import Program
from trnsim.timing import choose_order, replay
from trnsim.timing.schedule import device_times_s, priced_placements

DEPENDENCES = 3
"""Dependences that are left out of each launch, one at a time."""

BACKWARDS = {"gpsimd_gather_overhead_cycles"}
"""More of it is less time in AWS's formula of local_gather, so less of it is no faster hardware."""
FACTORS = {"_clock_hz": 1.25, "_bytes_per_s": 1.1, "_semaphore_s": 0.0, "_s": 0.8, "_cycles": 0.8}
"""By how much a constant becomes better, by the end of its name: the first that fits."""


@dataclass
class Tally:
    """What one change did to the launches that it concerns.

    Attributes:
        kept: device time / nominal device time of each, in the order that was kept.
        anew: likewise, in an order chosen anew.
    """

    kept: list[float] = field(default_factory=list)
    anew: list[float] = field(default_factory=list)


def launches_in(found):
    """The lists of programs, one a core, in what a file holds."""
    if isinstance(found, list | tuple):
        if found and all(isinstance(one, Program) for one in found):
            yield list(found)
        else:
            for one in found:
                yield from launches_in(one)


def recorded(folder):
    """(name, programs) of each launch in the files of a folder."""
    for path in sorted(folder.glob("*.pkl")):
        with path.open("rb") as file:
            while file.peek(1):
                for programs in launches_in(pickle.load(file)):  # noqa: S301  our own files
                    yield path.stem, programs


def generated():
    """(name, programs) of random legal kernels, without end."""
    seed = 0
    while True:
        kernel = generate(seed)
        made = compiled(kernel)
        launched = made[2] if kernel.cores > 1 else made
        run = trnsim.run(launched, *kernel.arrays(), target=kernel.target)
        yield f"fuzz-{seed}", [timeline.program for timeline in run.timelines]
        seed += 1


def enough(folder, kernels, longest):
    """As many launches of at most `longest` instructions, recorded ones first."""
    left = kernels
    for source in (recorded(folder), generated()):
        for name, programs in source:
            if left and 0 < sum(map(len, programs)) <= longest:
                left -= 1
                yield kernels - left, name, programs
            if not left:
                return


def better_cores(programs, core):
    """Name of a change -> the core with one constant that is better and matters to `programs`."""
    found = {}
    for name, fact in core.facts().items():
        factor = next((f for end, f in FACTORS.items() if name.endswith(end)), None)
        if factor is None or name in BACKWARDS or not isinstance(fact, Rate):
            continue
        better = replace(core, **{name: assumed(fact * factor, "better")})
        is_priced = any(
            priced_placements(p, better) != priced_placements(p, core) for p in programs
        )
        if is_priced or better.engine_semaphore_s != core.engine_semaphore_s:
            found[f"{name} x {factor:g}"] = better
    return found


def without(program, index, earlier):
    """The program in which instruction `index` does not wait for `earlier`."""
    fewer, known = copy(program), program.waits_for
    fewer.waits_for = lambda at: [i for i in known(at) if (at, i) != (index, earlier)]
    return fewer


def fewer_dependences(programs, seed):
    """The launch with a dependence less, a few times."""
    chance = random.Random(seed)  # noqa: S311  no secret
    waiting = [
        (rank, index)
        for rank, program in enumerate(programs)
        for index in range(len(program))
        if program.waits_for(index)
    ]
    for rank, index in chance.sample(waiting, min(DEPENDENCES, len(waiting))):
        earlier = chance.choice(programs[rank].waits_for(index))
        yield [*programs[:rank], without(programs[rank], index, earlier), *programs[rank + 1 :]]


def launch_s(programs, core, order):
    """Device time of the slowest core."""
    return max(schedule.device_time_s for schedule in replay(programs, core, order))


def examine(seed, programs, tallies):
    """Try every change on one launch; the ratios go to `tallies`."""
    core = programs[0].core
    order = choose_order(programs, core)
    nominal_s = launch_s(programs, core, order)
    if not nominal_s:
        return
    better = better_cores(programs, core)
    cores = [core, *better.values()]
    by_core = [
        device_times_s(programs, stack_cores(cores), order, rank) for rank in range(len(programs))
    ]
    kept_s = [float(max(times)) for times in zip(*by_core, strict=True)]
    assert kept_s[0] == nominal_s, "many sets of constants at once are timed as one alone is"
    for (name, changed), time_s in zip(better.items(), kept_s[1:], strict=True):
        tally = tallies.setdefault(name, Tally())
        tally.kept.append(time_s / nominal_s)
        anew_s = launch_s(programs, changed, choose_order(programs, changed))
        tally.anew.append(anew_s / nominal_s)
    for fewer in fewer_dependences(programs, seed):
        tally = tallies.setdefault("a dependence less", Tally())
        tally.kept.append(launch_s(fewer, core, order) / nominal_s)
        tally.anew.append(launch_s(fewer, core, choose_order(fewer, core)) / nominal_s)


def longer(ratios):
    """How many are longer, and by how much at most."""
    found = [ratio for ratio in ratios if ratio > 1]
    return f"{len(found):6d} {max(found) - 1:+10.3%}" if found else f"{0:6d} {'':10}"


def main():
    """Examine the launches and print what became longer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "accuracy")
    parser.add_argument("--kernels", type=int, default=300)
    parser.add_argument("--longest", type=int, default=20_000, help="instructions of a launch")
    given = parser.parse_args()
    tallies = {}
    for number, name, programs in enough(given.folder, given.kernels, given.longest):
        print(f"\r{number}/{given.kernels} {name}\x1b[K", end="", file=sys.stderr, flush=True)
        examine(number, programs, tallies)
    print(file=sys.stderr)
    print(f"{'':44}   {'in the same order':^17}   {'in an order anew':^17}")
    columns = f"{'longer':>6} {'at most':>10}"
    print(f"{'change':36} {'tried':>7}   {columns}   {columns}")
    for name, tally in sorted(tallies.items()):
        print(f"{name:36} {len(tally.kept):7d}   {longer(tally.kept)}   {longer(tally.anew)}")
    if any(ratio > 1 for tally in tallies.values() for ratio in tally.kept):
        sys.exit("a kernel takes longer on faster hardware, in the same order")


if __name__ == "__main__":
    main()
