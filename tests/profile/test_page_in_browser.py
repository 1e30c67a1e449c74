"""The page in headless Chromium: it draws, zooms, and shows the source of a chosen instruction."""

import re
import shutil
import subprocess

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.arch import TARGETS
from trnsim.profile import report_of, write_page
from trnsim.profile.analysis.model_estimate import ModelEstimate, Share
from trnsim.profile.measures.parts import PartCost

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=3000",
    "--window-size=1280,800",
    "--dump-dom",
]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH"),
]


def rendered(path, tmp_path, fragment="", script=""):
    """The document after its scripts have run, and `script` after them."""
    if script:
        page = path.read_text(encoding="utf-8")
        path.write_text(page + f"<script>{script}</script>", encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'user'}", path.as_uri() + fragment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def attribute(document, name):
    canvas = re.search(r'<canvas id="timeline"[^>]*>', document)
    found = re.search(rf'data-{name}="([^"]*)"', canvas[0])
    return float(found[1])


@pytest.fixture
def page(tmp_path, timeline, ran):
    return write_page(report_of([ran(timeline, title="Tiles </script> & <b>")]), tmp_path)


def test_what_is_hidden_takes_no_room(page, tmp_path):
    script = (
        'document.body.dataset.drawn = [...document.querySelectorAll("[hidden]")].filter('
        '(one) => getComputedStyle(one).display !== "none").length'
    )
    assert 'data-drawn="0"' in rendered(page, tmp_path, script=script)


def test_the_page_draws_every_instruction(page, tmp_path, timeline):
    document = rendered(page, tmp_path)
    assert attribute(document, "visible-instructions") == len(timeline)
    assert 0 < attribute(document, "drawn-spans") <= len(timeline)
    assert ">Tiles &lt;/script&gt; &amp; &lt;b&gt; on trn2</h1>" in document
    assert "Try first" in document
    assert "Click a span" in document


def test_a_chosen_instruction_shows_source_operands_and_cause(page, tmp_path, timeline):
    chosen = next(i for i, s in enumerate(timeline.spans()) if s.opcode == "tensor_copy")
    document = rendered(page, tmp_path, f"#select={chosen}")
    details = document[document.index('id="details"') : document.index('id="bottom"')]
    span = timeline.span(chosen)
    assert attribute(document, "selected") == chosen
    assert str(span.line) in details
    assert "self.context.issue(TensorCopy(dst, src, **options))" in details
    assert "src = PSUM [128, 512] float32" in details
    assert f"#{span.waited_for} nc_matmul" in details
    assert "was idle for" in details


