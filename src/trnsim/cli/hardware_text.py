"""Chips and instances as text: one card each, with sources and with what sources disagree about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from trnsim.formatting import amount

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Accelerator, Announced, Catalogue, Instance
    from trnsim.facts import Provenance, Rate

WIDTH: Final = 100
_wrap: Final = partial(wrap, width=WIDTH, break_on_hyphens=False)
GIB: Final = 2.0**30
TERA: Final = 1e12
GIGA: Final = 1e9
_WHOLE: Final = 1000
"""From here figures are written whole, with separators."""
_LABEL: Final = 24
_FIGURE: Final = 16


def tera(rate: Rate | None) -> str:
    """A rate in 1e12, or "-" where none is published."""
    if rate is None:
        return "-"
    value = rate / TERA
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:.4g}"


def chip_card(chip: Accelerator, rows: Catalogue) -> list[str]:
    """A chip: each figure with its evidence and source, then the contradictions about it."""
    also = f" ({', '.join(chip.aliases)})" if chip.aliases else ""
    facts = [
        *_peaks("peak", chip.peak_flop_per_s),
        *_peaks("peak with sparsity", chip.peak_sparse_flop_per_s),
        *_peaks("array x clock", chip.clock_peak_flop_per_s),
        *_peaks("other page", chip.other_peak_flop_per_s),
        ("memory", f"{chip.memory_bytes / GIB:,.4g} GiB", chip.memory_bytes.provenance),
        (
            "memory bandwidth",
            f"{chip.memory_bytes_per_s / TERA:.3g} TB/s",
            chip.memory_bytes_per_s.provenance,
        ),
        *_links(chip),
    ]
    if chip.power_w is not None:
        facts.append(("power", f"{chip.power_w:g} W", chip.power_w.provenance))
    else:
        facts.append(("power", "not published", None))
    cores = f"{chip.cores} NeuronCores" if chip.cores else chip.kind.upper()
    year = f", {chip.year:.0f}" if chip.year is not None else ""
    kind = f", {chip.memory_kind}" if chip.memory_kind else ""
    lines = [f"{chip.name}{also}: {cores}{year}{kind}", *_facts(facts)]
    sold = [one.name for one in rows.instances.values() if one.accelerator == chip.name]
    lines += _wrapped(f"in: {', '.join(sold) or 'no instance of the catalogue'}")
    if chip.note:
        lines += _wrapped(f"note: {chip.note}")
    return [*lines, *contradictions(rows, [chip.name])]


def _peaks(what: str, peaks: Mapping[str, Rate]) -> Iterator[tuple[str, str, Provenance | None]]:
    for name, rate in peaks.items():
        dtype = name.partition("_from_")[0]
        yield f"{what} {dtype}", f"{tera(rate)} TFLOP/s", rate.provenance


def _links(chip: Accelerator) -> Iterator[tuple[str, str, Provenance | None]]:
    links = {
        "link": chip.link_bytes_per_s,
        "link in a server": chip.server_link_bytes_per_s,
        "link between servers": chip.between_servers_bytes_per_s,
        "link between racks": chip.between_racks_bytes_per_s,
    }
    for name, rate in links.items():
        if rate is not None:
            yield name, f"{rate / GIGA:,.4g} GB/s", rate.provenance


def _facts(facts: Iterable[tuple[str, str, Provenance | None]]) -> list[str]:
    lines: list[str] = []
    for name, figure, provenance in facts:
        source = "" if provenance is None else f"{provenance.kind.value}: {provenance.source}"
        head = f"  {name:<{_LABEL}} {figure:<{_FIGURE}} "
        lines += _wrap(source or "-", initial_indent=head, subsequent_indent=" " * len(head))
    return lines


def _wrapped(text: str) -> list[str]:
    return _wrap(text, initial_indent="  ", subsequent_indent="    ")


def contradictions(rows: Catalogue, names: Iterable[str] | None = None) -> list[str]:
    """What primary sources disagree about, of `names` or all: both readings, and the one in use."""
    wanted = None if names is None else set(names)
    lines: list[str] = []
    for topic, one, other in rows.contradictions:
        found = rows.resolutions[topic]
        if wanted is None or wanted & set(found.of):
            lines += _wrapped(f"sources disagree, {topic}: {one}, or {other}; used: {found.used}")
    return lines


def announced_card(chip: Announced) -> list[str]:
    """An announced chip: multiples as announced, and what follows; nothing runs on it."""
    lines = [
        f"{chip.name}: {chip.status}; multiples of {chip.of}; never a default, not to be rented"
    ]
    for name, times in chip.multiples.items():
        figure = chip.derived.get(name)
        unit = "TB/s" if name == "mem_bw" else "TFLOP/s"
        follows = "" if figure is None else f"that would be {tera(figure)} {unit}; "
        lines += _wrapped(f"{name} x {times:g}: {follows}{times.provenance.source}")
    for text, provenance in chip.hybrids:
        lines += _wrapped(f"hybrid: {text} ({provenance.source})")
    return lines


def instance_card(instance: Instance, rows: Catalogue) -> list[str]:
    """An instance: chips, memory, links, and the contradictions about it."""
    chip = {**rows.chips, **rows.gpus}.get(instance.accelerator)
    head = f"{instance.name}: {instance.count} x {instance.accelerator}, {instance.topology}"
    lines = _wrap(head, subsequent_indent="    ")
    efa = instance.efa_bytes_per_s
    facts = [
        (
            "memory",
            f"{instance.memory_bytes / GIB:,.5g} GiB",
            instance.memory_bytes.provenance,
        )
    ]
    if efa is not None:
        facts.append(("EFA", f"{8 * efa / GIGA:,.5g} Gbps", efa.provenance))
    if instance.link_bytes_per_s is not None:
        link = instance.link_bytes_per_s
        facts.append(("link of a chip", f"{link / GIGA:,.4g} GB/s", link.provenance))
    lines += _facts(facts)
    if chip is not None:
        bandwidth = amount(instance.count * chip.memory_bytes_per_s / TERA)
        peaks = ", ".join(
            f"{dtype} {amount(instance.count * peak / TERA)}"
            for dtype, peak in chip.peak_flop_per_s.items()
        )
        lines += _wrapped(f"all chips: {bandwidth} TB/s; published TFLOP/s: {peaks}")
    if instance.note:
        lines += _wrapped(f"note: {instance.note}")
    return [*lines, *contradictions(rows, [instance.name])]
