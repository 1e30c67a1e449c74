"""docs/generated/accuracy-serving.md: servers under load, published and estimated."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
from page_methods import line
from serving_rows import LIMITS, PORTED, TUNED, load_of, publication, ratios

from trnsim.estimate.ported import ROUTED_S

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "accuracy-serving.md"
TOLERANCE = 0.03
"""By which the package's constant may differ from its fit."""
HEAD = """# How far servers under load are from published ones

Written by `bench/system/serving_rows.py`, which runs each row of `bench/system/serving.json`
through the server step by step. Medians; errors are (estimate - published) / published. **Every row
is judged by constants that saw no row of its publication**, which is a repository or a page. P10
and P90 are the planner's own, whose width has seen these rows.

"tuned" is a maker's own server. "as ported" (`--port-state as-ported`) is a mixture of experts on
AWS's chips whose authors call its port not optimised.
"""
QUEUE = """At more users than one it contains the queue of requests that wait for a place, for a
step or for the prompts of others, which stands beside it."""
BASIS = """
## What is fitted, and what is not

**One constant is fitted to these rows**: the fixed time of a port's layer with experts beside a
tuned one, in which a router in float32, masks and sums run operation by operation. The rest of a
port is documented: which experts a module reads (those of each token gathered while they are fewer
than all, else all; quantized ones are widened before a product), for prompts as many blocks of 512
rows as the worst router needs, one bucket of the longest sequence, one prompt at a time with a step
of all others in between. A prompt's sum over all tokens is written anew for each block: six passes
over memory are assumed, three reads and three writes. The host's time of a port's step is what vLLM
adds to the port's own loop in one pair of rows; where these are left out it is taken as hidden.

**Servers on GPUs have no constant of these rows.** Their form was chosen with the rows in sight:
FP8 multiplies at the FP8 peak; a cast of each 8-bit input and four kernels of a router are launched
like other kernels; prompts stall tokens by the rule of each server. Settings that rows do not state
are those servers' defaults; keys and values in FP8 are assumed of NVIDIA's FP8 checkpoints, and
without them half as many sequences would fit beside the weights as the row of 100 users shows.

**What these rows cannot show.** No dense model on AWS's chips under load, and no tuned server on
them at all: the stall of tokens by prompts is the documented rule there (one prompt a step, ahead
of all tokens), times the planner's times of prompts and steps. One pair of rows is of a prompt on a
port. All users of a row are taken to send equal requests and to begin at once.
"""


def percent(error):
    """A signed error."""
    return "-" if error is None else f"{100 * error:+.0f} %"


def ms(time_s):
    """Milliseconds with three digits."""
    return f"{1e3 * time_s:,.0f}" if time_s >= 1 else f"{1e3 * time_s:.3g}"


def interval(figure):
    """``12 (8 to 18)`` in milliseconds."""
    return f"{ms(figure.p50)} ({ms(figure.p10)} to {ms(figure.p90)})"


def tpot_lines(judged):
    """A line of a row's TPOT."""
    for each in judged:
        row, found = each.row, each.figures["tpot_p50_s"]
        inside = "yes" if each.is_inside("tpot_p50_s") else "no"
        yield line(
            row["id"],
            row["state"],
            row["server"],
            str(load_of(row)),
            ms(row["tpot_p50_s"]),
            interval(found),
            percent(each.error("tpot_p50_s")),
            inside,
        )


def ttft_lines(judged):
    """A line of a row's TTFT, apart as the prompt alone and the queue."""
    for each in judged:
        row, found = each.row, each.figures
        published_s = row.get("ttft_p50_s")
        if published_s is None:
            continue
        yield line(
            row["id"],
            str(row["concurrency"]),
            ms(published_s),
            interval(found["ttft_p50_s"]),
            percent(each.error("ttft_p50_s")),
            ms(found["ttft_unloaded_p50_s"].p50),
            ms(found["ttft_queue_p50_s"].p50),
            "yes" if each.is_inside("ttft_p50_s") else "no",
        )


def ratio_lines(pairs):
    """A line of a ratio."""
    for pair in pairs:
        row = pair.loaded.row
        yield line(
            row["id"],
            row["state"],
            f"{load_of(row)} / {load_of(pair.unloaded.row)}",
            f"{pair.published:.2f}",
            f"{pair.estimated:.2f}",
            percent(pair.error),
        )


def held(errors, limit):
    """``5 of 7`` errors within a limit, and their median."""
    size = np.abs(errors)
    return f"{int((size <= limit).sum())} of {len(size)}", f"{100 * np.median(size):.0f} %"


