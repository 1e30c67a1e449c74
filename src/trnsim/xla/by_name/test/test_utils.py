"""`torch_xla.test.test_utils`: lines that example programs print as they train.

Source: torch_xla 2.9.0, test/test_utils.py.
"""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any, Final

from trnsim.xla.absent_names import absence_getter

__path__: Final[list[str]] = []  # for a plain module Python asks no finder for absent names


def now(format: str = "%H:%M:%S") -> str:  # noqa: A002  torch_xla's name
    """The local time as text."""
    return datetime.now().strftime(format)  # noqa: DTZ005  of the user's clock


def print_training_update(
    device: Any,
    step: int,
    loss: float,
    rate: float,
    global_rate: float,
    epoch: int | None = None,
    summary_writer: Any = None,
) -> None:
    """Print a step's loss and rates, and write the rates to TensorBoard."""
    _print(
        "Training",
        Device=device,
        Epoch=epoch,
        Step=step,
        Loss=f"{loss:.5f}",
        Rate=f"{rate:.2f}",
        GlobalRate=f"{global_rate:.2f}",
    )
    if summary_writer is not None:
        summary_writer.add_scalar("examples/sec", rate)
        summary_writer.add_scalar("average_examples/sec", global_rate)


def print_test_update(
    device: Any, accuracy: float | None, epoch: int | None = None, step: int | None = None
) -> None:
    """Print the accuracy of a test."""
    accuracy_text = None if accuracy is None else f"{accuracy:.2f}"
    _print("Test", Device=device, Step=step, Epoch=epoch, Accuracy=accuracy_text)


def _print(kind: str, **values: Any) -> None:
    texts = [f"{name}={value}" for name, value in values.items() if value is not None]
    output = sys.stdout
    print("|", kind, *texts, f"Time={now()}", file=output, flush=True)


__getattr__ = absence_getter("torch_xla.test.test_utils", __name__)
