"""The choice of the source of a layer's time on a rank of a machine.

A user's measured table comes first, then the few constants, or a GPU's rooflines, which have a time
for every layer. `LayerTime.source` names the one that was taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from trnsim.arch import target_of_chip
from trnsim.arch.catalogue import Accelerator
from trnsim.errors import BadInput
from trnsim.estimate import constants, gpu
from trnsim.estimate.few import FewConstants, PhaseConstants
from trnsim.estimate.measured import MeasuredTimes
from trnsim.estimate.site import site_times
from trnsim.estimate.times import LayerTime, LayerTimes
from trnsim.facts import Rate, assumed
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.summary import PartSummary

PRODUCTS: Final = "part of the peak that products reach"
HALF_LAYER: Final = "half a layer s"
_EIGHT_BIT_PEAKS: Final = ("fp8", "fp8_e4", "mxfp8", "cfp8")
"""Names of 8-bit floating-point peaks in the catalogue."""
_LANES: Final = 128
"""Lanes of the Vector Engine: one for each partition (trainium_inferentia2_arch.rst)."""
_INF2: Final = "inferentia2"


NETWORK: Final = "networks"
DENOISER: Final = "diffusion"
"""Families of models that are captured as graphs; every other family is named by a `Phase`."""
_GRAPH_CONSTANTS: Final = {NETWORK: constants.NETWORKS, DENOISER: constants.DIFFUSION}
"""Constants of these families."""


class Hardware(Protocol):
    """The properties of a machine that times of layers depend on."""

    @property
    def chip(self) -> Accelerator:
        """Its chip or GPU."""
        ...

    @property
    def lnc(self) -> int:
        """NeuronCores of a rank; 0 for a GPU."""
        ...

    @property
    def ranks_per_chip(self) -> int:
        """Ranks of a chip."""
        ...


@dataclass(frozen=True)
class TableOrModelTimes:
    """A user's measured times where the table has a layer, and modelled ones elsewhere.

    Attributes:
        measured: the user's table, or None.
    """

    modelled: LayerTimes
    measured: MeasuredTimes | None = None

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time of one layer of a summary."""
        layer_time = self.measured.forward(summary, model_pass) if self.measured else None
        return layer_time or self.modelled.forward(summary, model_pass)

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients of one layer of a summary."""
        layer_time = self.measured.backward(summary, model_pass) if self.measured else None
        return layer_time or self.modelled.backward(summary, model_pass)


def layer_times(
    machine: Hardware,
    family: str = "",
    dtype: str = "bf16",
    *,
    measured: MeasuredTimes | None = None,
) -> LayerTimes:
    """Times of layers on a rank of a machine.

    Args:
        machine: the machine.
        family: a `Phase`, for its passes alone; "" for all phases.
        dtype: the dtype of products: "fp32", "bf16" or "fp8"; of T4, "fp16".
        measured: the user's table.

    Raises:
        BadInput: the chip has no published peak in the dtype.
    """
    if not machine.lnc:
        modelled: LayerTimes = gpu.gpu_times(machine.chip, dtype)
        return TableOrModelTimes(site_times(modelled, machine.chip), measured)
    phases = (Phase(family),) if family else tuple(Phase)
    phase_times = {
        phase: _neuron(machine, _constants(machine, phase), dtype, phase) for phase in phases
    }
    return TableOrModelTimes(site_times(PhaseConstants(phase_times), machine.chip), measured)


@dataclass(frozen=True)
class ScaledTimes:
    """Times by the constants of one family, times a factor fitted to the rows of another.

    Attributes:
        modelled: times by the constants.
        source: the constants and the rows behind the factor, in words.
    """

    modelled: LayerTimes
    factor: float
    source: str

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time of one layer of a summary."""
        return self._times(self.modelled.forward(summary, model_pass))

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients of one layer of a summary."""
        return self._times(self.modelled.backward(summary, model_pass))

    def _times(self, layer_time: LayerTime) -> LayerTime:
        parts = {name: self.factor * time_s for name, time_s in layer_time.parts_s.items()}
        time_s = self.factor * layer_time.time_s
        return replace(layer_time, time_s=time_s, parts_s=parts, source=self.source)


def pair_times(machine: Hardware, dtype: str, measured: MeasuredTimes | None = None) -> LayerTimes:
    """Times of the towers of a model of image and text pairs, such as CLIP.

    Raises:
        BadInput: the chip has no published peak in the dtype.
    """
    encoder_times = layer_times(machine, Phase.ENCODE, dtype, measured=measured)
    if not machine.lnc:
        return encoder_times
    fit = replace(
        constants.NEURON[Phase.ENCODE], spread=constants.PAIRS.spread, rows=constants.PAIRS.rows
    )
    pair_encoder_times = _neuron(machine, fit, dtype, "pairs")
    scaled = ScaledTimes(
        pair_encoder_times, float(constants.PAIRS.factor), pair_encoder_times.source
    )
    return TableOrModelTimes(site_times(scaled, machine.chip, "pairs"), measured)


def graph_times(machine: Hardware, dtype: str, *, is_denoiser: bool) -> tuple[LayerTimes, float]:
    """Times of the parts of a captured graph, and seconds that each call takes besides.

    Raises:
        BadInput: the chip has no published peak in the dtype.
    """
    if not machine.lnc:
        return layer_times(machine, Phase.ENCODE, dtype), 0.0
    name = DENOISER if is_denoiser else NETWORK
    graph_part_times = _neuron(machine, _GRAPH_CONSTANTS[name], dtype, name)
    times = site_times(
        replace(graph_part_times, overlaps_elements=True, repeats_keys=False), machine.chip, name
    )
    return times, float(_GRAPH_CONSTANTS[name].call_s)


def facts(machine: Hardware, phase: Phase) -> dict[str, Rate]:
    """The constants behind the times of a phase; assumed if they were fitted to another chip."""
    if not machine.lnc:
        return {
            PRODUCTS: gpu.BASES[machine.chip.name],
            "part of the memory's bandwidth": constants.GPU_MEMORY,
            "launch of an operator s": gpu.LAUNCH_S,
        }
    fit, target = _constants(machine, phase), target_of_chip(machine.chip.name)
    rates = {
        PRODUCTS: fit.products,
        "HBM bytes/s of a NeuronCore-v2": fit.bytes_per_s,
        HALF_LAYER: fit.half_s,
    }
    if target is not None and target.is_fitted:
        return rates
    reason = "extrapolated from Trn1 and Inf2"
    extrapolated_rates = {
        name: assumed(fact, f"{reason}: {fact.provenance.source}") for name, fact in rates.items()
    }
    has_half_rows = fit is constants.KERNEL_PROMPTS and target is not None and target.validated
    return (
        {**extrapolated_rates, HALF_LAYER: rates[HALF_LAYER]}
        if has_half_rows
        else extrapolated_rates
    )


def shared_spread(chip: Accelerator, phase: str) -> float:
    """One sigma of the error that all of AWS's chips, or all GPUs, have in common in a phase.

    Args:
        chip: one of AWS's chips, or a GPU.
        phase: a `Phase`, `NETWORK` or `DENOISER`.
    """
    if not chip.is_neuron:
        return gpu.FITTED_SPREAD
    family = _GRAPH_CONSTANTS.get(phase) or constants.NEURON[Phase(phase)]
    return family.spread


def bytes_per_s(machine: Hardware) -> float:
    """Bytes per second of HBM that one rank of a machine reaches."""
    if not machine.lnc:
        return float(constants.GPU_MEMORY * machine.chip.memory_bytes_per_s)
    target = target_of_chip(machine.chip.name)
    share = float(machine.chip.memory_bytes_per_s) / machine.chip.cores
    if target is not None and target.is_fitted:
        return machine.lnc * float(constants.HBM_BYTES_PER_S)
    if target is None:
        return machine.lnc * share * constants.V2_MEMORY
    core = target.core
    reached = core.dma_paired_bytes_per_s if machine.lnc > 1 else core.dma_bytes_per_s
    return machine.lnc * min(float(reached), share)


def peak(machine: Hardware, dtype: str) -> float:
    """Published dense FLOP per second of one rank.

    Raises:
        BadInput: the chip has no published peak in the dtype.
    """
    peaks = machine.chip.peak_flop_per_s
    names = _EIGHT_BIT_PEAKS if dtype == "fp8" else (dtype,)
    for name in names:
        if name in peaks:
            return float(peaks[name]) / machine.ranks_per_chip
    raise BadInput(
        f"{machine.chip.name} has no published peak in {dtype}; legal: {', '.join(peaks)}",
        fix="for example --dtype bf16",
    )


def published_products_share(machine: Hardware, family: str) -> float:
    """The rate of products by a family's constants, as a share of the largest published peak.

    0 for a GPU, where products of different shapes reach different parts of the peak.
    """
    if not machine.lnc:
        return 0.0
    is_phase = family in tuple(Phase)
    graph_constants = _GRAPH_CONSTANTS.get(family, constants.NEURON[Phase.ENCODE])
    fit = _constants(machine, Phase(family)) if is_phase else graph_constants
    is_inf2 = machine.chip.name == _INF2
    share = float(fit.products) * (float(fit.inf2_products) if is_inf2 else 1.0)
    return share * peak(machine, "bf16") / largest_peak(machine)


def published_memory_share(machine: Hardware) -> float:
    """The rate of memory traffic by the constants, as a share of HBM's published bandwidth."""
    published = float(machine.chip.memory_bytes_per_s) / machine.ranks_per_chip
    return min(bytes_per_s(machine) / published, 1.0)


