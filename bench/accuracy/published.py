"""The published figures: rows.json, what each row is of, and which rows are not run.

rows.json has every row of kinds kernel, instruction and dma of the calibration data. A row is a
time, or another figure ("counter") of a run whose time is a row of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

from trnsim.arch import NEURONCORE_V3

ROWS = Path(__file__).with_name("rows.json")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
KERNELS = {
    "attncte": "attention_cte",
    "mlptkg": "mlp_tkg",
    "mlpcte": "mlp_cte",
    "qkvtkg": "qkv_tkg",
    "rmsq": "rmsnorm_quant",
    "tut-matmul-trn1": "matmul tutorial (Trn1)",
    "tut-matmul-trn2": "matmul guide (Trn2)",
    "tut-mamba": "mamba",
    "nkibench": "nkibench",
    "nki-samples-perf": "nki-samples",
    "instr": "instr",
    "dma-curve": "dma-curve",
}
"""Start of a family -> its kernel: what is left out together."""

TIMES = ("device_latency", "device_latency_p50", "device_latency_upper")
"""Metrics that are a kernel's time."""

LEFT_OUT = {
    "nki-samples": "published as an upper bound (a gate of a test), of NKI 0.1 kernels",
    "instr": "not modelled: LoadStationary alone, packets of single engines",
}
"""Why rows of a kernel are not run, where nothing answers for them."""


def rows():
    """All rows, in the order of the file."""
    return json.loads(ROWS.read_text(encoding="utf-8"))


def kernel_of(row):
    """The row's kernel: what is left out together."""
    family = row["family"]
    kernel = next(name for start, name in KERNELS.items() if family.startswith(start))
    return f"nkibench {row['id'].split('-')[1]}" if kernel == "nkibench" else kernel


def is_single(row):
    """Whether the row is of single instructions, not of a kernel."""
    return kernel_of(row) in ("instr", "dma-curve")


def is_time(row):
    """Whether the row is the time of a kernel or of an instruction."""
    return is_single(row) or row["metric"] in TIMES


def published_s(row):
    """Seconds; on the DMA curve from the share of the plateau, which is taken as documented."""
    if kernel_of(row) != "dma-curve":
        return row["value"] * SECONDS[row["unit"]]
    return 128 * row["shapes"]["F_bytes"] / (row["value"] * float(NEURONCORE_V3.dma_bytes_per_s))
