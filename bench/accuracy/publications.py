"""Publications: what each row was published in, and what the model has from each.

A publication is left out with what was chosen or fitted on its rows (`FITTED`). A part of the model
that was made for it is left out apart from that (`PARTS`): it shows how far off an estimate is
where a mechanism is missing.
"""

from __future__ import annotations

from fit import SHIPPED, Option, both, one

NKI_LIBRARY = "nki-library"
_STARTS = {
    "nki-library@": NKI_LIBRARY,
    "nki-samples@": "nki-samples",
    "AccelOpt@": "NKIBench",
    "aws-neuron-sdk@0521004c (2.26.0) general/nki/tutorials/matri": "matmul tutorial (Trn1)",
    "aws-neuron-sdk/nki/img/how-to/v": "matmul guide (Trn2)",
    "aws-neuron-sdk/nki/... derived from v5-full.png": "matmul guide (Trn2)",
    "aws-neuron-sdk/nki/guides/tutorials/fused_mamba.rst": "mamba tutorial",
    "aws-neuron-sdk/nki/img/overviews/nki-dma-intro-1": "DMA curve",
    "aws-neuron-sdk/nki/... nki-dma": "DMA overview",
    "aws-neuron-sdk/nki/... nki_perf_guide": "NKI performance guide",
    "aws-neuron-sdk/nki/... fig": "NKI performance guide",
}
"""Start of a row's source -> its publication."""

FITTED: dict[str, Option] = {
    NKI_LIBRARY: both(
        one("launch_s", 15e-6, "the launch of v2"),
        one("paired_launch_s", 15e-6, "likewise"),
        one("dma_paired_bytes_per_s", 368e9, "the DMA rate of one core"),
    ),
}
"""Publication -> the constants that were fitted to it, as if it were unknown."""

PARTS: dict[str, Option] = {
    "matmul tutorial (Trn1)": both(
        one(
            "dma_short_run_bytes_per_s", 272e9, "short rows at the full DMA rate", generations=(2,)
        ),
        one("dma_static_issue_s", 0.6e-6, "600 ns an issue on v2", generations=(2,)),
    ),
    "mamba tutorial": Option("broadcasts by four shuffles", variant="shuffles"),
}
"""Publication -> an option without the part of the model that was made for it."""


def publication_of(row):
    """What a row was published in."""
    return next(name for start, name in _STARTS.items() if row["source"].startswith(start))


def apart(publication, setting):
    """A setting, without what was fitted to a publication."""
    option = FITTED.get(publication)
    return setting if option is None else {**setting, "fitted": option}


def without_part(publication):
    """The setting without the part that was made for a publication; None where it has none."""
    option = PARTS.get(publication)
    return None if option is None else {**SHIPPED, "without": option}
