import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from trnsim.device.call_log import note, recording
from trnsim.device.step_document import step_document, step_program
from trnsim.device.step_time import step_time
from trnsim.document.answer import Note
from trnsim.document.html import html
from trnsim.document.text import text

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def steps(made_up, at):
    with recording() as found:
        note(made_up("x::dot", (2e-5, 1e-5)), 0, at("up <i>"))
        note(made_up("graph-0", (1e-5, 1e-5), is_one_launch=True), 0, at("down", "backward"))
        note(made_up("x::none", ()), 0, at(phase="backward"))
        note(made_up("x::step", (5e-6,)), 0, at(phase="optimizer"))
    return [step_time(found, target) for target in ("trn2", "trn1")]


def test_the_page_has_every_chip_phase_and_what_has_no_time(steps):
    page = html(step_document(steps, collectives=[Note("further <text>")]))
    for word in ("trn2", "trn1", "forward", "backward", "optimizer", "launches", "HBM in use"):
        assert word in page
    for heading in ("The step on each chip", "Kernels, launches, HBM in use", "Without a time",
                    "By phase", "By module", "By operation"):  # fmt: skip
        assert f"<h2>{heading}</h2>" in page
    assert "x::none has no time" in page
    assert "further &lt;text&gt;" in page
    assert page.count("up &lt;i&gt;") == 3  # in the table, and on its two kernels
    assert "<script" not in page
    assert not re.search(r"https?://|@import|url\(", page)


@pytest.mark.parametrize(
    ("flop", "work", "share"),
    [(0, "0 FLOP", "0.00"), (393_216, "393 kFLOP", "<0.01"), (3.3e9, "3.3 GFLOP", "11.00")],
)
def test_work_of_a_small_step_is_not_shown_as_none(monkeypatch, steps, flop, work, share):
    step = steps[0]
    monkeypatch.setattr(type(step), "flop", property(lambda _: flop))
    monkeypatch.setattr("trnsim.device.step_document.mfu", lambda _: flop / 3e10)
    row = next(line for line in text(step_document([step])).splitlines() if line[:4] == "trn2")
    assert re.fullmatch(rf"trn2 .* {work} +{share}", row)


def test_kernels_and_launches_lie_one_after_the_other_within_the_drawing(steps):
    page = html(step_document(steps))
    spans = [
        (float(x), float(width))
        for x, width in re.findall(r'<rect class="\w+" x="([\d.]+)" y="\d+" width="([\d.]+)"', page)
    ]
    # Five kernels and four launches, a compiled graph being one.
    assert len(spans) == 9
    assert all(x + width <= 1202 for x, width in spans)


def test_advice_stands_before_the_drawing_of_the_page_and_behind_the_tables_of_the_text(steps):
    document = step_document(steps)
    page, lines = html(document), text(document)
    assert page.index("<h2>Advice") < page.index("<h2>Kernels, launches")
    assert page.count("<h2>Advice") == 1
    assert lines.index("by operation") < lines.index("advice, by what")


def test_gains_stand_below_the_advice(steps):
    document = step_document(steps)
    page, lines = html(document), text(document)
    assert page.count("<h2>Gains, each timed again") == 1
    assert page.index("<h2>Advice") < page.index("<h2>Gains") < page.index("<h2>Kernels, launches")
    assert "x::dot for nothing: -" in lines


def test_hbm_of_a_call_is_in_use_from_its_kernels_on(made_up, at):
    with recording() as found:
        note(made_up("x::dot", (2e-5, 1e-5)), 0, at("up"))
        note(made_up("x::none", ()), 0, at("up"))
        note(made_up("x::add", (2e-5,)), 0, at("up"))
    step = step_time(found, "trn2")
    live = iter((512, 256, 256))
    events = tuple(replace(event, live_bytes=next(live)) for event in step.events)
    program = step_program(replace(step, events=events))
    assert program.hbm == [(0, 512), (2, 256)]
    assert program.order == [0, 1, 2]


def test_phases_that_do_not_occur_have_no_colour_in_the_legend(made_up, at):
    with recording() as found:
        note(made_up("x::dot", (2e-5,)), 0, at("up"))
    page = html(step_document([step_time(found, "trn2")]))
    assert re.findall(r'<i class="(\w+)"', page) == ["forward", "launch"]


def test_kernels_with_a_page_lead_to_it(steps):
    (event,) = steps[0].events[:1]
    name = steps[0].times[event.call].kernels[0].name
    page = html(step_document(steps, pages={name: "a <kernel>.html"}))
    assert '<a href="a%20%3Ckernel%3E.html" aria-label=' in page
    assert "<h2>Tile kernels of the program</h2>" in page
    assert "Tile kernels" not in html(step_document(steps))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_browser_draws_it(steps, tmp_path):
    path = tmp_path / "step.html"
    path.write_text(html(step_document(steps)), encoding="utf-8")
    picture = tmp_path / "step.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"]
    command = [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'user'}"]
    subprocess.run(
        [*command, f"--screenshot={picture}", path.as_uri()],
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert picture.stat().st_size > 10_000
