"""Published rows by cell: a kind of model, a phase and a chip.

An estimate is validated where its cell has rows and its batch, length and ranks lie among theirs;
elsewhere it is carried over from other cells. `bench/system/coverage.py` compares the cells with
the rows, each of which is judged by constants that saw no row of its architecture.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trnsim.estimate.gpu import SMS
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Phase


class Family(StrEnum):
    """A family of published rows: those that share constants, and so errors."""

    ENCODERS = "encoders and ViT"
    PAIRS = "CLIP"
    DECODE = "TPOT"
    PREFILL = "TTFT"
    NETWORKS = "CNN and Perceiver"
    DIFFUSION = "diffusion"
    TRAINING = "training"
    GPU_TRAINING = "GPU training"
    PORTS = "ports, TPOT"
    PORT_PROMPTS = "ports, TTFT"
    GPU_DECODE = "servers on GPUs, TPOT"
    GPU_PREFILL = "servers on GPUs, TTFT"
    GPU_ENCODE = "encoders on GPUs"


@dataclass(frozen=True)
class Cell:
    """Published rows of a kind of model in a phase on a chip.

    Attributes:
        chip: the chip's name in the catalogue.
        median: median of the absolute relative errors of their estimates.
        p90: P90 of these errors.
        batch: minimum and maximum number of sequences or images at once, or of a micro batch.
        length: minimum and maximum number of tokens that a query attends to; 0 for graphs.
        ranks: minimum and maximum number of tensor ranks.
        is_ported: True for a port whose authors call it not tuned.
    """

    kind: ModelKind
    phase: Phase
    chip: str
    rows: int
    median: float
    p90: float
    batch: tuple[int, int]
    length: tuple[int, int]
    ranks: tuple[int, int]
    is_ported: bool = False

    @property
    def family(self) -> Family:
        """The constants that its estimates share with other cells."""
        is_gpu = self.chip in SMS
        return family_of(self.kind, self.phase, is_gpu=is_gpu, is_ported=self.is_ported)

    def __str__(self) -> str:
        return (
            f"{rows_text(self.rows)} of {self.kind} {self.phase} on {self.chip}"
            f"{', as ported' if self.is_ported else ''} "
            f"(errors {self.median:.1%} in the median, {self.p90:.1%} at P90)"
        )


def rows_text(rows: int) -> str:
    """``1 published row``, ``24 published rows``."""
    return f"{rows} published row{'' if rows == 1 else 's'}"


_CELL_TABLE: Final = """\
kind       phase    chip         rows  median  p90    batch  length     ranks
ENCODER    ENCODE   trainium1    11    0.017   0.094  1-16   128        1
DIFFUSION  ENCODE   inferentia2  8     0.101   0.239  1      0          1
ENCODER    ENCODE   inferentia2  13    0.066   0.091  1-16   128        1
NETWORK    ENCODE   inferentia2  12    0.152   0.229  1-64   0          1
PAIR       ENCODE   inferentia2  4     0.181   0.306  1-64   9          1
VISION     ENCODE   inferentia2  1     0.181   0.181  1      197        1
DENSE      DECODE   trainium1    24    0.059   0.139  1-8    256-16384  32
DENSE      DECODE   inferentia2  33    0.02    0.086  1-8    256-16384  24
DENSE      DECODE   h100         4     0.094   0.144  1-100  1152-5500  2
EXPERTS    DECODE   h100         1     0.036   0.036  32     1152       4
LATENT     DECODE   h200         1     0.132   0.132  16     2048       8
LATENT     DECODE   b200         1     0.414   0.414  32     9216       8
DENSE      PREFILL  trainium1    24    0.25    0.437  1-8    128-8192   32
DENSE      PREFILL  inferentia2  33    0.134   0.549  1-8    128-8192   24
DENSE      PREFILL  h100         1     0.021   0.021  1      5000       2
DENSE      TRAIN    trainium1    11    0.053   0.104  1      2048-8192  8-32
ENCODER    TRAIN    trainium1    13    0.067   0.192  2-16   128-512    1
PAIR       TRAIN    trainium1    1     0.627   0.627  80     77         1
VISION     TRAIN    trainium1    3     0.074   0.22   56-64  197        1
DENSE      TRAIN    a100-80      8     0.059   0.085  1-4    2048       8
DENSE      TRAIN    b200         12    0.025   0.105  1      4096       1-8
EXPERTS    DECODE   trainium2    4     0.162   0.184  1-32   1750       4-64   ported
LATENT     DECODE   trainium2    5     0.105   0.4    1-8    400-512    64     ported
EXPERTS    PREFILL  trainium2    2     0.063   0.091  1      1500       4-64   ported
"""
"""Kinds and phases by the names of their members, ranges from the minimum to the maximum."""


def _cell(line: str) -> Cell:
    """The cell in a line of the table."""
    kind, phase, chip, rows, median, p90, batch, length, ranks, *state = line.split()
    return Cell(
        ModelKind[kind],
        Phase[phase],
        chip,
        int(rows),
        float(median),
        float(p90),
        _size_range(batch),
        _size_range(length),
        _size_range(ranks),
        is_ported=bool(state),
    )


def _size_range(text: str) -> tuple[int, int]:
    """Minimum and maximum, from ``1-16``, or from one number that is both."""
    minimum, _, maximum = text.partition("-")
    return int(minimum), int(maximum or minimum)


CELLS: Final = tuple(map(_cell, _CELL_TABLE.splitlines()[1:]))
"""All cells with rows."""


_FAMILY_BY_PHASE: Final = {
    Phase.DECODE: Family.DECODE,
    Phase.PREFILL: Family.PREFILL,
    Phase.TRAIN: Family.TRAINING,
}
_PORT_FAMILY_BY_PHASE: Final = {Phase.DECODE: Family.PORTS, Phase.PREFILL: Family.PORT_PROMPTS}
_GPU_FAMILY_BY_PHASE: Final = {
    Phase.ENCODE: Family.GPU_ENCODE,
    Phase.PREFILL: Family.GPU_PREFILL,
    Phase.DECODE: Family.GPU_DECODE,
    Phase.TRAIN: Family.GPU_TRAINING,
}
_FAMILY_BY_KIND: Final = {
    ModelKind.PAIR: Family.PAIRS,
    ModelKind.NETWORK: Family.NETWORKS,
    ModelKind.DIFFUSION: Family.DIFFUSION,
}


def family_of(kind: ModelKind, phase: Phase, *, is_gpu: bool, is_ported: bool = False) -> Family:
    """The family whose constants give the time of a pass."""
    if is_gpu:
        return _GPU_FAMILY_BY_PHASE[phase]
    if is_ported and phase in _PORT_FAMILY_BY_PHASE:
        return _PORT_FAMILY_BY_PHASE[phase]
    return _FAMILY_BY_PHASE.get(phase) or _FAMILY_BY_KIND.get(kind, Family.ENCODERS)
