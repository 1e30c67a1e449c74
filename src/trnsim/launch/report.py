"""Report of a world of ranks: text, JSON, and a page."""

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
from trnsim.formatting import counted
from trnsim.launch.job import LaunchJob
from trnsim.launch.launcher import JobEnd
from trnsim.launch.world import WorldCollective, WorldFigures, world
from trnsim.profile.units import bytes_text, time_text
from trnsim.reader import load

_MOST_SHOWN_LINKS: Final = 12
_RANK_COLUMNS: Final = columns(
    "rank | instance | chip | core | device time | exchanges | exposed | step", numbers_from=0
)
_COLLECTIVE_COLUMNS: Final = (
    *columns("collective | calls | bytes each | groups | algorithm | floor", numbers_to=4),
    Column("time each", is_number=True),
)
_TRAFFIC_COLUMNS: Final = columns("link | bytes | busy")


def job_world(job: LaunchJob, job_end: JobEnd) -> WorldFigures:
    """World of a job whose ranks have ended, from their figures."""
    figures: list[Any] = []
    for rank in range(job.fabric.ranks):
        path = job.figures / f"rank-{rank}.json"
        if path.exists():
            figures.append(load(path).parsed.content)
    return world(job.fabric, figures, job_end.lost, job_end.restarts)


def write_report(world: WorldFigures, folder: Path) -> None:
    """Write `world.txt`, `world.json` and `world.html`.

    Raises:
        BadInput: the folder cannot be written.
    """
    document = world_document(world)
    contents = {
        "world.txt": text(document) + "\n",
        "world.json": document_json(document),
        "world.html": html(document),
    }
    write_together(folder, contents)


def world_document(world: WorldFigures) -> Document:
    """Document of the ranks of a world, their collectives, and the links with traffic."""
    name = title(world.fabric)
    head: list[Block] = [Note(name, place="text")]
    if not world.ranks:
        no_ranks = Note("no rank used a device: there is nothing to time")
        return Document(name, as_dict(world), [Section("", [*head, no_ranks])], schema="launch/1")
    ranks = Table(_RANK_COLUMNS, _rank_rows(world))
    sections = [Section("", [*head, *_step_notes(world), ranks])]
    if world.collectives:
        table = Table(_COLLECTIVE_COLUMNS, _collective_rows(world))
        sections.append(Section("collectives of the whole program", [table]))
    if world.links:
        hidden_count = len(world.links) - _MOST_SHOWN_LINKS
        hidden_notes = [Note(f"and {hidden_count} more, in world.json")] if hidden_count > 0 else []
        table = Table(_TRAFFIC_COLUMNS, _link_rows(world))
        sections.append(Section("what they passed through", [table, *hidden_notes]))
    sections.append(Section("", _notes(world)))
    return Document(name, as_dict(world), sections, schema="launch/1")


def _step_notes(world: WorldFigures) -> list[Note]:
    """The step of the slowest rank with P10 and P90, and the skew of the ranks."""
    if not any(rank.step.total_s for rank in world.ranks):
        return [Note("no rank computed or exchanged anything on its device: all times are zero")]
    notes = []
    rank, interval_s = world.slowest, world.interval_s
    if rank is not None and interval_s is not None:
        low, high = map(time_text, interval_s)
        step = time_text(rank.step.total_s)
        notes = [f"a step of rank {rank.rank}, the slowest: {step} (P10 to P90: {low} to {high})"]
    notes.append(f"the last step of each rank; skew of their kernels: {time_text(world.skew_s)}")
    return [Note(note) for note in notes]


def title(fabric: Fabric) -> str:
    """A line with the number of ranks and the instances of a world."""
    return (
        f"{counted(fabric.ranks, 'rank')} on {fabric.nodes} x {fabric.instance.name}, "
        f"{fabric.ranks_per_node} on each"
    )


def _rank_rows(world: WorldFigures) -> list[list[str]]:
    return [
        [
            *(str(number) for number in (rank.rank, *rank.place)),
            time_text(rank.device_time_s),
            time_text(rank.step.exchanged_s),
            time_text(rank.step.exposed_s),
            time_text(rank.step.total_s),
        ]
        for rank in world.ranks
    ]


def _collective_rows(world: WorldFigures) -> list[list[str]]:
    return [
        [
            collective.kind,
            str(collective.calls),
            bytes_text(collective.nbytes),
            f"{len(collective.groups)} of {len(collective.groups[0])}",
            collective.choice.algorithm if collective.choice else "",
            collective.floor_text,
            time_text(collective.time_s) if collective.choice else "not timed",
        ]
        for collective in world.collectives
    ]


def _link_rows(world: WorldFigures) -> list[list[str]]:
    return [
        [name, bytes_text(round(nbytes)), time_text(time_s)]
        for name, nbytes, time_s in world.links[:_MOST_SHOWN_LINKS]
    ]


def _notes(world: WorldFigures) -> list[Note]:
    notes = [f"lost: {sentence}" for sentence in world.lost]
    if world.restarts:
        notes.append(f"all ranks were started again: {world.restarts}")
    notes += [
        f"injected: {name} {f'at {factor:g} of its bandwidth' if factor else 'dead'}"
        for name, factor in world.fabric.factors.items()
    ]
    if world.absent:
        notes.append(f"without figures: ranks {', '.join(map(str, world.absent))}")
    missing = sum(rank.missing for rank in world.ranks)
    if missing:
        notes.append(f"without a time, so missing above: {counted(missing, 'call')}")
    return [Note(note) for note in notes]


def as_dict(world: WorldFigures) -> dict[str, Any]:
    """Content of the report's JSON."""
    low_s, high_s = world.interval_s or (None, None)
    return {
        **picked(world.fabric, "instance=instance.name nodes ranks_per_node lnc"),
        "link_factors": world.fabric.factors,
        "p10_s": low_s,
        "p90_s": high_s,
        **picked(world, "skew_s absent lost restarts"),
        "ranks": [
            {
                **picked(rank, "rank place steps device_time_s"),
                **picked(rank.step, "exchanged_s exposed_s step_s=total_s"),
                "calls_without_time": rank.missing,
            }
            for rank in world.ranks
        ],
        "collectives": [_collective(collective) for collective in world.collectives],
        "links": [
            {"name": name, "bytes": nbytes, "busy_s": time_s}
            for name, nbytes, time_s in world.links
        ],
    }


def _collective(collective: WorldCollective) -> dict[str, Any]:
    return {
        **picked(collective, "kind calls nbytes groups"),
        "algorithm": collective.choice and collective.choice.algorithm,
        "time_s": collective.choice and collective.time_s,
        "floor": collective.floor_text,
        "others_s": collective.choice.others_s if collective.choice else {},
        "moved_bytes": collective.moved_bytes,
    }


def write_or_error(world: WorldFigures, folder: Path) -> BadInput | None:
    """Write a report; returns the error if it could not be written."""
    try:
        write_report(world, folder)
    except BadInput as error:
        return error
    return None