@nki.jit
def meeting(x, extra):
    """Core 0 works longer than core 1 before they meet."""
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(extra * (1 - nl.program_id(0))):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    other = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.sendrecv(
        src=tile,
        dst=other,
        send_to_rank=1 - nl.program_id(0),
        recv_from_rank=1 - nl.program_id(0),
        pipe_id=0,
    )
    out = nl.ndarray((2, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[nl.program_id(0)], src=other)
    return out


def test_a_core_that_waited_for_the_other_one_says_so(tmp_path, ran):
    x = np.zeros((128, 64), np.float32)
    fast = trnsim.run(meeting[2], x, 40).timelines[1]
    path = write_page(report_of([ran(fast, title="meeting")]), tmp_path)
    chosen = next(i for i, s in enumerate(fast.spans()) if s.opcode == "sendrecv")
    document = rendered(path, tmp_path, f"#select={chosen}")
    assert "The other core, which came at" in document


def test_the_fragment_chooses_the_window(page, tmp_path):
    document = rendered(page, tmp_path, "#from=1000&to=2000")
    assert (attribute(document, "from-ns"), attribute(document, "to-ns")) == (1000, 2000)
    assert attribute(document, "visible-instructions") < 17


ZOOMS = {
    "button": "byId('zoom-in').click();",
    "wheel": "canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -400, cancelable: true}));",
    "key": "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'w'}));",
}


@pytest.mark.parametrize("means", ZOOMS)
def test_zooming_in_shows_less_time(means, page, tmp_path, timeline):
    document = rendered(page, tmp_path, script=ZOOMS[means])
    shown_ns = attribute(document, "to-ns") - attribute(document, "from-ns")
    assert shown_ns < 0.8 * timeline.device_time_s * 1e9


def test_a_click_chooses_and_a_line_marks_its_row(page, tmp_path):
    x = "toX(spans.start[2] + spans.busy[2] / 2)"
    y = "lanes.find((l) => l.label === distinct(2).engine).top + 8"
    click = (
        f"select(spanAt({x}, {y}), false); document.querySelector('#lines button.link').click();"
    )
    document = rendered(page, tmp_path, script=click)
    assert attribute(document, "selected") == 2
    assert document.count('class="chosen"') == 1


def test_spans_under_a_pixel_are_merged(tmp_path, kernel, ran):
    for _ in range(20_000):
        kernel.load(128, 8)
    page = write_page(report_of([ran(kernel.timeline())]), tmp_path)
    document = rendered(page, tmp_path, "#select=19999")
    assert attribute(document, "visible-instructions") == 20_000
    assert attribute(document, "drawn-spans") < 1000
    assert "#19999 dma_copy" in document


def test_an_empty_program_renders(tmp_path, kernel, ran):
    page = write_page(report_of([ran(kernel.timeline())]), tmp_path)
    document = rendered(page, tmp_path)
    assert attribute(document, "drawn-spans") == 0
    assert "No rule found anything" in document
    assert "there is no point to show" in document


def test_hovering_shows_operands_source_line_and_cause(page, tmp_path, timeline):
    chosen = next(i for i, s in enumerate(timeline.spans()) if s.opcode == "nc_matmul")
    script = f"showTip({chosen}, {{clientX: 200, clientY: 200}});"
    document = rendered(page, tmp_path, script=script)
    tip = document[document.index('<div id="tip"') :]
    assert "stationary = SBUF [128, 128] bfloat16" in tip
    assert str(timeline.span(chosen).line).rpartition("/")[2] in tip
    assert "self.context.issue(NcMatmul(dst, stationary, moving))" in tip
    assert "Waited for: The result of" in re.sub(r"<[^>]*>", "", tip)


def test_the_roofline_has_the_kernel_and_its_matmuls_as_points(page, tmp_path):
    document = rendered(page, tmp_path)
    drawn = document[document.index('<svg id="roofline"') : document.index("</svg>")]
    assert re.findall(r"<text[^>]*>([^<]*(?:kernel|runs))</text>", drawn) == [
        "nc_matmul while it runs",
        "trn2 kernel",
    ]
    assert "operations a byte: HBM allows" in document


def test_figures_by_name_say_why_they_are_unknown(page, tmp_path):
    document = rendered(page, tmp_path)
    figures = document[document.index('<table id="figures"') :]
    assert "mfu_estimated_percent" in figures
    assert "the program has no collectives" in figures


def test_targets_stand_side_by_side_and_one_is_shown(tmp_path, timeline, ran):
    runs = [ran(timeline), ran(timeline, target=TARGETS["trn3"])]
    page = write_page(report_of(runs), tmp_path)
    document = rendered(page, tmp_path, "#profile=1&select=3")
    table = document[document.index('<table id="compare"') :].partition("</table>")[0]
    assert re.findall(r'<button class="([^"]*)">(\w+)</button>', table) == [
        ("", "trn2"),
        ("shown", "trn3"),
    ]
    assert ">matmul on trn3</h1>" in document
    assert attribute(document, "selected") == 3


def test_what_a_free_line_or_a_faster_engine_gains_is_shown(page, tmp_path):
    document = rendered(page, tmp_path)
    words = re.sub(r"<[^>]*>", "", document)
    assert re.search(r"DMA twice as fast: \W\d", words)
    assert "If free" in words


def test_a_transfer_that_starts_before_earlier_ones_hides_none(tmp_path, kernel, ran):
    tile = kernel.load(128, 512)
    for _ in range(20):
        tile = kernel.copy(tile)
    kernel.store(tile)
    for _ in range(8):
        kernel.load(128, 8)
    timeline = kernel.timeline()
    store = timeline.span(21)
    assert store.start_s > timeline.span(29).start_s
    page = write_page(report_of([ran(timeline)]), tmp_path)
    first_s, last_s = store.start_s + 1e-9, store.busy_until_s - 1e-9
    reaching = sum(s.start_s <= last_s and s.end_s >= first_s for s in timeline.spans())
    window = f"#from={first_s * 1e9:.2f}&to={last_s * 1e9:.2f}"
    assert attribute(rendered(page, tmp_path, window), "visible-instructions") == reaching


def text_of(document, start, end):
    """The words of a stretch of the document, a cell each."""
    part = document[document.index(start) :].partition(end)[0]
    return [cell.strip() for cell in re.sub(r"<[^>]*>", "\n", part).splitlines() if cell.strip()]


def test_a_model_stands_above_its_program(tmp_path, timeline, ran):
    moved = {"weights": 3072.0, "inputs": 1024.0}
    tensor, scalar = PartCost(4, {}, {"tensor": 6e-6}, moved), PartCost(1, {}, {"scalar": 2e-6})
    shares = (
        Share("net.blocks.*.mlp", "dot_general", 12, tensor),
        Share("net.head <b>", "tanh", 1, scalar),
    )
    whole = ModelEstimate(
        1e-6, 8e-6, 3e-6, 4e-6, "HBM", 1e9, 2**20, 0.25, 0.5, 1, 12, 4, shares, ("why",)
    )
    page = write_page(report_of([ran(timeline)], [whole]), tmp_path)
    document = rendered(page, tmp_path)
    assert '<section id="model" aria-label="The whole model">' in document
    cards = text_of(document, 'id="model-cards"', 'id="modules"')
    assert "12 µs" in cards
    assert "8 µs on the device, 3 µs exchanges, 1 µs launch" in cards
    assert "bytes once over HBM; the time is 3.0 times that" in cards
    assert {"25 % MFU", "50 % MBU"} <= set(cards)
    assert text_of(document, '<table id="modules"', "</table>")[4:] == [
        *("net", "8 µs · 100 %", "Tensor Engine", "4 KiB"),
        *("blocks.*.mlp \N{MULTIPLICATION SIGN} 12", "6 µs · 75 %", "Tensor Engine", "4 KiB"),
        *("head &lt;b&gt;", "2 µs · 25 %", "Scalar Engine", "0 B"),
    ]
    assert text_of(document, '<table id="traffic"', "</table>")[2:] == [
        *("weights", "3 KiB · 75 %", "inputs", "1 KiB · 25 %")
    ]
    assert "What follows is the program, with 4 of 12 equal layers; why" in document


def test_a_kernel_has_no_model(page, tmp_path):
    assert 'aria-label="The whole model" hidden' in rendered(page, tmp_path)


def test_edges_of_the_kernel_are_drawn_and_listed(tmp_path):
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf) for _ in range(2)]
        first, second = (nisa.dma_copy(tile, x) for tile in tiles)
        second.depends_on(first, kind=nisa.dependency.runtime)
        stores = [nisa.dma_copy(out[at], tile) for at, tile in enumerate(tiles)]
        stores[1].depends_on(stores[0], kind=nisa.dependency.schedule)
        return out

    run = trnsim.run(kernel, np.ones((128, 512), np.float32))
    document = rendered(run.report(tmp_path / "edges.html"), tmp_path)
    assert attribute(document, "drawn-edges") == 2
    listed = document[document.index('id="edges"') :]
    assert re.search(r"depends_on \(runtime\), dma_copy after dma_copy: without it .*costs", listed)
    assert "depends_on (schedule), dma_copy after dma_copy" in listed


def test_edges_without_times_were_not_tried(tmp_path, timeline, ran):
    edge = {"form": "depends_on", "kind": "runtime", "text": "a after b", "line": -1, "edges": 1}
    edge["pairs"] = []
    report = report_of([ran(timeline)])
    times = dict.fromkeys(("with_ns", "without_ns", "gain_ns"))
    report["profiles"][0]["edges"] = [edge, edge | times]
    document = rendered(write_page(report, tmp_path), tmp_path)
    listed = document[document.index('id="edges"') :]
    assert listed[: listed.index("</section>")].count("not tried") == 2
