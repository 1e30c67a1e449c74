"""A process whose state is made up, so that every figure of a client can be told from another."""

import os
import time

from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.record import (
    ERRORS,
    HOST_MEMORY,
    MEMORY,
    PERCENTILES,
    STATUSES,
    ProcessRecord,
)
from trnsim.instance.state.writer import Writer

CORES = (4, 5, 6, 7)
BUSY = 0.25
"""Part of its time that the busiest engine of each core works."""


def made():
    """The state now: executions and times grow, all else stays."""
    pid, started = own_identity()
    now_s = time.time()
    executions = {status: 3.0 + 2 * number for number, status in enumerate(STATUSES)}
    return ProcessRecord(
        pid,
        started,
        "python made_program.py",
        "torch",
        os.environ.get("NEURON_PROCESS_TAG", str(pid)),
        "trn2.48xlarge",
        2,
        CORES,
        now_s,
        memory_bytes={
            core: {name: 1e9 + 1e6 * core + number for number, name in enumerate(MEMORY)}
            for core in CORES
        },
        host_bytes={name: 5e6 + number for number, name in enumerate(HOST_MEMORY)},
        busy_s={core: {"pe": BUSY * now_s, "dma": BUSY * now_s / 2} for core in CORES},
        elapsed_s=dict.fromkeys(CORES, now_s),
        executions=executions | {"completed": float(int(10 * now_s) % 1_000_000_000)},
        errors={name: 1.0 + number for number, name in enumerate(ERRORS)},
        total_latency_s={name: 1e-3 * (1 + number) for number, name in enumerate(PERCENTILES)},
        device_latency_s={name: 1e-4 * (1 + number) for number, name in enumerate(PERCENTILES)},
    )


if __name__ == "__main__":
    Writer(made).start()
    while True:
        time.sleep(60)
