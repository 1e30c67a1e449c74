"""Chips, instances, GPUs, systems and dated prices: frozen data, every number with its source.

The rows live in ``catalogue.json``. A leaf there is ``{value, unit, source, note}``; here it is a
fact in SI units (bytes, bytes per second, FLOP per second, watts, USD per hour). Nothing here
computes: prices are picked in ``trnsim.price`` and times estimated in ``trnsim.system``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any, Final, TypeVar

from trnsim.arch.prices import Credit, Price, Terms, read_price, read_terms, seen_days
from trnsim.errors import BadInput
from trnsim.facts import Evidence, Provenance, Rate

__all__ = [
    "Accelerator",
    "Announced",
    "Catalogue",
    "Credit",
    "Instance",
    "Price",
    "Release",
    "Resolution",
    "Terms",
    "catalogue",
    "parse",
    "read_rows",
    "seen_days",
]

Row = Mapping[str, Any]
_Row = TypeVar("_Row")

_MOST_SIMILAR_NAMES: Final = 3
"""Number of names that a refusal proposes."""

_FACTOR_OF_UNIT: Final[Mapping[str, float]] = {
    "": 1.0,
    "x": 1.0,
    "W": 1.0,
    "USD": 1.0,
    "acres": 1.0,
    "cores": 1.0,
    "links": 1.0,
    "TFLOPS": 1e12,
    "TOPS": 1e12,
    "PFLOPS": 1e15,
    "GB": 1e9,
    "TB": 1e12,
    "GiB": 2.0**30,
    "GB/s": 1e9,
    "TB/s": 1e12,
    "GiB/s": 2.0**30,
    "Gbps": 1e9 / 8,
}
_UNIT_SPELLINGS: Final[Mapping[str, str]] = {
    "TFLOPS/TOPS": "TFLOPS",
    "GB/GiB": "GB",
    "GB/s bidir": "GB/s",
    "GB/s/chip": "GB/s",
    "GB/s/device": "GB/s",
    "GiB/s/chip": "GiB/s",
}
_FROM_CLOCK: Final = "from_clock"
"""Suffix of the key of a peak computed as array times clock: "mxfp8_from_clock".

