"""The range of published rows that a family's constants were fitted to, and questions beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.workload.architecture import Architecture
from trnsim.workload.captured import Workload
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Pass, Phase

_HIDDEN, _BATCH, _LENGTH = "hidden size", "batch", "tokens of a sequence"


@dataclass(frozen=True)
class Reach:
    """The range of a family's rows, from the least to the most.

    Attributes:
        hidden: sizes of a hidden state.
        batch: sequences or images at once; in training, those of a micro batch.
        length: tokens that a query attends to.
    """

    hidden: tuple[int, int]
    batch: tuple[int, int]
    length: tuple[int, int]


ROWS: Final = {
    Phase.ENCODE: Reach((768, 1024), (1, 16), (128, 197)),
    Phase.PREFILL: Reach((4096, 8192), (1, 8), (128, 8192)),
    Phase.DECODE: Reach((4096, 8192), (1, 8), (256, 16384)),
    Phase.TRAIN: Reach((512, 8192), (1, 80), (77, 8192)),
}
"""Ranges by family; `bench/system/page.py` compares them with the rows."""
PAIRS: Final = Reach((512, 768), (1, 64), (9, 9))
"""The range of pairs of an image and texts."""


def list_extrapolations(model: Workload, model_pass: Pass, lnc: int) -> tuple[str, ...]:
    """The quantities of a pass that lie outside its family's rows, in words.

    Args:
        model: the model; one that is read from its graph has no family.
        model_pass: the pass.
        lnc: NeuronCores of a rank; 0 for a GPU, which has no rows by family.
    """
    if not isinstance(model, Architecture) or not lnc:
        return ()
    is_pair = model.kind is ModelKind.PAIR and model_pass.phase is Phase.ENCODE
    rows = PAIRS if is_pair else ROWS[model_pass.phase]
    sizes = [(_HIDDEN, model.decoder.hidden, rows.hidden), (_BATCH, model_pass.batch, rows.batch)]
    if model.kind is not ModelKind.VISION:  # whose tokens are the model's own
        sizes.append((_LENGTH, model_pass.tokens + model_pass.past, rows.length))
    return tuple(
        f"{name} {value:,}, where rows "
        + (f"go from {low:,} to {high:,}" if low < high else f"have {low:,}")
        for name, value, (low, high) in sizes
        if not low <= value <= high
    )
