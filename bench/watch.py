"""What the state of the instance costs a training step of `bench/torch_steps.py`.

Steps with and without a kept state alternate in one process, on one thread. Processor time
counts, that of all threads: other programs do not move it. A ratio is that of the sums of 40 steps
each; the figure is the median of 50 ratios, with its 95 % interval from order statistics. The state
begins before a step and ends after it, neither of which is timed: a process pays them once. What
its thread does once a second is timed by itself and added, as its share of a second.

The last line has a reader, which has every call counted: the steps alternate twenty at a time, and
the thread runs among them.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from torch_steps import training_step

from trnsim.device import watch
from trnsim.instance.state.folder import LONGEST_S, listen, state_folder
from trnsim.instance.state.writer import PERIOD_S

PAIRS, STEPS, READ_STEPS = 50, 40, 20
FIRST, LAST = 17, 32
"""Places of the sorted ratios of 50 pairs between which the median lies in 95 % of cases."""
AT_MOST = 1.01
LOOKS = 2000


def taken_s(step, steps):
    """Seconds of the processor that some steps take, those of all threads, after one more."""
    step()
    begun = time.process_time()
    for _ in range(steps):
        step()
    return time.process_time() - begun


def kept_s(step, steps):
    """Seconds of some steps while the state is kept."""
    found = begin()
    found.writer.look()
    try:
        return taken_s(step, steps)
    finally:
        end()


def begin():
    """Keep the state of this process."""
    os.environ["TRNSIM_STATE"] = place
    watch.begin("torch")
    return watch.current_watch()


def end():
    """Keep it no longer."""
    watch.end()
    os.environ["TRNSIM_STATE"] = "off"


def ratio(step, turns, steps):
    """What is taken with a state by what is without; which of the two comes first alternates."""
    sums = {taken_s: 0.0, kept_s: 0.0}
    for turn in range(turns):
        for run in (taken_s, kept_s) if turn % 2 else (kept_s, taken_s):
            sums[run] += run(step, steps)
    return sums[kept_s] / sums[taken_s]


def look_s():
    """Seconds of the processor of what the state's thread does once a second, unread."""
    writer = begin().writer
    try:
        begun = time.process_time()
        for _ in range(LOOKS):
            writer.look()
        return (time.process_time() - begun) / LOOKS
    finally:
        end()


def main():
    """Print the ratios; the status is 1 where a state that nobody reads costs too much."""
    os.environ["TRNSIM_STATE"] = "off"
    step = training_step("neuron", 4, is_compiled=False)
    taken_s(step, READ_STEPS)
    share = look_s() / PERIOD_S
    unread = sorted(ratio(step, STEPS, 1) + share for _ in range(PAIRS))
    print(f"the thread, unread {share:.6f} of a second")
    show("nobody reads", unread, f"   (at most {AT_MOST})")
    os.environ["TRNSIM_STATE"] = place
    listen(state_folder(), LONGEST_S)
    os.environ["TRNSIM_STATE"] = "off"
    show("a reader listens", sorted(ratio(step, 1, READ_STEPS) for _ in range(PAIRS)), "")
    return int(statistics.median(unread) > AT_MOST)


def show(who, ratios, limit):
    """Print a median with its interval."""
    median = statistics.median(ratios)
    print(f"{who:<18} {median:.4f}   95 %: {ratios[FIRST]:.4f} to {ratios[LAST]:.4f}{limit}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        place = str(Path(made) / "state")
        sys.exit(main())
