"""How long a kernel's page takes to load in Chromium, by the number of its instructions.

    python bench/page_load.py [100000 1000000]

A real report is repeated along time until it has so many instructions. Printed are the milliseconds
from the start of navigation until everything is drawn, those of a zoom, and the size of the page.
Targets: 100,000 in 1 s, 1,000,000 in 3 s.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "shown"))

from browser import browser

import trnsim
from trnsim.profile import html, report_of

SIZES = (100_000, 1_000_000)
REPEATS = 3
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
ZOOM = "(() => { const begin = performance.now(); zoom(0.5); return performance.now() - begin; })()"


def repeated(report: dict[str, Any], instructions: int) -> dict[str, Any]:
    """The report with its program again and again, until it has `instructions`."""
    (profile,) = report["profiles"]
    spans, own = profile["spans"], len(profile["spans"]["start"])
    times = -(-instructions // own)
    shift_ns = np.repeat(np.arange(times) * profile["device_ns"], own)
    place = np.repeat(np.arange(times) * own, own)
    waited = np.tile(np.array(spans["waited_for"]), times)
    waits = len(spans["waits"])
    columns = {
        "start": np.round(np.tile(np.array(spans["start"]), times) + shift_ns, 2),
        **{name: np.tile(np.array(spans[name]), times) for name in ("busy", "latency", "which")},
        "line": np.tile(np.array(spans["line"]), times),
        "waited_for": np.where(waited < 0, -1, waited + place),
        "waits": np.tile(np.array(spans["waits"]), times)
        + np.repeat(np.arange(times) * own, waits),
        "waits_from": np.append(
            np.tile(np.array(spans["waits_from"][:-1]), times)
            + np.repeat(np.arange(times) * waits, own),
            times * waits,
        ),
    }
    critical = np.tile(np.array(profile["critical"]), times)
    more = {
        "spans": {name: column.tolist() for name, column in columns.items()},
        "critical": (
            critical + np.repeat(np.arange(times) * own, len(profile["critical"]))
        ).tolist(),
        "device_ns": times * profile["device_ns"],
    }
    return report | {"profiles": [profile | more]}


def kernel_report() -> dict[str, Any]:
    """The report of the attention kernel of the examples."""
    sys.path.append(str(ROOT / "examples"))
    import attention  # noqa: PLC0415  a script of the examples

    generator = np.random.default_rng(0)
    q, k, v = (generator.standard_normal((512, 128), np.float32) for _ in range(3))
    return report_of([trnsim.run(attention.attention, q, k, v)])


def main() -> None:
    """Print a line for each number of instructions."""
    sizes = [int(word) for word in sys.argv[1:]] or SIZES
    report = kernel_report()
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder)) as tab:
        tab.resize(1400)
        for size in sizes:
            page = Path(folder) / f"{size}.html"
            page.write_text(html(repeated(report, size)), encoding="utf-8")
            loads = []
            for _ in range(REPEATS):
                tab.open(page)
                loads.append(tab.value(LOADED))
            zooms = [tab.value(ZOOM) for _ in range(REPEATS)]
            assert not tab.errors, tab.errors
            drawn = tab.value("canvas.dataset.drawnSpans")
            print(
                f"{size:>9,} instructions: loaded in {min(loads):,.0f} ms (of "
                f"{', '.join(f'{load:,.0f}' for load in loads)}), zoom {min(zooms):,.0f} ms, "
                f"{page.stat().st_size / 2**20:.1f} MiB, {drawn} boxes"
            )


if __name__ == "__main__":
    main()
