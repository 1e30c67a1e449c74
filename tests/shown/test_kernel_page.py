"""A kernel's page in Chromium: source and instructions lead to each other, keys alone, maps."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for modules beside this test
sys.path.append(str(Path(__file__).parents[2] / "examples"))

from browser import CHROMIUM, browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH"),
]


@pytest.fixture(scope="module")
def report():
    import attention  # noqa: PLC0415  a script of the examples
    import numpy as np  # noqa: PLC0415

    import trnsim  # noqa: PLC0415
    from trnsim.profile import report_of  # noqa: PLC0415

    q, k, v = (np.full((512, 128), 0.5, np.float32) for _ in range(3))
    return report_of([trnsim.run(attention.attention, q, k, v)])


@pytest.fixture(scope="module")
def tab(report, tmp_path_factory):
    from trnsim.profile import write_page  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("kernel")
    page = write_page(report, folder)
    with browser(folder) as made:
        made.resize(1400)
        made.page = page
        yield made


@pytest.fixture(autouse=True)
def opened(tab):
    tab.open(tab.page)
    yield
    assert tab.errors == []


def timed_lines(report):
    (profile,) = report["profiles"]
    return [row for row in profile["by_line"] if row["line"] >= 0]


def test_the_source_is_whole_and_its_numbers_are_those_of_the_json(report, tab):
    (profile,) = report["profiles"]
    source = profile["sources"][0]["text"].splitlines()
    shown = tab.value("[...document.querySelectorAll('#source-lines tbody tr')].length")
    assert shown == len(source)
    for row in timed_lines(report):
        line = profile["lines"][row["line"]]
        cells = tab.value(
            f"[...document.querySelector('#source-lines tr[data-line=\"{row['line']}\"]').cells]"
            ".map((cell) => cell.textContent)"
        )
        assert (cells[0], cells[1]) == (str(line["line"]), source[line["line"] - 1])
        words = tab.value(f"[short({row['busy_ns']}), short({row['critical_ns']})]")
        assert cells[2:4] == words


def test_stalls_of_a_line_are_the_idle_time_before_its_instructions(report, tab):
    """An oracle in Python: each engine's instructions in order of start."""
    (profile,) = report["profiles"]
    spans, stalls = profile["spans"], {}
    engines = [profile["distinct"][which]["engine"] for which in spans["which"]]
    for engine in set(engines):
        own = [i for i, name in enumerate(engines) if name == engine]
        free = 0.0
        for i in sorted(own, key=lambda i: (spans["start"][i], i)):
            idle = spans["start"][i] - free
            free = max(free, spans["start"][i] + spans["busy"][i])
            if idle > 0.05 and spans["waited_for"][i] >= 0:
                stalls[spans["line"][i]] = stalls.get(spans["line"][i], 0.0) + idle
    told = tab.value(
        "[...stallsByLine()].map(([line, rows]) => [line, rows.reduce((n, row) => n + row.ns, 0)])"
    )
    assert dict(told) == pytest.approx(stalls)


def test_a_line_leads_to_its_instructions_and_back(report, tab):
    (profile,) = report["profiles"]
    line = timed_lines(report)[0]["line"]
    tab.value(f"document.querySelector('#source-lines tr[data-line=\"{line}\"] button').click()")
    own = [i for i, of in enumerate(profile["spans"]["line"]) if of == line]
    listed = tab.value(
        "[...document.querySelectorAll('#source-instructions button')].map((b) => b.textContent)"
    )
    assert [int(words[1:].split()[0]) for words in listed] == own[:40]
    tab.value("document.querySelector('#source-instructions button').click()")
    assert tab.value("canvas.dataset.selected") == str(own[0])
    assert tab.value("document.querySelector('#source-lines tr.here').dataset.line") == str(line)


def test_keys_alone_choose_instructions_and_engines(report, tab):
    (profile,) = report["profiles"]
    engines = [profile["distinct"][which]["engine"] for which in profile["spans"]["which"]]
    tab.press("n", times=2)
    second = int(tab.value("canvas.dataset.selected"))
    assert engines[second] == "Tensor Engine"
    assert engines[:second].count("Tensor Engine") == 1
    tab.press("p")
    assert int(tab.value("canvas.dataset.selected")) < second
    tab.press("j")
    assert engines[int(tab.value("canvas.dataset.selected"))] == "Vector Engine"
    tab.press("k")
    assert engines[int(tab.value("canvas.dataset.selected"))] == "Tensor Engine"
    tab.press("Escape")
    assert tab.value("canvas.dataset.selected") == "-1"


def test_tab_reaches_every_control_and_shows_where_it_is(tab):
    names, outlines = [], []
    for _ in range(400):
        tab.press("Tab")
        seen = tab.value(
            "(() => { const one = document.activeElement;"
            "const outline = getComputedStyle(one).outlineStyle;"
            "return [one.id || one.textContent, outline, one.tagName] })()"
        )
        if seen[2] == "BODY":
            break
        names.append(seen[0])
        outlines.append(seen[1])
    assert {"zoom-in", "fit", "timeline", "map-0", "map-1", "details", "source-scroll"} <= set(
        names
    )
    assert "none" not in outlines


def test_maps_draw_the_tensors_of_the_json_and_lead_to_their_instruction(report, tab):
    (profile,) = report["profiles"]
    for at, columns in enumerate(profile["placements"]):
        assert tab.value(f"mapCanvas({at}).dataset.drawnTensors") == str(len(columns["first"]))
    tab.value("mapCanvas(1).focus()")
    tab.press("ArrowDown", times=2)
    chosen = profile["placements"][1]
    assert tab.value("canvas.dataset.selected") == str(chosen["first"][1])
    words = tab.value("byId('tensor-words').textContent")
    assert f"in each of {chosen['partitions'][1]} partitions" in words
    assert f"#{chosen['first'][1]} " in words


def test_an_earlier_report_has_neither_source_nor_map(report, tab, tmp_path):
    from trnsim.profile import write_page  # noqa: PLC0415

    (profile,) = report["profiles"]
    kept = {key: value for key, value in profile.items() if key not in {"sources", "placements"}}
    tab.open(write_page(report | {"profiles": [kept]}, tmp_path))
    assert tab.value("[byId('source').hidden, byId('maps').hidden]") == [True, True]


@pytest.mark.parametrize(
    ("step", "href"),
    [("step.html", "step.html"), ("javascript:alert(1)//.html", None), ("../step.html", None)],
)
def test_a_kernel_of_a_step_leads_back_to_it(step, href, report, tab, tmp_path):
    from trnsim.profile import write_page  # noqa: PLC0415

    tab.open(write_page(report | {"step": step}, tmp_path))
    assert tab.value("byId('step').getAttribute('href')") == href
    tab.open(tab.page)
    assert tab.value("byId('step').hidden") is True
