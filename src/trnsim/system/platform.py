"""A platform: one instance type, and the facts about it that the closed forms use.

Peaks, bandwidths and capacities come from the catalogue. Efficiencies and fixed latencies are
published measurements, or fitted to them; where none is published for a chip, the value of a
related chip is used and marked as assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import Accelerator, Catalogue, Instance, catalogue
from trnsim.errors import BadInput
from trnsim.facts import Evidence, Provenance, Rate, assumed, derived, documented, measured
from trnsim.system.links.gpu import PCIE_BYTES_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnsim.arch import Target

_GPUS: Final = {"p5": "p5.48xlarge", "p5en": "p5en.48xlarge"}
_COMPARED_GPU: Final = "p5en"
_PEAKS: Final = ("bf16", "fp16")
"""Formats of 16 bits; T4 multiplies FP16 alone."""
_HOPPER: Final = ("h100", "h200")

_ENGINE_EFFICIENCY: Final = derived(
    0.40,
    "one constant for six published Trn1 training rows (aws-neuron-sdk, benchmarks/trn1), "
    "6.5 % leave-one-out error; few rows, so weak evidence",
)
_GPU_EFFICIENCY: Final = measured(
    0.405, "middle of 38-43 % MFU on 8k to 16k H100 (Llama 3 paper, table 4)"
)
_HBM_EFFICIENCY: Final = derived(
    0.68,
    "fitted with the half-layer latency to 90 published Trn1 and Inf2 decode rows, 9.4 % error",
)
_HALF_LAYER_S: Final = derived(
    78e-6, "fitted with the HBM efficiency to 90 published Trn1 and Inf2 decode rows"
)
_PREFILL: Final = "median over published Trn1 and Inf2 TTFT rows of batch 1, at least 1024 tokens"


@dataclass(frozen=True)
class Platform:
    """One instance type with the facts that the closed forms use.

    Attributes:
        name: short name, or the instance name.
        facts: every number with an uncertainty, by the name that reports use.
        ranks_per_chip: logical NeuronCores (GPUs: 1); KV heads are split or copied over them.
        recompute: FLOPs executed per FLOP of the model; 4/3 where the forward pass is repeated.
        is_communication_included: whether the measured efficiency includes communication.
        note: a caveat that readers of an estimate must know.
    """

    name: str
    instance: Instance
    chip: Accelerator
    facts: Mapping[str, Rate]
    ranks_per_chip: int
    recompute: float
    is_communication_included: bool
    note: str


def trainiums() -> tuple[str, ...]:
    """Names of the chips for training."""
    return tuple(chip.name for chip in TARGETS.values() if chip.is_for_training)


def compared() -> tuple[str, ...]:
    """Names of the platforms that plans compare by default: every Trainium, and a GPU."""
    return (*trainiums(), _COMPARED_GPU)


def platforms() -> dict[str, str]:
    """Short names, and the instance that each stands for. Exact instance names work as well."""
    training_first = sorted(TARGETS.values(), key=lambda chip: not chip.is_for_training)
    return {chip.name: chip.instance for chip in training_first} | _GPUS


def platform(name: str, rows: Catalogue | None = None) -> Platform:
    """The platform with the short name or instance name `name`.

    Raises:
        BadInput: no such platform, or its chip lacks a public peak in 16 bits.
    """
    rows = rows or catalogue()
    short = platforms()
    instance = rows.instances.get(short.get(name, name))
    if instance is None:
        legal = ", ".join([*short, *(key for key in rows.instances)])
        raise BadInput(f"target {name!r} is not known; legal: {legal}", fix="for example --on trn2")
    chip = rows.accelerator(instance.accelerator)
    if not any(name in chip.peak_flop_per_s for name in _PEAKS):
        raise BadInput(f"target {name!r}: {chip.name} has no public BF16 or FP16 peak")
    return Platform(
        name=name,
        instance=instance,
        chip=chip,
        facts=_facts(instance, chip),
        ranks_per_chip=_ranks_per_chip(chip),
        recompute=4 / 3 if chip.is_neuron else 1.0,
        is_communication_included=not chip.is_neuron,
        note=_note(chip),
    )


def _facts(instance: Instance, chip: Accelerator) -> dict[str, Rate]:
    """Facts about the hardware and its efficiency."""
    facts = {
        "peak FLOP/s (bf16)": next(
            chip.peak_flop_per_s[name] for name in _PEAKS if name in chip.peak_flop_per_s
        ),
        "HBM bytes/s": chip.memory_bytes_per_s,
        "chip-to-chip bytes/s": _link(chip),
        "chip-to-chip hop s": documented(
            1.5e-6, "middle of 1-2 us per hop (aws-neuron-sdk, intranode-collective-comm.rst)"
        ),
        "EFA hop s": documented(
            15e-6, "about 15 us per hop (aws-neuron-sdk, internode-collective-comm.rst)"
        ),
        "usable memory fraction": assumed(
            0.9, "room for runtime, code and fragmentation; no vendor publishes it"
        ),
        **_efficiencies(chip),
    }
    if instance.efa_bytes_per_s is not None:
        facts["EFA bytes/s"] = instance.efa_bytes_per_s
    return facts


def _efficiencies(chip: Accelerator) -> dict[str, Rate]:
    if chip.is_neuron:
        found = _target(chip)
        is_fitted, origin = found is not None and found.is_fitted, "carried over from Trn1 and Inf2"
        prefill = assumed(0.16, f"{_PREFILL}; they range from 0.03 to 0.24")
        return {
            "training efficiency": _carried(_ENGINE_EFFICIENCY, is_fitted, origin),
            "prefill efficiency": prefill,
            "HBM efficiency": _carried(_HBM_EFFICIENCY, is_fitted, origin),
            "half-layer latency s": _carried(_HALF_LAYER_S, is_fitted, origin),
        }
    return {
        "training efficiency": _carried(
            _GPU_EFFICIENCY, chip.name in _HOPPER, "carried over from H100"
        ),
        "prefill efficiency": assumed(_GPU_EFFICIENCY, "taken equal to the training MFU of H100"),
        "HBM efficiency": assumed(_HBM_EFFICIENCY, "taken equal to Trn1's, for an even comparison"),
        "half-layer latency s": assumed(
            20e-6, "a quarter of Trn1's; no published figure was found"
        ),
    }


def _carried(fact: Rate, is_own: bool, origin: str) -> Rate:
    """The fact itself where it was observed on this chip, else marked as assumed."""
    if is_own:
        return fact
    return Rate(fact, Provenance(Evidence.ASSUMED, f"{origin}: {fact.provenance.source}"))


def _link(chip: Accelerator) -> Rate:
    """Bandwidth of a chip to its neighbours in a tensor-parallel group, bytes per second."""
    link = chip.server_link_bytes_per_s or chip.link_bytes_per_s
    if link is None:
        return PCIE_BYTES_PER_S
    found = _target(chip)
    return assumed(link, found.link_doubt) if found and found.link_doubt else link


def _ranks_per_chip(chip: Accelerator) -> int:
    if not chip.is_neuron:
        return 1
    found = _target(chip)
    return chip.cores // (found.core.logical_core_max if found else 1)


def _note(chip: Accelerator) -> str:
    found = _target(chip)
    return found.plan_note if found else ""


def _target(chip: Accelerator) -> Target | None:
    """The target whose chip this is; None for a GPU or an Inferentia1."""
    return next((one for one in TARGETS.values() if one.chip == chip.name), None)
