"""The text of docs/accuracy-models.md."""

from __future__ import annotations

import numpy as np
from model_fit import Row, latency, leave_one_out
from model_rows import CLASSES, DECODE, ENCODERS, PREFILL, SEVERAL, TOKENS, TRAINING, VISION
from model_why import sentence

HEAD = """# How far the estimates of whole models are from published times

Written by `make accuracy`, from graphs of the published architectures at the shapes of published
times (`bench/accuracy/models`: `rows.json` has the rows with their sources, `architectures.json`
the sizes, from model cards and papers). A graph is one rank's: layers split over tensor-parallel
ranks, exchanges between them inside. Errors are (estimate - published) / published.
"""

CONSTANT = """
**One constant is fitted: {latency} us, the latency of a small all-reduce inside an instance**, the
same for every model and chip, of {rows} decode rows. Each row's is chosen on the rows of models of
other width and depth; the column "latency %" says what part of the estimate it is. The bytes of an
exchange are priced by the fabric's fastest algorithm: on the first generation at 56.7 GB/s, which
AWS's all-reduce of 1 GiB over two ranks shows (nccom-test.rst), on later ones at their links'
bandwidth. Nothing is fitted for a model, a family or a class. P10 and P90 are the estimate over and
times one factor, which holds four fifths of the other models' rows of all classes.

No estimate may be below its bound: products at the peak that follows from the clock, each byte of
weights, inputs and outputs once over the HBM stack's bandwidth (shared by the cores that have it),
exchanged bytes over the links. `model_bounds.py` checks that, and each bound beside an oracle that
counts all of a graph's operations; where a bound is below a third of the published time, the row
says why.
"""

NOTES = """
- A decode row is one step at the bucket of the median token: token-generation buckets are powers of
  two from 128 up to the sequence length, and attention's cost follows the bucket
  (transformers-neuronx-developer-guide.rst, Bucketing). A prefill row is one prompt at its bucket,
  with the scores of its last token. Of four prompts and more with 8,192 tokens together, one and
  two are compiled: each further one takes what the second adds.
- Heads that the ranks do not divide are made up with unused ones, as transformers-neuronx does.
- An image takes its text encoders, each step of the denoiser and the decoder of latents, one
  after another; a step's halves with and without the prompt run on two cores at once.
- A row of throughput, of images, is a core's pass: the batch and the number of cores over the
  throughput. NeuronPerf keeps two requests at each core there, so that a published latency is that
  of two passes (neuronperf_benchmark_guide.rst, workers_per_model).
- A training row is one step of the optimizer: microbatches forward and backward, gradients added
  up over ranks, an update at the measured rate of the DMA engines. Rows of several instances are
  printed here and judged where schedules over instances are estimated.
- xlm-roberta-base returns scores of 250,002 words in float32 for each token: 128 MB a sequence.
  At the published throughput that is 6 GB/s to the host, on either chip and at either batch size,
  and 40 times what roberta-base takes: those rows are times of the host's link, which a graph on
  the device does not have.
"""

BARS = {
    ENCODERS: ((7, 21), (12, 30)),
    VISION: (None, (25, 60)),
    DECODE: ((5.5, 17), (10, 25)),
    PREFILL: ((12, 31), (20, 50)),
    TRAINING: ((19, 29), (15, 30)),
}
"""Median and P90 in per cent: what two or three constants reach inside a family, and the target."""


def page(cases, found):
    """The page of all cases, of which `found` has what parts take by row id."""
    rows, left = [], []
    for case in cases:
        parts = found.get(case.row["id"])
        why = case.left_out or _refusal(parts)
        if why:
            left.append((case, why))
        else:
            rows.append(Row(case, parts))
    results = leave_one_out(rows)
    chosen = latency(rows)
    fitted = sum(row.case.kind == DECODE and row.exchanges > 0 for row in rows)
    words = "no" if chosen is None else f"{chosen * 1e6:.0f}"
    return "\n".join(
        [
            HEAD,
            *_classes(results),
            CONSTANT.format(latency=words, rows=fitted),
            *_by_model(results),
            "## What a row is\n" + NOTES,
            *_every_row(results),
            *_left_out(left),
            "",
        ]
    )