def largest_peak(machine: Hardware) -> float:
    """Largest published FLOP per second of one rank, of any dtype."""
    return max(map(float, machine.chip.peak_flop_per_s.values())) / machine.ranks_per_chip


def _constants(machine: Hardware, phase: Phase) -> constants.FamilyConstants:
    """A phase's constants; for prompts on chips with kernels for them, those of the kernels."""
    target = target_of_chip(machine.chip.name)
    if phase is Phase.PREFILL and target is not None and not target.is_fitted:
        return constants.KERNEL_PROMPTS
    return constants.NEURON[phase]


def _neuron(
    machine: Hardware, fit: constants.FamilyConstants, dtype: str, family: str
) -> FewConstants:
    target = target_of_chip(machine.chip.name)
    is_inf2 = machine.chip.name == _INF2
    has_own = fit is constants.KERNEL_PROMPTS and target is not None and target.validated
    is_fitted = has_own or (target is not None and target.is_fitted)
    extrapolation_spread = 0.0 if is_fitted else float(constants.EXTRAPOLATED_SPREAD)
    half_s = float(fit.inf2_half_s if is_inf2 and fit.inf2_half_s else fit.half_s)
    products = float(fit.products) * (float(fit.inf2_products) if is_inf2 else 1.0)
    vector_hz = float(target.core.vector_clock_hz if target else constants.V1_VECTOR_HZ)
    vector_element_s = 1 / (machine.lnc * _LANES * vector_hz)
    verb = "fitted to" if is_fitted else "extrapolated from"
    return FewConstants(
        flop_per_s=products * peak(machine, dtype),
        bytes_per_s=bytes_per_s(machine),
        cache_passes=float(fit.cache_passes),
        fixed_s=2 * half_s,
        spread=(fit.spread**2 + extrapolation_spread**2) ** 0.5,
        source=f"few constants of {family}, {verb} {fit.rows}",
        sequence_s=float(fit.sequence_s),
        score_s=float(fit.score_s) * constants.V2_PEAK / peak(machine, "bf16"),
        element_s=float(fit.element_passes) * vector_element_s,
        softmax_weight=float(fit.softmax_weight),
        kernel_softmax_s=float(constants.KERNEL_PASSES) * vector_element_s,
        host_bytes_per_s=float(fit.host_bytes_per_s),
        repeats_keys=True,
        kernel_score_s=float(fit.kernel_passes) * vector_element_s,
        attention_halves=float(fit.attention_halves),
    )
