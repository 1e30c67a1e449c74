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
from trnsim.workload.architecture import Architecture, LatentAttention
from trnsim.workload.captured import CapturedModel, Workload
from trnsim.workload.operators import Phase


class ModelKind(StrEnum):
    """A kind of model."""

    DENSE = "dense"
    EXPERTS = "mixture of experts"
    LATENT = "MLA"
    ENCODER = "encoder"
    ENCODER_DECODER = "encoder-decoder"
    VISION = "vision"
    PAIR = "image and text pairs"
    NETWORK = "CNN or Perceiver"
    DIFFUSION = "diffusion"


class Family(StrEnum):
    """Rows that share constants, and so their errors."""

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
        kind: the kind of model.
        phase: the phase.
        chip: the chip's name in the catalogue.
        rows: number of rows.
        median: median of the sizes of their errors.
        p90: P90 of them.
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


CELLS: Final = (
    Cell(
        ModelKind.ENCODER, Phase.ENCODE, "trainium1", 11, 0.017, 0.094, (1, 16), (128, 128), (1, 1)
    ),
    Cell(ModelKind.DIFFUSION, Phase.ENCODE, "inferentia2", 8, 0.228, 0.423, (1, 1), (0, 0), (1, 1)),
    Cell(
        ModelKind.ENCODER,
        Phase.ENCODE,
        "inferentia2",
        13,
        0.066,
        0.091,
        (1, 16),
        (128, 128),
        (1, 1),
    ),
    Cell(ModelKind.NETWORK, Phase.ENCODE, "inferentia2", 12, 0.156, 0.241, (1, 64), (0, 0), (1, 1)),
    Cell(ModelKind.PAIR, Phase.ENCODE, "inferentia2", 4, 0.181, 0.306, (1, 64), (9, 9), (1, 1)),
    Cell(
        ModelKind.VISION, Phase.ENCODE, "inferentia2", 1, 0.181, 0.181, (1, 1), (197, 197), (1, 1)
    ),
    Cell(
        ModelKind.DENSE, Phase.DECODE, "trainium1", 24, 0.059, 0.139, (1, 8), (256, 16384), (32, 32)
    ),
    Cell(
        ModelKind.DENSE,
        Phase.DECODE,
        "inferentia2",
        33,
        0.02,
        0.086,
        (1, 8),
        (256, 16384),
        (24, 24),
    ),
    Cell(ModelKind.DENSE, Phase.DECODE, "h100", 4, 0.094, 0.144, (1, 100), (1152, 5500), (2, 2)),
    Cell(ModelKind.EXPERTS, Phase.DECODE, "h100", 1, 0.036, 0.036, (32, 32), (1152, 1152), (4, 4)),
    Cell(ModelKind.LATENT, Phase.DECODE, "h200", 1, 0.132, 0.132, (16, 16), (2048, 2048), (8, 8)),
    Cell(ModelKind.LATENT, Phase.DECODE, "b200", 1, 0.414, 0.414, (32, 32), (9216, 9216), (8, 8)),
    Cell(
        ModelKind.DENSE, Phase.PREFILL, "trainium1", 24, 0.25, 0.437, (1, 8), (128, 8192), (32, 32)
    ),
    Cell(
        ModelKind.DENSE,
        Phase.PREFILL,
        "inferentia2",
        33,
        0.134,
        0.549,
        (1, 8),
        (128, 8192),
        (24, 24),
    ),
    Cell(ModelKind.DENSE, Phase.PREFILL, "h100", 1, 0.021, 0.021, (1, 1), (5000, 5000), (2, 2)),
    Cell(
        ModelKind.DENSE, Phase.TRAIN, "trainium1", 11, 0.053, 0.104, (1, 1), (2048, 8192), (8, 32)
    ),
    Cell(
        ModelKind.ENCODER, Phase.TRAIN, "trainium1", 13, 0.067, 0.192, (2, 16), (128, 512), (1, 1)
    ),
    Cell(ModelKind.PAIR, Phase.TRAIN, "trainium1", 1, 0.627, 0.627, (80, 80), (77, 77), (1, 1)),
    Cell(ModelKind.VISION, Phase.TRAIN, "trainium1", 3, 0.074, 0.22, (56, 64), (197, 197), (1, 1)),
    Cell(ModelKind.DENSE, Phase.TRAIN, "a100-80", 8, 0.059, 0.085, (1, 4), (2048, 2048), (8, 8)),
    Cell(ModelKind.DENSE, Phase.TRAIN, "b200", 12, 0.025, 0.105, (1, 1), (4096, 4096), (1, 8)),
    Cell(
        ModelKind.EXPERTS,
        Phase.DECODE,
        "trainium2",
        4,
        0.162,
        0.184,
        (1, 32),
        (1750, 1750),
        (4, 64),
        is_ported=True,
    ),
    Cell(
        ModelKind.LATENT,
        Phase.DECODE,
        "trainium2",
        5,
        0.105,
        0.4,
        (1, 8),
        (400, 512),
        (64, 64),
        is_ported=True,
    ),
    Cell(
        ModelKind.EXPERTS,
        Phase.PREFILL,
        "trainium2",
        2,
        0.063,
        0.091,
        (1, 1),
        (1500, 1500),
        (4, 64),
        is_ported=True,
    ),
)
"""All cells with rows."""


def kind_of(model: Workload) -> ModelKind:
    """The kind of a model; one with MLA and experts counts as one with MLA."""
    if isinstance(model, CapturedModel):
        return ModelKind.DIFFUSION if model.is_of_diffusers else ModelKind.NETWORK
    holds = {
        ModelKind.PAIR: model.is_pair,
        ModelKind.VISION: model.is_of_images,
        ModelKind.LATENT: _has_latents(model),
        ModelKind.EXPERTS: model.has_experts,
        ModelKind.ENCODER_DECODER: len(model.towers) > 1,
        ModelKind.DENSE: model.is_generating,
    }
    return next((kind for kind, is_held in holds.items() if is_held), ModelKind.ENCODER)


def _has_latents(model: Architecture) -> bool:
    return any(
        isinstance(attention, LatentAttention)
        for tower in model.towers
        for layer in tower.layers
        for attention in layer.attentions
    )


_FAMILIES: Final = {
    Phase.DECODE: Family.DECODE,
    Phase.PREFILL: Family.PREFILL,
    Phase.TRAIN: Family.TRAINING,
}
_PORTS: Final = {Phase.DECODE: Family.PORTS, Phase.PREFILL: Family.PORT_PROMPTS}
_OF_GPUS: Final = {
    Phase.ENCODE: Family.GPU_ENCODE,
    Phase.PREFILL: Family.GPU_PREFILL,
    Phase.DECODE: Family.GPU_DECODE,
    Phase.TRAIN: Family.GPU_TRAINING,
}
_OF_KINDS: Final = {
    ModelKind.PAIR: Family.PAIRS,
    ModelKind.NETWORK: Family.NETWORKS,
    ModelKind.DIFFUSION: Family.DIFFUSION,
}


def family_of(kind: ModelKind, phase: Phase, *, is_gpu: bool, is_ported: bool = False) -> Family:
    """The rows whose constants a pass is estimated by."""
    if is_gpu:
        return _OF_GPUS[phase]
    if is_ported and phase in _PORTS:
        return _PORTS[phase]
    return _FAMILIES.get(phase) or _OF_KINDS.get(kind, Family.ENCODERS)
