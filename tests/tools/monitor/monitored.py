"""A program's records, at two moments."""

from trnsim.instance.state.record import ProcessRecord


def record(step=1, *, pid=7, tag="7", lnc=2, **changed):
    """The record after `step` seconds of a program on cores 0 and 5."""
    given = {
        "pid": pid,
        "start_time": "1",
        "command": "python a.py",
        "tool": "torch",
        "tag": tag,
        "instance": "trn2.48xlarge",
        "lnc": lnc,
        "cores": (0, 5),
        "updated_at": float(step),
        "memory_bytes": {0: {"tensors": 100.0, "model_code": 20.0}, 5: {"tensors": 3.0}},
        "host_bytes": {"tensors": 8.0, "application_memory": 2.0},
        "busy_s": {0: {"pe": 0.25 * step, "dma": 0.5 * step}, 5: {"pe": 0.0}},
        "elapsed_s": {0: 1.0 * step, 5: 1.0 * step},
        "flop": {0: 1e9 * step * step},
        "executions": {"completed": 10.0 * step, "timed_out": 1.0},
        "errors": {"hardware": float(step - 1)},
        "total_latency_s": {"p50": 0.02},
        "device_latency_s": {"p50": 0.01},
    }
    return ProcessRecord(**(given | changed))
