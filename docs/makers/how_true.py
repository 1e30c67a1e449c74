"""docs/generated/how-true.md: the provenance of every number, engine by engine, memory by memory.

The page is made from the facts alone: it counts the facts of each kind and lists the assumed ones
with their reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.arch.targets import cores
from trnsim.facts import Count, Evidence, Fact, Flag, Names, Rate
from trnsim.formatting import markdown_table

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "SBUF": ("partitions", "quadrant_partitions", "sbuf_partition_bytes"),
    "PSUM": ("psum_banks", "psum_bank_bytes"),
    "HBM": ("hbm_bytes",),
    "Tensor Engine": (
        "pe_rows",
        "pe_columns",
        "pe_tile_minimum",
        "moving_free_max",
        "tensor_clock_hz",
        "tensor_ramp_s",
        "tensor_ramp_start",
        "tensor_dependent_s",
        "stationary_load_columns_per_cycle",
        "fp32_passes",
        "fp32_onezero_speedup",
        "fp32_transpose_speedup",
        "background_transpose_speedup",
        "fp8_double_row_contraction",
    ),
    "Vector Engine": (
        "vector_clock_hz",
        "vector_port_engines",
        "vector_transpose_partitions",
        "bn_stats_free_max",
        "search_free_max",
        "vector_reciprocal_cycles_per_element",
        "vector_aggregate_cycles_per_statistics",
        "vector_exponential_elements_per_cycle",
        "vector_random_values_per_cycle",
        "vector_16bit_copy_speedup",
        "vector_8bit_copy_speedup",
        "vector_16bit_strided_speedup",
        "vector_16bit_tensor_tensor_speedup",
        "vector_quantize_elements_per_cycle",
    ),
    "Scalar Engine": (
        "scalar_clock_hz",
        "scalar_16bit_copy_speedup",
        "activation_table_load_s",
        "scalar_dependent_s",
    ),
    "GpSimd Engine": (
        "gpsimd_clock_hz",
        "gpsimd_overhead_cycles",
        "gpsimd_gather_step_cycles",
        "gpsimd_gather_overhead_cycles",
        "gpsimd_topk_cycles_per_element",
        "gpsimd_rsqrt_cycles_per_element",
    ),
    "Every engine": (
        "minimum_interval_cycles",
        "access_latency_cycles",
        "strided_slowdown",
        "accumulator_read_cycles",
        "engine_semaphore_s",
    ),
    "DMA": (
        "dma_engines",
        "dma_bytes_per_s",
        "dma_paired_bytes_per_s",
        "dma_queues",
        "dma_issue_s",
        "dma_static_issue_s",
        "dma_start_s",
        "dma_stagger_s",
        "dma_end_s",
        "dma_packet_bytes",
        "dma_descriptor_s",
        "dma_short_run_bytes",
        "dma_short_run_bytes_per_s",
        "dma_transpose_efficiency",
        "dma_transpose_on_chip_efficiency",
        "dma_compute_efficiency",
        "dma_read_add_write_efficiency",
    ),
    "Control": (
        "logical_core_max",
        "register_s",
        "core_barrier_s",
        "launch_s",
        "paired_launch_s",
    ),
}
"""Engine, memory or other part of a NeuronCore -> the facts that describe it."""

_CATALOGUE: Final = (
    "chips",
    "gpus",
    "announced",
    "instances",
    "prices",
    "systems",
    "rainier",
    "measurements",
)
_KINDS: Final = tuple(Evidence)
_INTRODUCTION: Final = (
    "Every number has a source of one of four kinds. *Documented*: AWS (or a maker) states it. "
    "*Measured*: somebody measured it on hardware and published it. *Derived*: it is computed from "
    "such numbers. *Assumed*: nobody published it, and a reason for the value is given. For the "
    "P10 and P90 of a plan, each rate is drawn from a lognormal around its value, whose relative "
    "spread is {spreads}. These spreads are our assumption. The interval of a kernel comes from "
    "the errors of published times ([accuracy](accuracy.md)) and the spread of its launch.\n\n"
    "Each [page of the instruction set](isa/index.md) says which values of its instruction are "
    "approximate. Each estimate of the planner ends with what it assumes of models and systems. "
    "No estimate has been compared with a measurement of ours on hardware: [limits](../limits.md)."
)


def page() -> str:
    """The page "How true is it?", in Markdown."""
    parts = [
        "# How true is it?",
        _INTRODUCTION.format(spreads=_spreads()),
        "## A NeuronCore, part by part",
        _cores_table(),
        "## What is assumed of a NeuronCore",
        _assumed_of_cores(),
        "## Every fact of a NeuronCore",
        _every_fact(),
        "## Every feature of a NeuronCore",
        _every_feature(),
        "## Chips, instances and prices",
        _catalogue_table(),
        "## What is assumed of them",
        _assumed_of_catalogue(),
        "## Where primary sources disagree",
        markdown_table(
            ("topic", "one source", "another source"),
            [tuple(map(_cell, c)) for c in _contradictions()],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _spreads() -> str:
    return ", ".join(f"{kind.spread:.0%} {kind.value}" for kind in _KINDS)


def _counted(facts: Sequence[Fact]) -> tuple[str, ...]:
    """The number of facts of each kind, as cells of a table row."""
    counts = Counter(fact.provenance.kind for fact in facts)
    return tuple(str(counts[kind] or "-") for kind in _KINDS)


def _header(*first: str) -> tuple[str, ...]:
    return (*first, *(kind.value for kind in _KINDS))


def _cores_table() -> str:
    rows = [
        (part, core.name, *_counted([core.facts()[name] for name in names]))
        for part, names in PARTS.items()
        for core in cores()
    ]
    rows += [("all", core.name, *_counted(list(core.facts().values()))) for core in cores()]
    return markdown_table(_header("part", "core"), rows)


def _assumed_of_cores() -> str:
    rows = [
        (part, f"`{name}`", ", ".join(cores), f"{fact:g}", source)
        for part, names in PARTS.items()
        for name in names
        for cores, fact, source in _by_value(name)
        if fact.provenance.kind is Evidence.ASSUMED
    ]
    return markdown_table(("part", "fact", "cores", "value", "why"), rows)


def _every_fact() -> str:
    """A row for each fact and each of its distinct values."""
    rows = [
        (f"`{name}`", ", ".join(cores), f"{fact:g}", fact.provenance.kind.value, source)
        for names in PARTS.values()
        for name in names
        for cores, fact, source in _by_value(name)
    ]
    return markdown_table(("fact", "cores", "value", "kind", "source"), rows)


def _every_feature() -> str:
    """A row for each feature and each of its distinct values."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for core in cores():
        for name, fact in core.features.facts().items():
            row = (f"`{name}`", _shown(fact), _cell(fact.provenance.source))
            found.setdefault(row, []).append(core.version)
    by_name = sorted(found.items(), key=lambda item: item[0][0])
    rows = [(name, ", ".join(having), *rest) for (name, *rest), having in by_name]
    return markdown_table(("feature", "cores", "value", "source"), rows)


