"""Reports of an instance whose programs the test chooses."""

from functools import partial

from monitored import record

from trnsim.instance.model import instance_model
from trnsim.instance.state.hardware import counters
from trnsim.tools.monitor.config import ALL_GROUPS
from trnsim.tools.monitor.reports import Monitor

TRN2 = instance_model("trn2.48xlarge", 2)
MIB = 1 << 20


class World:
    """An instance whose programs come and go."""

    def __init__(self, *records, model=TRN2):
        self.records = list(records)
        self.monitor = Monitor(
            ALL_GROUPS, lambda: self.records, lambda _: model, partial(counters, ())
        )

    def report(self):
        return self.monitor.report()


def full(model=TRN2, *, busy=0.5, pid=7, tag="train"):
    """A program on all cores, busier from core to core."""
    cores = range(model.cores)
    parts = {"tensors": 100.0 * MIB, "constants": 9.5 * MIB, "model_code": 3.0 * MIB,
             "runtime_memory": 2.0 * MIB, "model_shared_scratchpad": 1.0 * MIB}  # fmt: skip
    return record(
        pid=pid,
        tag=tag,
        lnc=model.lnc,
        cores=tuple(cores),
        memory_bytes=dict.fromkeys(cores, parts),
        busy_s={core: {"pe": busy + (1 - busy) * core / model.cores} for core in cores},
        elapsed_s=dict.fromkeys(cores, 1.0),
        flop={core: 4e13 + core * 1e12 for core in cores},
    )