The suffix alone is a key of bf16.
"""
_KINDS_BY_STRENGTH: Final = (
    *(Evidence.MEASURED, Evidence.DOCUMENTED, Evidence.DERIVED, Evidence.ASSUMED),
)
"""Kinds of evidence, the strongest first."""


@dataclass(frozen=True)
class Accelerator:
    """A chip: a Trainium, an Inferentia, a GPU or a TPU.

    Attributes:
        name: the key of its row ("trainium2", "h200").
        cores: NeuronCores, or 0 where the notion does not apply.
        memory_bytes: capacity of HBM (of DRAM on Inferentia1).
        peak_flop_per_s: published dense peak of each dtype.
        peak_sparse_flop_per_s: published peak of each dtype with structured sparsity.
        link_bytes_per_s: chip-to-chip bandwidth as published, all links together.
        server_link_bytes_per_s: the part of it inside a server, where stated.
        between_servers_bytes_per_s: the part between the servers of an UltraServer.
        between_racks_bytes_per_s: the part between the racks of an UltraServer.
        power_w: watts, where a figure is public.
        kind: "neuron", "gpu" or "tpu".
        aliases: other names ("Trn2").
        year: the year of its first instances, where a source states one.
        clock_peak_flop_per_s: dense peak of a dtype as array times clock, where the clock is known.
        other_peak_flop_per_s: peaks that other pages publish, by dtype and page.
        note: further remarks of the source.
    """

    name: str
    cores: int
    memory_bytes: Rate
    memory_bytes_per_s: Rate
    peak_flop_per_s: Mapping[str, Rate]
    peak_sparse_flop_per_s: Mapping[str, Rate]
    link_bytes_per_s: Rate | None
    server_link_bytes_per_s: Rate | None
    between_servers_bytes_per_s: Rate | None
    between_racks_bytes_per_s: Rate | None
    power_w: Rate | None
    kind: str = "gpu"
    aliases: tuple[str, ...] = ()
    year: Rate | None = None
    clock_peak_flop_per_s: Mapping[str, Rate] = field(default_factory=dict[str, Rate])
    other_peak_flop_per_s: Mapping[str, Rate] = field(default_factory=dict[str, Rate])
    memory_kind: str = ""
    note: str = ""

    @property
    def is_neuron(self) -> bool:
        """True for an AWS chip (Trainium or Inferentia)."""
        return self.cores > 0


@dataclass(frozen=True)
class Announced:
    """An announced chip: figures derived as multiples of another chip's. Nothing runs on it.

    Attributes:
        compared_chip: the chip of whose figures multiples are announced.
        status: its state of announcement or availability, in words.
        multiples: multiples of that chip's figures, as announced, by quantity.
        derived: figures that follow from the multiples.
        hybrids: announced systems of this chip and other makers': text and source.
    """

    name: str
    compared_chip: str
    status: str
    multiples: Mapping[str, Rate]
    derived: Mapping[str, Rate]
    hybrids: tuple[tuple[str, Provenance], ...] = ()


@dataclass(frozen=True)
class Resolution:
    """The resolution of a contradiction between sources.

    Attributes:
        names: the chips and instances that it concerns.
        used: the reading that is used here, with the reason.
    """

    names: tuple[str, ...]
    used: str


@dataclass(frozen=True)
class Instance:
    """An EC2 instance type or an UltraServer.

    Attributes:
        accelerator: key of its chip.
        count: chips in it.
        memory_bytes: accelerator memory of the whole instance.
        link_bytes_per_s: chip-to-chip bandwidth, where it differs from the chip's usual one.
        efa_bytes_per_s: EFA bandwidth of the whole instance, or None where not stated or absent.
        efa_devices: EFA adapters; 0 where none is stated.
        topology: topology of its chips, in words.
        shape: the topology as "single", "chain 4", "torus 4x4" or "racks 2x18x4" (racks, servers in
            a rack, chips in a server); "" for GPUs.
        vcpus: processors of the host, as EC2 counts them.
        host_bytes: memory of the host, or None where no source states it.
    """

    name: str
    accelerator: str
    count: int
    memory_bytes: Rate
    link_bytes_per_s: Rate | None
    efa_bytes_per_s: Rate | None
    efa_devices: int
    topology: str
    shape: str
    note: str
    vcpus: int = 0
    host_bytes: Rate | None = None


@dataclass(frozen=True)
class Release:
    """A release of the Neuron SDK, and the versions of PyTorch, JAX and Python it supports."""

    version: str
    released: date
    supports: Mapping[str, str]


@dataclass(frozen=True)
class Catalogue:
    """All rows of the catalogue; `chips` are AWS's, `gpus` other makers'.

    Attributes:
        generated: day on which the rows were collected.
        terms: terms of each kind of purchase.
        credits: AWS's deductions from the user's bill, as a file of the user states them.
        systems: published figures of whole GPU racks, by quantity.
        rainier: published figures of Project Rainier.
        measurements: published ratios between two instances, by measurement.
        contradictions: topics on which primary sources disagree, with both readings.
        resolutions: the reading that is used here, by topic.
    """

    generated: date
    chips: Mapping[str, Accelerator]
    gpus: Mapping[str, Accelerator]
    announced: Mapping[str, Announced]
    instances: Mapping[str, Instance]
    prices: tuple[Price, ...]
    terms: Mapping[str, Terms]
    systems: Mapping[str, Mapping[str, Rate]]
    rainier: Mapping[str, Rate]
    measurements: Mapping[str, Rate]
    releases: Mapping[str, Release]
    contradictions: tuple[tuple[str, str, str], ...]
    resolutions: Mapping[str, Resolution]
    credits: tuple[Credit, ...] = ()

    def accelerator(self, name: str) -> Accelerator:
        """The chip or GPU called `name`.

        Raises:
            BadInput: no such row.
        """
        return _row({**self.chips, **self.gpus}, "accelerator", name)

    def instance(self, name: str) -> Instance:
        """The instance type or UltraServer called `name`.

        Raises:
            BadInput: no such row.
        """
        return _row(self.instances, "instance", name)


def _row(rows: Mapping[str, _Row], kind: str, name: object) -> _Row:
    """The row called `name`, which may be anything that a user gave."""
    if isinstance(name, str) and name in rows:
        return rows[name]
    similar_names = get_close_matches(str(name), rows, _MOST_SIMILAR_NAMES)
    raise BadInput(
        f"{kind} {name!r} is not in the catalogue; legal: {', '.join(rows)}",
        fix=f"perhaps {' or '.join(map(repr, similar_names))}" if similar_names else "",
    )


@cache
def catalogue() -> Catalogue:
    """The rows that ship with trnsim."""
    return parse(read_rows())


def read_rows() -> dict[str, Any]:
    """The stored rows, as a fresh copy that a caller may edit and `parse`."""
    text = (resources.files("trnsim.arch") / "catalogue.json").read_text(encoding="utf-8")
    rows: dict[str, Any] = json.loads(text)
    return rows


def parse(rows: Row) -> Catalogue:
    """The catalogue of stored `rows`."""
    sources: Row = rows["sources"]

    def table(leaves: Row) -> dict[str, Rate]:
        return {name: _fact(leaf, sources) for name, leaf in leaves.items() if leaf is not None}

    def provenance_of(keys: list[str], note: str) -> Provenance:
        return _provenance(keys, sources, note)

    terms = {kind: read_terms(row, provenance_of) for kind, row in rows["terms"].items()}
    return Catalogue(
        generated=date.fromisoformat(rows["generated"]),
        chips={name: _chip(name, row, sources) for name, row in rows["chips"].items()},
        gpus={name: _gpu(name, row, sources) for name, row in rows["gpus"].items()},
        announced={
            name: Announced(
                name,
                row["of"],
                row["status"],
                table(row["multiples"]),
                table(row["derived"]),
                tuple(
                    (hybrid["text"], provenance_of(hybrid["source"], ""))
                    for hybrid in row["hybrids"]
                ),
            )
            for name, row in rows["announced"].items()
        },
        instances={row["name"]: _instance(row, sources) for row in rows["instances"]},
        prices=tuple(read_price(row, terms, provenance_of) for row in rows["prices"]),
        terms=terms,
        systems={name: table(row) for name, row in rows["systems"].items()},
        rainier=table(rows["rainier"]),
        measurements={row["name"]: _fact(row["ratio"], sources) for row in rows["measurements"]},
        releases={row["version"]: _release(row) for row in rows["releases"]},
        contradictions=tuple((row["topic"], row["a"], row["b"]) for row in rows["contradictions"]),
        resolutions={
            row["topic"]: Resolution(tuple(row["of"]), row["used"])
            for row in rows["contradictions"]
        },
    )


def _provenance(keys: list[str], sources: Row, note: str = "") -> Provenance:
    """The strongest kind of evidence among the sources of a value, and the names of all sources."""
    kinds = {Evidence(sources[key]["kind"]) for key in keys}
    strongest = next(kind for kind in _KINDS_BY_STRENGTH if kind in kinds)
    text = "; ".join(str(sources[key]["text"]) for key in keys)
    return Provenance(strongest, f"{text} ({note})" if note else text)


def _fact(leaf: Row, sources: Row) -> Rate:
    published_unit = str(leaf["unit"])
    unit = _UNIT_SPELLINGS.get(published_unit, published_unit)
    value = float(leaf["value"]) * _FACTOR_OF_UNIT[unit]
    return Rate(value, _provenance(leaf["source"], sources, leaf.get("note") or ""))


def _optional_fact(leaf: Row | None, sources: Row) -> Rate | None:
    return None if leaf is None else _fact(leaf, sources)


def _chip(name: str, row: Row, sources: Row) -> Accelerator:
    link = row["neuronlink"]
    other_peaks: Row = row.get("peak_alt", {})
    return Accelerator(
        name=name,
        cores=int(row["cores"]["value"]),
        memory_bytes=_fact(row["memory"]["capacity"], sources),
        memory_bytes_per_s=_fact(row["memory"]["bandwidth"], sources),
        peak_flop_per_s={key: _fact(leaf, sources) for key, leaf in row["peak"].items()},
        peak_sparse_flop_per_s={
            key: _fact(leaf, sources) for key, leaf in row.get("peak_sparse", {}).items()
        },
        link_bytes_per_s=_fact(link["bandwidth"], sources),
        server_link_bytes_per_s=_optional_fact(link.get("intra_server"), sources),
        between_servers_bytes_per_s=_optional_fact(link.get("inter_server"), sources),
        between_racks_bytes_per_s=_optional_fact(link.get("inter_rack"), sources),
        power_w=_optional_fact(row["power"], sources),
        kind="neuron",
        aliases=tuple(row["aliases"]),
        year=_fact(row["year"], sources),
        clock_peak_flop_per_s={
            key.removesuffix(_FROM_CLOCK).rstrip("_") or "bf16": _fact(leaf, sources)
            for key, leaf in other_peaks.items()
            if key.endswith(_FROM_CLOCK)
        },
        other_peak_flop_per_s={
            key: _fact(leaf, sources)
            for key, leaf in other_peaks.items()
            if not key.endswith(_FROM_CLOCK)
        },
        memory_kind=row["memory"]["kind"],
    )


def _gpu(name: str, row: Row, sources: Row) -> Accelerator:
    peaks = {"bf16": "bf16_dense", "fp16": "fp16_dense", "fp8": "fp8_dense", "fp4": "fp4_dense"}
    if "fp8_or_int8" in row:
        peaks["fp8"] = "fp8_or_int8"
    return Accelerator(
        name=name,
        cores=0,
        memory_bytes=_fact(row["hbm"], sources),
        memory_bytes_per_s=_fact(row["bandwidth"], sources),
        peak_flop_per_s={
            dtype: _fact(row[key], sources) for dtype, key in peaks.items() if row.get(key)
        },
        peak_sparse_flop_per_s={},
        link_bytes_per_s=_optional_fact(row["link"], sources),
        server_link_bytes_per_s=None,
        between_servers_bytes_per_s=None,
        between_racks_bytes_per_s=None,
        power_w=_optional_fact(row["tdp"], sources),
        kind="tpu" if name.startswith("tpu") else "gpu",
        note=row.get("note") or "",
    )


def _instance(row: Row, sources: Row) -> Instance:
    provenance = _provenance(row["source"], sources)
    is_decimal = str(row.get("accel_mem_unit", "GiB")).startswith("GB")
    efa_gbps = row["efa_gbps"]
    return Instance(
        name=row["name"],
        accelerator=row["accelerator"],
        count=int(row["count"]),
        memory_bytes=Rate(
            row["accel_mem_gib"] * _FACTOR_OF_UNIT["GB" if is_decimal else "GiB"],
            provenance,
        ),
        link_bytes_per_s=_optional_fact(row.get("link"), sources),
        efa_bytes_per_s=Rate(efa_gbps * _FACTOR_OF_UNIT["Gbps"], provenance) if efa_gbps else None,
        efa_devices=row.get("efa_devices") or 0,
        topology=row["topology"],
        shape=row.get("shape", ""),
        note=row.get("note") or "",
        vcpus=int(row["vcpu"]),
        host_bytes=Rate(row["ram_gib"] * _FACTOR_OF_UNIT["GiB"], provenance)
        if row["ram_gib"]
        else None,
    )


def _release(row: Row) -> Release:
    supports = {name: row[name] for name in ("pytorch", "jax", "python")}
    return Release(row["version"], date.fromisoformat(row["date"]), supports)