def _refusal(parts):
    if parts is None:
        return "not priced in this run"
    refusals = [part["refusal"] for part in parts or () if isinstance(part, dict)]
    return f"refused: {refusals[0]}" if refusals else ""


NUMBERS = ("rows", "median %", "P90 %", "signed median %")
COVERAGE = ("inside P10 to P90 %", "width %")


def _heads(*names):
    """The first two lines of a table."""
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"


def _of(results, kind):
    return [result for result in results if result.row.case.kind == kind]


def _classes(results):
    """Errors by class beside the bar and the target."""
    yield from _heads("class", *NUMBERS, "few constants %", "target %", *COVERAGE)
    for kind in CLASSES:
        bar, target = BARS[kind]
        cells = [_pair(bar), _pair(target)]
        yield _line(kind, _of(results, kind), cells)
    judged = [result for result in results if result.row.case.kind in CLASSES]
    yield _line("**all classes**", judged, ["", ""])
    for kind in (TOKENS, SEVERAL):
        yield _line(f"{kind} (printed only)", _of(results, kind), ["", ""])


def _pair(numbers):
    return "-" if numbers is None else " / ".join(f"{one:g}" for one in numbers)


def _line(name, results, cells):
    if not results:
        return _cells(name, 0, "", "", "", *cells, "", "")
    errors = np.array([result.error for result in results])
    sizes = 100 * np.abs(errors)
    inside = 100 * np.mean([result.is_inside for result in results])
    width = 100 * np.median([result.width for result in results])
    figures = (f"{np.median(sizes):.1f}", f"{np.quantile(sizes, 0.9):.1f}")
    signed = f"{100 * np.median(errors):+.1f}"
    return _cells(name, len(results), *figures, signed, *cells, f"{inside:.0f}", f"{width:.0f}")


def _cells(*cells):
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def _by_model(results):
    """Errors by what is left out together."""
    yield "## By model\n"
    yield from _heads("width x depth, or model, left out", *NUMBERS, *COVERAGE)
    judged = [result for result in results if result.row.case.kind in CLASSES]
    for model in dict.fromkeys(result.row.case.model for result in judged):
        mine = [result for result in judged if result.row.case.model == model]
        yield _line(model, mine, [])
    yield ""


def _every_row(results):
    """Each row, by class."""
    yield "## Row by row\n"
    for kind in (*CLASSES, TOKENS, SEVERAL):
        mine = _of(results, kind)
        if mine:
            yield f"### {kind[0].upper()}{kind[1:]}\n"
            yield from _heads(
                *("row", "model", "chip", "bound ms", "by", "published ms", "estimate ms"),
                *("P10", "P90", "error %", "latency %", "says"),
            )
            yield from map(_row, mine)
            yield ""


def _row(result):
    case = result.row.case
    least, what = result.row.bound
    low, high = result.interval_s
    times = (case.published_s, result.estimate_s, low, high)
    cells = " | ".join(f"{1e3 * one:.4g}" for one in times)
    model = (
        case.row["what"] if case.kind in (DECODE, PREFILL, TOKENS) else case.row["kernel_or_model"]
    )
    why = sentence(case.row["id"], least / case.published_s)
    says = ". ".join(one for one in (case.says, why) if one)
    numbers = f"{100 * result.error:+.1f} | {100 * result.share:.1f}"
    return (
        f"| {case.row['id']} | {model} | {case.target} | {1e3 * least:.4g} | {what} | {cells} | "
        f"{numbers} | {says} |"
    )


def _left_out(left):
    """Rows that are not run, and why."""
    yield "## Not run\n"
    yield from _heads("row", "model", "why")
    for case, why in left:
        yield f"| {case.row['id']} | {case.row['kernel_or_model']} | {why} |"
