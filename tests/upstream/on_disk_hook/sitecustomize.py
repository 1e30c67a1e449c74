"""Writes what a program's process did on the device when it ends, without a change of the program.

ON_DISK_FIGURES names the folder: a file for each process, of calls and seconds on the device, of
torch_xla's own counters, and of the exception that ended it. SIGTERM ends the process properly.
Before a program imports torchvision, its operators are declared (`torchvision_operators.py`).
"""

import atexit
import json
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from pathlib import Path

FOLDER = os.environ.get("ON_DISK_FIGURES")
STOPPED = 124


class Calls:
    """A recording that counts calls, for their seconds afterwards."""

    is_listening = True
    number = 0
    from_host_bytes = 0
    to_host_bytes = 0
    _in_flight = ()

    def __init__(self):
        self.calls = Counter()
        self.collectives = Counter()

    def note(self, call, core, find_scope):
        """Count a call."""
        del core, find_scope
        self.calls[call] += 1

    def note_collective(self, collective, buffers, is_async):
        """Count an exchange."""
        del buffers, is_async
        self.collectives[collective.kind] += 1

    def touch(self, buffers):
        """Nothing is kept of buffers."""


def figures(calls):
    """The seconds of all calls, those without a time, and the counters of torch_xla."""
    from trnsim.device.call_time import time_of
    from trnsim.device.device_core import target

    counts = dict(calls.calls)
    times = {call: time_of(call, target().name) for call in counts}
    missing = Counter()
    for call, time in times.items():
        if time.missing_reason:
            missing[f"{call.name}: {time.missing_reason}"] += counts[call]
    return {
        "calls": sum(counts.values()),
        "device_time_s": sum(counts[call] * time.device_time_s for call, time in times.items()),
        "missing": dict(missing),
        "collectives": dict(calls.collectives),
        "counters": counters(),
    }


def counters():
    """The counters of torch_xla, and the numbers of samples of its metrics."""
    metrics = sys.modules.get("torch_xla.debug.metrics")
    if metrics is None and "torch_xla" in sys.modules:
        from torch_xla.debug import metrics
    if metrics is None:
        return {}
    values = {name: metrics.counter_value(name) for name in metrics.counter_names()}
    for name in getattr(metrics, "metric_names", list)():
        data = metrics.metric_data(name)
        if data:
            values[f"{name} samples"] = data[0]
    return values


def ended(kind, error, trace):
    """An exception in words, with the places it came through."""
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in
              traceback.extract_tb(trace)]  # fmt: skip
    return {"type": kind.__name__, "message": str(error)[:2000], "places": places[-30:]}


def install():
    """Count from the first call, and write at the end."""
    from trnsim.device import call_log

    calls = Calls()
    call_log.recordings.append(calls)
    result = {"pid": os.getpid(), "rank": os.environ.get("RANK", ""), "argv": sys.argv[:1]}

    def write():
        if os.getpid() != result["pid"] or not (calls.calls or "error" in result):
            return
        try:
            result.update(figures(calls), rank=os.environ.get("RANK", ""))
        except Exception:  # noqa: BLE001  the figures say that they are missing
            result["fault"] = traceback.format_exc()
        path = Path(FOLDER) / f"{result['pid']}.json"
        path.write_text(json.dumps(result), encoding="utf-8")

    def hook(kind, error, trace, before=sys.excepthook):
        result["error"] = ended(kind, error, trace)
        before(kind, error, trace)

    def stop(number, frame):
        del number, frame
        result["stopped"] = True
        sys.exit(STOPPED)

    atexit.register(write)
    sys.excepthook = hook
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


class TorchvisionFinder:
    """Declares the operators of torchvision before it is imported."""

    def find_spec(self, name, path=None, target=None):
        """None: the next finder has the module."""
        del path, target
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torchvision_operators  # noqa: F401  it declares them


sys.meta_path.insert(0, TorchvisionFinder())
if FOLDER:
    install()
