"""The one report of a world of ranks: text, JSON, and a page."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any, Final

from trnsim.document.builder import page, panel, table
from trnsim.errors import BadInput
from trnsim.fabric.fabric import Fabric
from trnsim.files import read_json, write_together
from trnsim.formatting import text_table
from trnsim.launch.job import Job
from trnsim.launch.launcher import Ended
from trnsim.launch.world import Exchanged, World, world
from trnsim.profile.units import bytes_text, time_text

_LINKS: Final = 12
_RANKS: Final = ["rank", "instance", "chip", "core", "device time", "exchanges", "exposed", "step"]
_COLLECTIVES: Final = ["collective", "calls", "bytes each", "groups", "algorithm", "time each"]
_TRAFFIC: Final = ["link", "bytes", "busy"]


def joined(job: Job, ended: Ended) -> World:
    """The world of a job whose ranks have ended."""
    figures: list[Any] = []
    for rank in range(job.fabric.ranks):
        path = job.figures / f"rank-{rank}.json"
        if path.exists():
            figures.append(read_json(path))
    return world(job.fabric, figures, ended.lost, ended.restarts)


def write_report(found: World, folder: Path) -> str:
    """Write `world.txt`, `world.json` and `world.html`, and return the text.

    Raises:
        BadInput: the folder cannot be written.
    """
    text = world_text(found)
    contents = {
        "world.txt": text + "\n",
        "world.json": json.dumps(as_dict(found), indent=1),
        "world.html": world_page(found),
    }
    write_together(folder, contents)
    return text


def world_text(found: World) -> str:
    """The tables as text."""
    if not found.ranks:
        return f"{title(found.fabric)}\nno rank used a device: there is nothing to time"
    parts = [
        title(found.fabric),
        f"the last step of each rank; skew of their kernels: {time_text(found.skew_s)}",
        text_table(_RANKS, _rank_rows(found)),
    ]
    if found.exchanged:
        parts += ["", "collectives of the whole program", text_table(_COLLECTIVES, _rows(found))]
    if found.links:
        more = len(found.links) - _LINKS
        parts += ["", "what they passed through", text_table(_TRAFFIC, _link_rows(found))]
        parts += [f"and {more} more, in world.json"] if more > 0 else []
    return "\n".join(parts + _notes(found))


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


def _notes(found: World) -> list[str]:
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
    return ["", *notes] if notes else []


def as_dict(found: World) -> dict[str, Any]:
    """The report as JSON has it."""
    fabric = found.fabric
    return {
        "instance": fabric.instance.name,
        "nodes": fabric.nodes,
        "ranks_per_node": fabric.ranks_per_node,
        "lnc": fabric.lnc,
        "link_factors": dict(fabric.factors),
        "skew_s": found.skew_s,
        "absent": found.absent,
        "lost": list(found.lost),
        "restarts": found.restarts,
        "ranks": [
            {
                "rank": one.rank,
                "place": list(one.place),
                "steps": one.steps,
                "device_time_s": one.device_time_s,
                "exchanged_s": one.step.exchanged_s,
                "exposed_s": one.step.exposed_s,
                "step_s": one.step.total_s,
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
        "kind": one.kind,
        "calls": one.calls,
        "nbytes": one.nbytes,
        "groups": [list(group) for group in one.groups],
        "algorithm": one.chosen.algorithm if one.chosen else None,
        "time_s": one.time_s if one.chosen else None,
        "others_s": one.chosen.others_s if one.chosen else {},
        "moved_bytes": one.moved_bytes,
    }


def world_page(found: World) -> str:
    """The tables as a page, without script."""
    heading = title(found.fabric)
    body = [
        f"<header><h1>{escape(heading)}</h1></header>\n",
        panel("The last step of each rank", table(_RANKS, _rank_rows(found))),
        panel("Collectives of the whole program", table(_COLLECTIVES, _rows(found))),
        panel("What they passed through", table(_TRAFFIC, _link_rows(found))),
        *(f"<p>{escape(note)}</p>" for note in _notes(found) if note),
    ]
    return page(heading, "".join(body))


def unwritten(found: World, folder: Path) -> tuple[str, BadInput | None]:
    """The text of a report, and the error where it could not be written."""
    try:
        return write_report(found, folder), None
    except BadInput as error:
        return world_text(found), error
