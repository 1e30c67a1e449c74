"""1 Kernel: flash attention compared with float64, its time, and the engine that bounds it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trnsim.demo import examples
from trnsim.document.answer import Block, Note
from trnsim.profile.analysis.advice import Advice, advise
from trnsim.runner import run
from trnsim.runs import Run

_US = 1e6


@dataclass(frozen=True)
class KernelShow:
    """The run of the example kernel, and the error of its values.

    Attributes:
        largest_error: max |value - float64| / max |float64|.
        advice: the recommendation with the largest gain, or None.
    """

    run: Run
    largest_error: float
    advice: Advice | None

    def blocks(self) -> list[Block]:
        """Notes on the kernel's size, error, time, bottleneck, advice, conditions, usual error."""
        rows, columns = self.run.outputs.shape
        interval = self.run.timeline.interval()
        tries = ""
        if self.advice is not None:
            line = self.advice.line
            location = f", {examples.short_path(line.file)}:{line.line}" if line else ""
            tries = f", try: {self.advice.action}{location}"
        shape = f"flash attention {rows}x{columns} bf16"
        time = f"{self.run.total_time_s * _US:.1f} us"
        spread = f"[{interval.p10 * _US:.1f} to {interval.p90 * _US:.1f}]"
        error = f"error against float64 {self.largest_error:.1e}"
        summary = self.run.summary
        return [
            Note(f"1 Kernel    {shape}     {error}", hanging=12),
            Note(f"{time} {spread}, bound by {summary.bound_by}{tries}", 12, 0),
            Note(f"assumes {summary.conditions.brief()}", 12, 0),
            Note(f"{summary.unseen_error} (docs/generated/accuracy.md)", 12, 0),
        ]


def reference(
    q: npt.NDArray[np.float32], k: npt.NDArray[np.float32], v: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """softmax(q @ k.T / sqrt(D)) @ v in float64."""
    q64, k64, v64 = (array.astype(np.float64) for array in (q, k, v))
    scores = q64 @ k64.T / np.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True) @ v64)


def show_kernel(
    sequence: int = 1024, width: int = 128, target: str = "trn2", seed: int = 0
) -> KernelShow:
    """Flash attention on random [sequence, width] arrays, run and compared."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((sequence, width)).astype(np.float32) for _ in range(3))
    result = run(examples.module("attention").attention, q, k, v, target=target)
    expected = reference(q, k, v)
    error = np.abs(result.outputs - expected).max() / np.abs(expected).max()
    return KernelShow(result, float(error), next(iter(advise(result.timeline)), None))
