"""Published servers under load as rows of coverage, and their cells.

A port's constants are fitted to rows of one user, and nothing is fitted to servers on GPUs, so that
what is left out above 8 users was seen by no fit. Intervals are those that a server's figures have
when each step takes its P10 or its P90.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import serving_rows

from trnsim.estimate.cells import Cell, family_of
from trnsim.place.machine import machine
from trnsim.workload.operators import Phase

USERS = 8
"""Rows of more users than these are left out together."""
NAMES = {"tpot_p50_s": Phase.DECODE, "ttft_p50_s": Phase.PREFILL}
"""Figures, with the phase that most of their time is of."""


def family(row, phase):
    """Rows that share the constants of a row's figure."""
    where = machine(row["instance"], lnc=row.get("lnc"))
    is_ported = row["state"] == serving_rows.PORTED
    kind = serving_rows.model(row["model"]).kind
    return family_of(kind, phase, is_gpu=not where.is_neuron, is_ported=is_ported)


def loaded():
    """(row, its figure's name, logarithm of (estimate / published), half width on its side)."""
    for row in serving_rows.ROWS:
        if row["concurrency"] > USERS:
            figures = serving_rows.figures(row)
            for name in NAMES:
                if name in row:
                    found, published_s = figures[name], row[name]
                    is_low = found.p50 < published_s
                    half = found.p90 / found.p50 if is_low else found.p50 / found.p10
                    error = np.log(found.p50 / published_s)
                    yield row, name, float(error), float(np.log(half))


@cache
def cells():
    """Cells of servers: errors with each publication left out; TTFT of one user alone."""
    found = {}
    for one in serving_rows.judge():
        for name, phase in NAMES.items():
            if name in one.row and (phase is Phase.DECODE or one.row["concurrency"] == 1):
                where = machine(one.row["instance"], lnc=one.row.get("lnc"))
                kind = serving_rows.model(one.row["model"]).kind
                is_ported = one.row["state"] == serving_rows.PORTED
                key = kind, phase, where.chip.name, is_ported
                found.setdefault(key, []).append((one.row, abs(one.error(name))))
    return tuple(_cell(*key, ones) for key, ones in found.items())


def _cell(kind, phase, chip, is_ported, ones):
    rows, errors = zip(*ones, strict=True)
    prompts = phase is Phase.PREFILL
    lengths = [row["input_tokens"] + (0 if prompts else row["output_tokens"]) for row in rows]
    batches = [1 if prompts else _batch(row) for row in rows]
    ranks = [row["tensor_parallel"] for row in rows]
    return Cell(
        *(kind, phase, chip, len(rows)),
        *(round(float(one), 3) for one in np.quantile(errors, (0.5, 0.9))),
        *((min(sizes), max(sizes)) for sizes in (batches, lengths, ranks)),
        is_ported=is_ported,
    )


def _batch(row):
    return min(serving_rows.load_of(row), row.get("max_num_seqs", serving_rows.SEQUENCES))