def targets(judged, pairs):
    """Lines of what was asked, and the misses in words."""
    tuned = [each for each in judged if each.row["state"] == TUNED]
    ported = [each for each in judged if each.row["state"] == PORTED]
    alone = [each for each in judged if each.row["concurrency"] == 1 and "ttft_p50_s" in each.row]
    asked = [
        ("TPOT, tuned, each load", tuned, "tpot_p50_s", LIMITS["TPOT"]),
        ("TTFT, tuned, one user", [e for e in alone if e in tuned], "ttft_p50_s", LIMITS["TTFT"]),
        ("TPOT, as ported (not asked)", ported, "tpot_p50_s", LIMITS["TPOT"]),
        ("TTFT, as ported, one user (not asked)", [e for e in alone if e in ported], "ttft_p50_s",
         LIMITS["TTFT"]),
    ]  # fmt: skip
    lines, misses = [], []
    for name, rows, key, limit in asked:
        errors = [each.error(key) for each in rows]
        lines.append(line(name, f"{100 * limit:.0f} %", *held(errors, limit)))
        misses += [
            f"{each.row['id']}: {name.partition(',')[0]} {percent(error)}"
            for each, error in zip(rows, errors, strict=True)
            if abs(error) > limit and "not asked" not in name
        ]
    for state in (TUNED, PORTED):
        same = [pair for pair in pairs if pair.loaded.row["state"] == state]
        errors = [pair.error for pair in same]
        limit = LIMITS["ratio"]
        lines.append(
            line(f"loaded / unloaded TPOT, {state}", f"{100 * limit:.0f} %", *held(errors, limit))
        )
        misses += [
            f"{pair.loaded.row['id']}: ratio {percent(pair.error)}"
            for pair in same
            if abs(pair.error) > limit
        ]
    return lines, misses


def fits(judged, whole):
    """Lines of the fitted constant, with all rows and with a publication left out."""
    yield line("none (in the package)", f"{1e6 * whole.routed_s:.0f} us")
    for each in {publication(e.row): e for e in judged if e.row["state"] == PORTED}.values():
        yield line(publication(each.row), f"{1e6 * each.constants.routed_s:.0f} us")


def table(header, rows):
    """A table under its header, columns apart by bars."""
    names = [name.strip() for name in header.split("|")]
    return "\n".join([line(*names), "|---" * len(names) + "|", *rows])


def told(misses, judged):
    """What was missed, how many rows lie inside, and the spread of ports left out, in words."""
    inside = [each.is_inside("tpot_p50_s") for each in judged]
    errors = [each.error("tpot_p50_s") for each in judged if each.row["state"] == PORTED]
    sigma = float(np.sqrt(np.mean(np.log1p(errors) ** 2)))
    return textwrap.fill(
        f"**Missed:** {'; '.join(misses) or 'none'}. TPOT lies between P10 and P90 in "
        f"{sum(inside)} of {len(inside)} rows. One sigma of ports left out is {sigma:.2f}.",
        100,
    )


def page(judged, whole):
    """The page."""
    order = {each.row["id"]: place for place, each in enumerate(judged)}
    judged = sorted(judged, key=lambda each: (each.row["state"], order[each.row["id"]]))
    pairs = ratios(judged)
    lines, misses = targets(judged, pairs)
    tpot = "row | state | server | users or batch | published | P50 (P10 to P90) | error | inside"
    ttft = "row | users | published | P50 (P10 to P90) | error | unloaded | queue | inside"
    ratio = "row | state | users or batch | published | estimated | error"
    parts = (
        HEAD,
        table("asked | within | rows that are | median error", lines),
        told(misses, judged),
        "## Time between tokens, ms",
        table(tpot, tpot_lines(judged)),
        "## Time to the first token, ms",
        QUEUE,
        table(ttft, ttft_lines(judged)),
        "## TPOT under load over that without",
        table(ratio, ratio_lines(pairs)),
        BASIS,
        table("publication left out | time of a layer with experts", fits(judged, whole)),
    )
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def write(judged, whole):
    """Write the page; fail if the package has another constant than the fit."""
    PAGE.write_text(page(judged, whole))
    print(PAGE.read_text())
    if abs(ROUTED_S / whole.routed_s - 1) > TOLERANCE:
        raise SystemExit(f"estimate/ported.py has {ROUTED_S:g}, the fit {whole.routed_s:g}")
