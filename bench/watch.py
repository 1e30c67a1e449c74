"""What the state of the instance costs a training step of `bench/torch_steps.py`.

Steps with and without a kept state run alternately in one process, on one thread. Processor time
counts, that of the state's thread with it: other programs do not move it. The figure is the median
of the ratios of 50 pairs, with its 95 % interval from order statistics. A step that is not counted
goes before each half: what begins and ends with the state is paid once a process, not once a step.
Nobody reads at first; then a reader listens, which counts every call.
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
from trnsim.instance.state.folder import LONGEST_S, listen, opened

PAIRS, STEPS = 50, 20
FIRST, LAST = 17, 32
"""Places of the sorted ratios of 50 pairs between which the median lies in 95 % of cases."""
AT_MOST = 1.01


def taken_s(step):
    """Seconds of the processor that some steps take, those of all threads, after one more."""
    step()
    begun = time.process_time()
    for _ in range(STEPS):
        step()
    return time.process_time() - begun


def kept_s(step):
    """Seconds of some steps while the state is kept."""
    os.environ["TRNSIM_STATE"] = place
    watch.begin("torch")
    found = watch.present()
    found.writer.look()
    try:
        return taken_s(step)
    finally:
        watch.end()
        os.environ["TRNSIM_STATE"] = "off"


def ratios(step):
    """The ratios of pairs, sorted; which of the two comes first alternates."""
    found = []
    for pair in range(PAIRS):
        order = (taken_s, kept_s) if pair % 2 else (kept_s, taken_s)
        times = {run: run(step) for run in order}
        found.append(times[kept_s] / times[taken_s])
    return sorted(found)


def main():
    """Print the ratios; the status is 1 where a state that nobody reads costs too much."""
    os.environ["TRNSIM_STATE"] = "off"
    step = training_step("neuron", 4, is_compiled=False)
    taken_s(step)
    medians = []
    for is_read in (False, True):
        if is_read:
            os.environ["TRNSIM_STATE"] = place
            listen(opened(), LONGEST_S)
            os.environ["TRNSIM_STATE"] = "off"
        found = ratios(step)
        medians.append(statistics.median(found))
        who = "a reader listens" if is_read else "nobody reads"
        limit = "" if is_read else f"   (at most {AT_MOST})"
        print(f"{who:<18} {medians[-1]:.4f}   95 %: {found[FIRST]:.4f} to {found[LAST]:.4f}{limit}")
    return int(medians[0] > AT_MOST)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        place = str(Path(made) / "state")
        sys.exit(main())
