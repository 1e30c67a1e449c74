"""The certainty of an estimate: one sigma by its distance from published rows.

sigma = factor x sqrt(own^2 + releases^2 + (scores x part of scores)^2 + core^2 + kind^2
        + (chip x part not read from memory)^2 + doublings of batch, length, ranks x their weight^2)

The own error of a family, the weight of each distance and the factor of a family's conformal
quantile are fitted by `bench/system/intervals.py` to errors of rows that were left out in seven
ways (docs/generated/accuracy-models.md, Coverage). A variance grows in proportion to doublings, as
in kriging with a linear variogram.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from trnsim.arch import target_of_chip
from trnsim.arch.catalogue import Accelerator
from trnsim.estimate.cells import CELLS, Cell, Family, family_of, rows_text
from trnsim.estimate.choice import DENOISER, NETWORK, Hardware
from trnsim.estimate.estimate import Estimate
from trnsim.estimate.reach import list_extrapolations
from trnsim.estimate.site import site_correction
from trnsim.facts import Evidence, Rate, assumed, derived, measured
from trnsim.workload.architecture import Architecture
from trnsim.workload.captured import Workload
from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Pass, Phase

FEW: Final = "few constants"
"""Start of the sources whose errors are replaced by those of cells."""
_MEASURED: Final = "measured"
_READ_PARTS: Final = ("weights", "KV")
_SCORES_PART: Final = "scores"
_MOST_DOUBLINGS_AMONG_ROWS: Final = 1.0
"""Doublings of a size beyond the rows of a cell up to which a question counts as among them."""
_NO_SCORES: Final = assumed(0.0, "no time of scores apart")
_FIT: Final = "fitted to errors of rows left out in seven ways (bench/system/intervals.py)"


@dataclass(frozen=True)
class FamilyScale:
    """Relative errors of a family's estimates for questions as near as its published rows.

    Attributes:
        sigma: one sigma of the time.
        factor: conformal quantile of the family's errors in sigmas, by which one sigma is
            multiplied; it is large for a small family.
        scores: one sigma of the part of the time that scores of attention take.
    """

    sigma: Rate
    factor: Rate
    scores: Rate = _NO_SCORES


def _scale(sigma: float, factor: float, scores: float = 0.0) -> FamilyScale:
    return FamilyScale(derived(sigma, _FIT), derived(factor, _FIT), derived(scores, _FIT))


_NO_FACTOR: Final = assumed(1.0, "too few rows for a quantile of their own")
_SERVED: Final = assumed(0.30, "two rows or none without a queue in it: as of a core without rows")
_PORT_ERRORS: Final = derived(
    0.19, "one sigma of 9 TPOT rows of ports, each publication left out (accuracy-serving.md)"
)
_GPU_STEPS: Final = derived(
    0.19, "the conformal quantile of 7 TPOT rows of servers on GPUs, to which nothing is fitted"
)
SCALES: Final = {
    Family.ENCODERS: _scale(0.029, 1.018),
    Family.PAIRS: _scale(0.175, 1.230),
    Family.DECODE: _scale(0.006, 1.000),
    Family.PREFILL: _scale(0.164, 1.008, 0.847),
    Family.NETWORKS: _scale(0.175, 1.032),
    Family.DIFFUSION: _scale(0.175, 1.136),
    Family.TRAINING: _scale(0.113, 1.013),
    Family.GPU_TRAINING: _scale(0.017, 1.011),
    Family.PORTS: FamilyScale(_PORT_ERRORS, _NO_FACTOR),
    Family.PORT_PROMPTS: FamilyScale(_SERVED, _NO_FACTOR),
    Family.GPU_DECODE: FamilyScale(_GPU_STEPS, _NO_FACTOR),
    Family.GPU_PREFILL: FamilyScale(_SERVED, _NO_FACTOR),
    Family.GPU_ENCODE: FamilyScale(_SERVED, _NO_FACTOR),
}
"""Scales by family."""
RELEASES: Final = measured(
    0.056,
    "124 figures of releases of the SDK about the median of their configuration "
    "(aws-neuron-sdk, about-neuron/benchmarks/trn1): four fifths within 7.2 %",
)
"""One sigma of a figure between releases, which every estimate has, however near to the rows."""
CORE: Final = assumed(
    0.30, "one sigma on a core or GPU without rows of the family; two GPUs with rows differ by 0.4"
)
HALVES: Final = derived(
    0.17,
    "prompts on Trn2: 79 halves of layers left out by size (docs/generated/accuracy-halves.md)",
)
"""One sigma of a prompt on a core of which times of half layers are published."""
KIND: Final = assumed(0.30, "one sigma of a kind of model without rows of the family: as of a core")
CHIP: Final = derived(0.159, _FIT)
"""One sigma on another chip of a core with rows, of the part not read from memory."""
BATCH: Final = derived(0.073, _FIT)
"""One sigma of a doubling of the batch beyond the rows."""
LENGTH: Final = derived(0.052, _FIT)
"""One sigma of a doubling of the length beyond the rows."""
RANKS: Final = derived(0.062, _FIT)
"""One sigma of a doubling of the tensor ranks beyond the rows."""


@dataclass(frozen=True)
class QuestionCell:
    """A pass as a cell of published rows.

    Attributes:
        chip: the chip's name in the catalogue.
        family: rows that share its constants.
        batch: sequences or images at once.
        length: tokens that a query attends to; 0 for graphs.
        is_ported: True for a port that is not tuned.
    """

    kind: ModelKind
    phase: Phase
    chip: str
    family: Family
    batch: int
    length: int
    ranks: int
    is_ported: bool = False


def subject(
    model: Workload, model_pass: Pass, chip: Accelerator, ranks: int, *, is_ported: bool = False
) -> QuestionCell:
    """The cell of a pass."""
    kind = model.kind
    length = 0  # of a graph
    if isinstance(model, Architecture):
        length = model.decoder.tokens or model_pass.tokens + model_pass.past
    is_ported = is_ported and isinstance(model, Architecture) and model.experts is not None
    return QuestionCell(
        kind,
        model_pass.phase,
        chip.name,
        family_of(kind, model_pass.phase, is_gpu=not chip.is_neuron, is_ported=is_ported),
        model_pass.batch,
        length,
        ranks,
        is_ported,
    )


@dataclass(frozen=True)
class Support:
    """Published rows behind an estimate, and the distance of its question from them.

    Attributes:
        cell: the question's own cell; None without rows.
        family: all cells that share its constants.
        differences: the ways in which it differs from the rows, in words.
    """

    cell: Cell | None
    family: tuple[Cell, ...]
    differences: tuple[str, ...]

    @property
    def is_validated(self) -> bool:
        """True if its cell has rows, and the question lies among them."""
        return self.cell is not None and not self.differences

    def __str__(self) -> str:
        if self.cell is not None and not self.differences:
            return f"validated by {self.cell}"
        rows = sum(cell.rows for cell in self.family)
        if not rows:
            return "no published rows"
        differences_text = ", ".join(self.differences)
        return (
            f"carried over from {rows_text(rows)}, interval widened by distance: {differences_text}"
        )


@lru_cache(maxsize=4096)
def support(question: QuestionCell) -> Support:
    """The rows behind an estimate."""
    family = tuple(cell for cell in CELLS if cell.family is question.family)
    own_cell = next(
        (
            cell
            for cell in family
            if (cell.kind, cell.chip) == (question.kind, question.chip)
            and cell.phase is question.phase
        ),
        None,
    )
    return Support(own_cell, family, tuple(_differences(question, family, own_cell)))


def _differences(
    question: QuestionCell, family: tuple[Cell, ...], own_cell: Cell | None
) -> list[str]:
    """Differences of a question from the rows of its own cell, or of its family, in words."""
    differences: list[str] = []
    if not any(cell.chip == question.chip for cell in family):
        differences.append(f"no row on {question.chip}")
    if not any(cell.kind is question.kind for cell in family):
        differences.append(f"no row of {question.kind}")
    if own_cell is None and not differences:
        differences.append(f"no row of {question.kind} on {question.chip}")
    own_or_family_cells = (own_cell,) if own_cell else family
    chip_or_family_cells = tuple(cell for cell in family if cell.chip == question.chip) or family
    for name in ("batch", "length", "ranks"):
        compared_cells = chip_or_family_cells if name == "ranks" else own_or_family_cells
        value, ranges = getattr(question, name), [getattr(cell, name) for cell in compared_cells]
        if family and _doublings(value, ranges) > _MOST_DOUBLINGS_AMONG_ROWS:
            low, high = _span(ranges)
            rows = f"{low:,} to {high:,}" if low < high else f"{low:,}"
            differences.append(f"{name} {value:,} where rows have {rows}")
    return differences


@lru_cache(maxsize=4096)
def distance_variance(question: QuestionCell) -> tuple[float, float]:
    """Two variances that grow with the distance of a question from the published rows.

    They are of the logarithm of the whole time, and of that of the part that reads no memory.
    """
    family = [cell for cell in CELLS if cell.family is question.family]
    if not family:
        return 0.0, 0.0
    cells_of_chip = [cell for cell in family if cell.chip == question.chip]
    core = core_of(question.chip)
    is_new_core = core not in {core_of(cell.chip) for cell in family}
    nearest_cells = cells_of_chip or family
    variance = BATCH**2 * _doublings(question.batch, [cell.batch for cell in nearest_cells])
    variance += LENGTH**2 * _doublings(question.length, [cell.length for cell in nearest_cells])
    variance += RANKS**2 * _doublings(question.ranks, [cell.ranks for cell in nearest_cells])
    if is_new_core:
        variance += (HALVES if _has_halves(question) else CORE) ** 2
    if all(cell.kind is not question.kind for cell in family):
        variance += KIND**2
    return variance, 0.0 if cells_of_chip or is_new_core else CHIP**2


def _doublings(value: int, ranges: list[tuple[int, int]]) -> float:
    """Doublings by which a size lies beyond all ranges; 0 for a size that a graph does not have."""
    low, high = _span(ranges)
    if not (value and low):
        return 0.0
    return max(0.0, math.log2(value / high), math.log2(low / value))


def _span(ranges: list[tuple[int, int]]) -> tuple[int, int]:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def core_of(chip: str) -> str:
    """The core of one of AWS's chips; a GPU's name without its memory."""
    target = target_of_chip(chip)
    return target.core.name if target else chip.split("-", maxsplit=1)[0]


def _has_halves(question: QuestionCell) -> bool:
    """True for prompts on a chip of which halves of layers are published."""
    target = target_of_chip(question.chip)
    is_later = target is not None and target.validated and not target.is_fitted
    return is_later and question.family is Family.PREFILL


def sigma_of(
    question: QuestionCell,
    *,
    scores: float = 0.0,
    read_share: float = 0.0,
    further_sigma: float = 0.0,
) -> float:
    """One sigma of the logarithm of (true / estimate).

    Args:
        question: the question's cell.
        scores: part of the time that scores of attention take.
        read_share: part that weights, keys and values take beyond products.
        further_sigma: a sigma, added in squares.
    """
    scale = SCALES[question.family]
    variance, chip_variance = distance_variance(question)
    variance += scale.sigma**2 + RELEASES**2 + (scale.scores * scores) ** 2
    variance += chip_variance * (1 - read_share) ** 2 + further_sigma**2
    return float(scale.factor) * math.sqrt(variance)


def with_errors(
    estimate: Estimate,
    question: QuestionCell,
    further_sigma: float = 0.0,
    minimum_sigma: float = 0.0,
) -> Estimate:
    """The estimate of a pass with the errors of its cell.

    Times that a user measured keep their own errors.

    Args:
        estimate: estimate by few constants of the pass alone, as the shares of its parts decide
            its sigma; an estimate from another source is returned unchanged.
        question: cell of the pass.
        further_sigma: a sigma, added in squares.
        minimum_sigma: minimum of the sigma.
    """
    source = next((name for name in estimate.errors_s if name.startswith(FEW)), None)
    if source is None or not estimate.time_s:
        return estimate
    measured_errors_s = {
        name: error_s for name, error_s in estimate.errors_s.items() if name.startswith(_MEASURED)
    }
    measured_s = sum(error_s / Evidence.MEASURED.spread for error_s in measured_errors_s.values())
    covered_s = max(estimate.time_s - measured_s, 0.0)
    parts_s, total_s = estimate.parts_s, estimate.time_s
    sigma = sigma_of(
        question,
        scores=parts_s.get(_SCORES_PART, 0.0) / total_s,
        read_share=sum(parts_s.get(name, 0.0) for name in _READ_PARTS) / total_s,
        further_sigma=further_sigma,
    )
    return replace(
        estimate, errors_s={source: max(sigma, minimum_sigma) * covered_s, **measured_errors_s}
    )


_SITE_FAMILY_NAMES: Final = {
    Family.PAIRS: "pairs",
    Family.NETWORKS: NETWORK,
    Family.DIFFUSION: DENOISER,
}
"""Names of the families in a site's corrections, where they are not named after their phase."""


