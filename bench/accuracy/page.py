"""The text of docs/accuracy.md."""

from __future__ import annotations

import statistics
from collections import defaultdict

import numpy as np
from fit import LAUNCH_S, PAIRED_BYTES_PER_S, PAIRED_LAUNCH_S

from trnsim.arch import NEURONCORE_V3

HEAD = """# How far the estimates are from published times

Written by `make accuracy UPSTREAM=folder`, from public kernels at the shapes of published times
(`bench/accuracy/rows.json` names the source of each). nkilib's times are the limits of its own
regression tests, which carry about 15 % noise. Errors are (estimate - published) / published.
"""

NOT_MODELLED = """## What is not modelled

The Scalar Engine's table loads, conflicts on banks of PSUM, the order of transfers within a DMA
queue and the packets of one, the compiler's reordering and its choice of queues, power and heat
limits. The latency of a single small instruction is about half of what was measured (`instr` rows):
the documented 60 cycles of access latency are used, as a longer one makes whole kernels worse. A
stream of small transfers is about 30 % faster than on the published curve: the documented 600 ns an
instruction are used.
"""


def words(errors):
    """Count, median, P90 and signed median of errors, in per cent."""
    sizes = np.abs(errors)
    return (
        f"{len(sizes)} | {np.median(sizes) * 100:.1f} | {np.percentile(sizes, 90) * 100:.1f} | "
        f"{np.median(errors) * 100:+.1f}"
    )


def us(seconds):
    """Microseconds with three figures."""
    return f"{seconds * 1e6:.4g}"


def table(title, rows):
    """A table of errors."""
    head = f"| {title} | rows | median % | P90 % | signed median % |\n|---|---|---|---|---|"
    return "\n".join([head, *(f"| {name} | {words(errors)} |" for name, errors in rows)])


def constants_of(point):
    """A point of the grid in words."""
    return (
        f"paired DMA rate {point.paired_bytes_per_s / 1e9:.0f} GB/s, "
        f"launch {us(point.launch_s)} us, at LNC=2 {us(point.paired_launch_s)} us"
    )


def page(found, left, best, chosen):
    """The whole page."""
    by_family = defaultdict(list)
    for result in found:
        by_family[result.row["family"]].append(result.estimate_s / result.measured_s - 1)
    everything = [e for errors in by_family.values() for e in errors]
    out = [e for _, errors in chosen.values() for e in errors]
    inside = [r.p10_s <= r.measured_s <= r.p90_s for r in found]
    widths = [(r.p90_s - r.p10_s) / r.estimate_s for r in found]
    core = NEURONCORE_V3
    fitted = (core.dma_paired_bytes_per_s, core.launch_s, core.paired_launch_s)
    parts = [
        HEAD,
        "## In sample, with the shipped constants\n",
        table("family", [*by_family.items(), ("**all**", everything)]),
        (
            f"\nThe interval P10 to P90 holds {100 * sum(inside) / len(inside):.0f} % of the rows, "
            f"at a median width of {100 * statistics.median(widths):.0f} % of the estimate.\n"
        ),
        "## Leaving a kernel out\n",
        (
            "Constants are chosen on the rows of the other kernels and judged on those of this "
            "one. What the model contains (issue of DMA instructions, ramp, engines by partition) "
            "was decided with all rows in sight, so a kernel unlike these may be further off.\n"
        ),
        table("kernel left out", [*((k, e) for k, (_, e) in chosen.items()), ("**all**", out)]),
        "",
        *(f"- without {kernel}: {constants_of(point)}" for kernel, (point, _) in chosen.items()),
        "\n## The constants that are fitted\n",
        (
            "Method: every point of a grid on every row of a kernel on Trn2; the best has the "
            "least mean of |log(estimate / published)|. Grid: paired DMA rate "
            f"{', '.join(f'{r / 1e9:.0f}' for r in PAIRED_BYTES_PER_S)} GB/s; launch "
            f"{', '.join(us(s) for s in LAUNCH_S)} us; launch at LNC=2 "
            f"{', '.join(us(s) for s in PAIRED_LAUNCH_S)} us.\n"
        ),
        f"- best on all rows: {constants_of(best)}",
        (
            f"- shipped: paired DMA rate {fitted[0] / 1e9:.0f} GB/s, launch {us(fitted[1])} us, "
            f"at LNC=2 {us(fitted[2])} us ({fitted[2].provenance.kind.value})."
        ),
        "- All other constants are documented, measured or assumed: `docs/how-true.md`.\n",
        NOT_MODELLED,
        "## Rows that are not run\n",
        *(f"- {why}: {', '.join(ids)}" for why, ids in reasons(left).items()),
        "\n## Row by row\n",
        "| row | LNC | published us | estimate us | P10 | P90 | error % |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {r.row['id']} | {r.cores} | {us(r.measured_s)} | {us(r.estimate_s)} | "
            f"{us(r.p10_s)} | {us(r.p90_s)} | {(r.estimate_s / r.measured_s - 1) * 100:+.1f} |"
            for r in found
        ),
        "",
    ]
    return "\n".join(parts)


def reasons(left):
    """Reason -> ids."""
    grouped = defaultdict(list)
    for name, why in left.items():
        grouped[why].append(name)
    return grouped
