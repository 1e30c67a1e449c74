"""The one report of a world of ranks: text, JSON, and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from trnsim.document.answer import Block, Column, Document, Note, Section, Table, columns
from trnsim.document.html import html
from trnsim.document.text import text
from trnsim.document.values import document_json, picked
from trnsim.errors import BadInput
from trnsim.fabric.fabric import Fabric
from trnsim.files import write_together
from trnsim.launch.job import Job
from trnsim.launch.launcher import Ended
from trnsim.launch.world import Exchanged, World, world
from trnsim.profile.units import bytes_text, time_text
from trnsim.reader import load

_LINKS: Final = 12
_RANKS: Final = columns(
    "rank | instance | chip | core | device time | exchanges | exposed | step", numbers_from=0
)
_COLLECTIVES: Final = (
    *columns("collective | calls | bytes each | groups | algorithm", numbers_to=4),
    Column("time each", is_number=True),
)
_TRAFFIC: Final = columns("link | bytes | busy")


def joined(job: Job, ended: Ended) -> World:
    """The world of a job whose ranks have ended."""
    figures: list[Any] = []
    for rank in range(job.fabric.ranks):
        path = job.figures / f"rank-{rank}.json"
        if path.exists():
            figures.append(load(path).parsed.content)
    return world(job.fabric, figures, ended.lost, ended.restarts)


def write_report(found: World, folder: Path) -> None:
    """Write `world.txt`, `world.json` and `world.html`.

    Raises:
        BadInput: the folder cannot be written.
    """
    document = world_document(found)
    contents = {
        "world.txt": text(document) + "\n",
        "world.json": document_json(document),
        "world.html": html(document),
    }
    write_together(folder, contents)


def world_document(found: World) -> Document:
    """The ranks of a world, their collectives, and what these passed through."""
    name = title(found.fabric)
    head: list[Block] = [Note(name, place="text")]
    if not found.ranks:
        none = Note("no rank used a device: there is nothing to time")
        return Document(name, as_dict(found), [Section("", [*head, none])], schema="launch/1")
    skew = f"the last step of each rank; skew of their kernels: {time_text(found.skew_s)}"
    sections = [Section("", [*head, Note(skew), Table(_RANKS, _rank_rows(found))])]
    if found.exchanged:
        table = Table(_COLLECTIVES, _rows(found))
        sections.append(Section("collectives of the whole program", [table]))
    if found.links:
        left = len(found.links) - _LINKS
        more = [Note(f"and {left} more, in world.json")] if left > 0 else []
        table = Table(_TRAFFIC, _link_rows(found))
        sections.append(Section("what they passed through", [table, *more]))
    sections.append(Section("", _notes(found)))
    return Document(name, as_dict(found), sections, schema="launch/1")


def title(fabric: Fabric) -> str:
    """The world in a line."""
    return (
        f"{fabric.ranks} ranks on {fabric.nodes} x {fabric.instance.name}, "
        f"{fabric.ranks_per_node} on each"
    )


def _rank_rows(found: World) -> list[list[str]]:
    return [
        [
            *(str(number) for number in (one.rank, *one.place)),
            time_text(one.device_time_s),
            time_text(one.step.exchanged_s),
            time_text(one.step.exposed_s),
            time_text(one.step.total_s),
        ]
        for one in found.ranks
    ]


def _rows(found: World) -> list[list[str]]:
    return [
        [
            one.kind,
            str(one.calls),
            bytes_text(one.nbytes),
            f"{len(one.groups)} of {len(one.groups[0])}",
            one.chosen.algorithm if one.chosen else "",
            time_text(one.time_s) if one.chosen else "not timed",
        ]
        for one in found.exchanged
    ]


def _link_rows(found: World) -> list[list[str]]:
    return [
        [name, bytes_text(round(nbytes)), time_text(time_s)]
        for name, nbytes, time_s in found.links[:_LINKS]
    ]


def _notes(found: World) -> list[Note]:
    notes = [f"lost: {one}" for one in found.lost]
    if found.restarts:
        notes.append(f"all ranks were started again: {found.restarts}")
    factors = found.fabric.factors
    if factors:
        notes += [
            f"injected: {name} {f'at {factor:g} of its bandwidth' if factor else 'dead'}"
            for name, factor in factors.items()
        ]
    if found.absent:
        notes.append(f"without figures: ranks {', '.join(map(str, found.absent))}")
    missing = sum(one.missing for one in found.ranks)
    if missing:
        notes.append(f"without a time, so missing above: {missing} calls")
    return [Note(note) for note in notes]


def as_dict(found: World) -> dict[str, Any]:
    """The report as JSON has it."""
    return {
        **picked(found.fabric, "instance=instance.name nodes ranks_per_node lnc"),
        "link_factors": found.fabric.factors,
        **picked(found, "skew_s absent lost restarts"),
        "ranks": [
            {
                **picked(one, "rank place steps device_time_s"),
                **picked(one.step, "exchanged_s exposed_s step_s=total_s"),
                "calls_without_time": one.missing,
            }
            for one in found.ranks
        ],
        "collectives": [_collective(one) for one in found.exchanged],
        "links": [
            {"name": name, "bytes": nbytes, "busy_s": time_s}
            for name, nbytes, time_s in found.links
        ],
    }


def _collective(one: Exchanged) -> dict[str, Any]:
    return {
        **picked(one, "kind calls nbytes groups"),
        "algorithm": one.chosen and one.chosen.algorithm,
        "time_s": one.chosen and one.time_s,
        "others_s": one.chosen.others_s if one.chosen else {},
        "moved_bytes": one.moved_bytes,
    }


def unwritten(found: World, folder: Path) -> BadInput | None:
    """Write a report; the error where it could not be written."""
    try:
        write_report(found, folder)
    except BadInput as error:
        return error
    return None
