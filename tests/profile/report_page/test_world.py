"""The page of a world: tracks, hidden and exposed time, collectives, links."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from made_world import world

from trnsim.document.builder import resource
from trnsim.isa import Engine
from trnsim.profile.report_page.world import world_page


def test_a_page_has_a_track_for_each_rank_and_shows_names_as_text():
    ran = world(computes=4, late=(1,))
    links = [SimpleNamespace(name=f"<link {n}>", nbytes=64.0, busy_s=1e-6) for n in range(50)]
    summary = replace(ran.summary, title="a <kernel>", links=tuple(links))
    text = world_page(summary, [run.timelines for run in ran.runs])
    assert re.findall(r'<span class="name">rank (\d) ', text) == ["0", "1"]
    assert text.count('class="exchange" x=') >= 2
    assert text.count('class="exposed" x=') >= 2
    assert "<h1>a &lt;kernel&gt;</h1>" in text
    assert "&lt;link 39&gt;" in text
    assert "&lt;link 40&gt;" not in text
    assert "10 more, less busy" in text
    assert "<script" not in text


def test_a_page_has_a_row_for_each_collective():
    ran = world(ranks=4, groups=[[0, 1], [2, 3]], late=(3,))
    text = world_page(ran.summary, [run.timelines for run in ran.runs])
    assert re.search(r"all_reduce of 256 KiB \([a-z -]+\)</td>.*made_world.py:\d+</td>", text)
    assert "inside a program: the host does not start each of them" in text


@pytest.mark.parametrize("engine", [one for one in Engine if one is not Engine.unknown])
def test_every_engine_has_a_colour_by_day_and_by_night_and_a_place(engine):
    name = engine.label.split(" ")[0]
    assert len(re.findall(rf"--{name.lower()}: #[0-9a-f]{{6}};", resource("page.css"))) == 2
    assert (
        f'"{name}"'
        in resource("page.js", "trnsim.profile.report_page")
        .split("const ENGINES = ")[1]
        .split("\n")[0]
    )
