"""What it costs two processes to agree on a collective before it begins: microseconds of each."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "torch"))

import torch
import torch.distributed as dist
from groups import together

from trnsim.torch.distributed import agreeing

CALLS = 300


def mean_us(rank):
    """Microseconds of an all-reduce of four numbers: by the clock, and of this process."""
    del rank
    found = {}
    agree = agreeing.agree
    tensor = torch.ones(4, device="neuron")
    for name, function in (("without", lambda *_: None), ("with", agree)):
        agreeing.agree = function
        dist.barrier()
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        for _ in range(CALLS):
            dist.all_reduce(tensor)
        spent = time.perf_counter() - wall_s, time.process_time() - cpu_s
        found[name] = tuple(round(s / CALLS * 1e6) for s in spent)
    return found


if __name__ == "__main__":
    for name, (wall_us, cpu_us) in together(mean_us)[0].items():
        print(f"all-reduce {name:<8} agreement: {wall_us:>6} us, {cpu_us:>6} us of the process")
