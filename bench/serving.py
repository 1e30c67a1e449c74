"""A server step by step: how fast requests are run, and layouts found.

Seconds are of this machine, beside those of numpy's sort of ten million numbers in the same run.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from trnsim.place.machine import machine
from trnsim.system.serve.demand import Slo, open_rate_demand
from trnsim.system.serve.figures import run_once
from trnsim.system.serve.load import Synthetic, lengths
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan
from trnsim.system.serve.server import deploy
from trnsim.workload.config import read

MODEL = read(Path(__file__).parents[1] / "examples" / "llama-3.1-8b.json")
LONGEST = 4096
MOST_S = 60.0
"""For 100,000 requests on one replica."""
PLATFORMS = ("trn2", "p5en")


def reference():
    """Seconds that numpy takes to sort ten million numbers."""
    numbers = np.random.default_rng(0).random(10_000_000)
    start = time.perf_counter()
    np.sort(numbers)
    return time.perf_counter() - start


def requests(count, on):
    """Seconds for `count` requests on one replica, at a load that it just keeps up with."""
    inputs, outputs = lengths("lognormal:512:0.8", ""), lengths("lognormal:128:0.8", "")
    load = Synthetic(inputs, outputs, count, rate_per_s=8.0).requests(LONGEST)
    where = machine(on)
    prompts = 1 if where.is_neuron else None
    options = ServerOptions(
        tensor=8, max_num_seqs=32, max_model_len=LONGEST, replicas=1, prompts_at_once=prompts
    )
    made = deploy(MODEL, where, options)
    start = time.perf_counter()
    outcome, figures = run_once(made, load)
    took_s = time.perf_counter() - start
    steps = sum(outcome.replicas[0].decodes.values())
    print(
        f"{on:6} {count:9,} requests {steps:11,} steps {took_s:8.2f} s here, "
        f"busy {figures.values['utilisation']:.0%}",
        flush=True,
    )
    return took_s


def layouts(on):
    """Seconds for a layout within an SLO."""
    start = time.perf_counter()
    found = plan(
        MODEL, machine(on), ServerOptions(), open_rate_demand(2048, 256), slo=Slo(1.0, 0.03)
    )
    took_s = time.perf_counter() - start
    print(f"{on:6} {found.tried:9,} layouts, the best within an SLO {took_s:9.2f} s here")


def main():
    """Requests on one replica, and the search of a layout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    count = parser.parse_args().requests
    sort_s = reference()
    print(f"numpy sorts ten million numbers in {sort_s:.2f} s")
    slowest_s = max(requests(count, on) for on in PLATFORMS)
    for on in PLATFORMS:
        layouts(on)
    return slowest_s > MOST_S


if __name__ == "__main__":
    sys.exit(main())
