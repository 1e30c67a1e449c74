"""Cards of chips and instances: figures, their sources, and contradictions between sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from trnsim.arch.catalogue import Accelerator, Announced, Catalogue, Instance
from trnsim.document.answer import Block, Note, Table, columns
from trnsim.facts import Provenance, Rate
from trnsim.formatting import amount

GIB: Final = 2.0**30
TERA: Final = 1e12
GIGA: Final = 1e9
_WHOLE_FROM: Final = 1000
"""From this value on, figures have separators of thousands and no decimals."""
_FACT_COLUMNS: Final = columns(" |  | ", numbers_from=3)


def tera(rate: Rate | None) -> str:
    """A rate divided by 1e12, as text; "-" where none is published."""
    if rate is None:
        return "-"
    value = rate / TERA
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.4g}"


def chip_card(chip: Accelerator, hardware: Catalogue) -> list[Block]:
    """The card of a chip: each figure with its evidence and source, then the contradictions."""
    aliases = f" ({', '.join(chip.aliases)})" if chip.aliases else ""
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
    head = Note(f"{chip.name}{aliases}: {cores}{year}{kind}", kind="strong")
    instances = [row.name for row in hardware.instances.values() if row.accelerator == chip.name]
    notes = [
        f"in: {', '.join(instances) or 'no instance of the catalogue'}",
        *_note_lines(chip.note),
    ]
    return [
        head,
        _fact_table(facts),
        *_indented_notes(notes),
        *contradictions(hardware, [chip.name]),
    ]


def _peaks(label: str, peaks: Mapping[str, Rate]) -> Iterator[tuple[str, str, Provenance | None]]:
    for name, rate in peaks.items():
        dtype = name.partition("_from_")[0]  # bf16_from_clock is a peak of bf16
        yield f"{label} {dtype}", f"{tera(rate)} TFLOP/s", rate.provenance


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


def _fact_table(facts: Iterable[tuple[str, str, Provenance | None]]) -> Table:
    rows = [
        (name, figure, "-" if source is None else f"{source.kind.value}: {source.source}")
        for name, figure, source in facts
    ]
    return Table(_FACT_COLUMNS, rows, indent=2)


def _note_lines(note: str) -> list[str]:
    return [f"note: {note}"] if note else []


def _indented_notes(lines: Iterable[str]) -> list[Block]:
    return [Note(line, indent=2, hanging=2) for line in lines]


def contradictions(hardware: Catalogue, names: Iterable[str] | None = None) -> list[Block]:
    """Notes on contradicting sources about `names`, or all: both figures, and the used one."""
    chosen = None if names is None else set(names)
    return _indented_notes(
        f"sources disagree, {topic}: {first}, or {second}; used: {hardware.resolutions[topic].used}"
        for topic, first, second in hardware.contradictions
        if chosen is None or chosen & set(hardware.resolutions[topic].names)
    )


def announced_card(chip: Announced) -> list[Block]:
    """The card of an announced chip: multiples of another chip's figures, and the results."""
    head = (
        f"{chip.name}: {chip.status}; multiples of {chip.compared_chip}; never a default, "
        "not to be rented"
    )
    lines: list[str] = []
    for name, multiple in chip.multiples.items():
        figure = chip.derived.get(name)
        unit = "TB/s" if name == "mem_bw" else "TFLOP/s"
        result = "" if figure is None else f"that would be {tera(figure)} {unit}; "
        lines.append(f"{name} x {multiple:g}: {result}{multiple.provenance.source}")
    lines += [f"hybrid: {text} ({source.source})" for text, source in chip.hybrids]
    return [Note(head, kind="strong"), *_indented_notes(lines)]


def instance_card(instance: Instance, hardware: Catalogue) -> list[Block]:
    """The card of an instance: chips, memory, links, and the contradictions about it."""
    chip = {**hardware.chips, **hardware.gpus}.get(instance.accelerator)
    head = f"{instance.name}: {instance.count} x {instance.accelerator}, {instance.topology}"
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
    notes: list[str] = []
    if chip is not None:
        bandwidth = amount(instance.count * chip.memory_bytes_per_s / TERA)
        peaks = ", ".join(
            f"{dtype} {amount(instance.count * peak / TERA)}"
            for dtype, peak in chip.peak_flop_per_s.items()
        )
        notes.append(f"all chips: {bandwidth} TB/s; published TFLOP/s: {peaks}")
    notes += _note_lines(instance.note)
    disagreements = contradictions(hardware, [instance.name])
    return [Note(head, kind="strong"), _fact_table(facts), *_indented_notes(notes), *disagreements]