def _shown(fact: Flag | Names | Fact) -> str:
    """A feature's value in words."""
    if isinstance(fact, Flag):
        return "yes" if fact else "no"
    return ", ".join(sorted(fact)) or "none" if isinstance(fact, Names) else f"{fact:g}"


def _by_value(name: str) -> list[tuple[list[str], Fact, str]]:
    """(names of the cores that share a value, the fact, its source), for each distinct value."""
    found: dict[tuple[float, str], tuple[list[str], Fact, str]] = {}
    for core in cores():
        fact = core.facts()[name]
        source = _cell(fact.provenance.source)
        found.setdefault((fact, source), ([], fact, source))[0].append(core.version)
    return list(found.values())


def _catalogue_table() -> str:
    rows = [
        (area, *_counted([fact for _, fact in _leaves(getattr(catalogue(), area))]))
        for area in _CATALOGUE
    ]
    return markdown_table(_header("area"), rows)


def _assumed_of_catalogue() -> str:
    rows = [
        (area, name, f"{fact:g}", _cell(fact.provenance.source))
        for area in _CATALOGUE
        for name, fact in _leaves(getattr(catalogue(), area))
        if fact.provenance.kind is Evidence.ASSUMED
    ]
    return markdown_table(("area", "figure", "value", "why"), rows)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Fact]]:
    """(path, fact) for every fact in a row of the catalogue."""
    if isinstance(value, Count | Rate):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{name} {key}".strip())
    elif isinstance(value, tuple):
        for item in value:
            yield from _leaves(item, name)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), f"{name} {field.name}".strip())


def _contradictions() -> tuple[tuple[str, str, str], ...]:
    return catalogue().contradictions


def _cell(text: str) -> str:
    """Text on one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")
