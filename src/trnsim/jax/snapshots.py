"""`register_hlo_snapshot_callback` and its callback, asked at each execution of a program.

The callback returns the parts of the execution to be stored: "" for nothing, else words such as
"inputs outputs". Snapshots are files that AWS's runtime replays; none are written here.

Source: aws-neuron-samples torch-neuronx/training/dp_bert_hf_pretrain/
dp_bert_large_hf_pretrain_hdf5.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from trnsim.errors import BadInput, NotModelled

SnapshotCallback = Callable[[str, int, int], str]
"""A function of a program's name, the device's index in this process, and the execution's
number."""

callbacks: Final[list[SnapshotCallback]] = []
"""The function that is asked at each execution, as the only item; empty almost always."""
_executions: Final[Counter[tuple[str, int]]] = Counter()


def register_hlo_snapshot_callback(callback: SnapshotCallback | None) -> None:
    """Call `callback` at each execution from now on; None calls nothing.

    Raises:
        BadInput: it cannot be called.
    """
    if callback is not None and not callable(callback):
        raise BadInput(
            f"register_hlo_snapshot_callback of {callback!r}; legal: a function of a program's "
            "name, a device's index and the number of the execution",
            fix="give a function that returns '' where nothing is to be stored",
        )
    callbacks[:] = [] if callback is None else [callback]
    _executions.clear()


def ask_snapshot(name: str, device_index: int = 0) -> None:
    """Ask the callback for an execution of a program.

    Raises:
        NotModelled: it wants a snapshot.
    """
    for callback in callbacks:
        count = _executions[name, device_index]
        _executions[name, device_index] += 1
        contents = callback(name, device_index, count)
        if contents:
            raise NotModelled(
                f"a snapshot of {contents!r} of {name}, execution {count}: AWS's runtime writes "
                "these files, to run them again on a chip",
                fix="return '' from the callback; torch.save keeps inputs and outputs",
            )