def judged_estimate(
    estimate: Estimate,
    model: Workload,
    model_pass: Pass,
    machine: Hardware,
    ranks: int,
    further_sigma: float = 0.0,
    *,
    is_ported: bool = False,
) -> Estimate:
    """The estimate of a pass with errors and remarks by its distance from published rows.

    A time that a site corrects by measured rows of its own keeps the error of these rows.

    Args:
        estimate: the estimate of the pass.
        model: the model.
        model_pass: the pass.
        machine: the machine.
        ranks: tensor ranks.
        further_sigma: a sigma, added in squares.
        is_ported: True for a port that is not tuned.
    """
    question = subject(model, model_pass, machine.chip, ranks, is_ported=is_ported)
    rows = support(question)
    is_modelled = any(name.startswith(FEW) for name in estimate.errors_s)
    correction = site_correction(
        machine.chip, _SITE_FAMILY_NAMES.get(question.family, str(question.phase))
    )
    if correction is None or not correction.rows:
        estimate = with_errors(
            estimate, question, further_sigma, minimum_sigma=correction.sigma if correction else 0.0
        )
    return replace(
        estimate,
        extrapolations=list_extrapolations(model, model_pass, machine.lnc),
        evidence=(str(rows),) if is_modelled else (),
        is_validated=is_modelled and rows.is_validated,
    )
