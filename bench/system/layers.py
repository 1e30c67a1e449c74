"""The package's table of compiled layers: ``make layers``.

Compiles one layer of each model at each shape, which takes minutes a shape; what the table has of
the same sources is kept, so that a run that was stopped goes on. Needs transformers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import product
from pathlib import Path

from trnsim.errors import EmulatorError
from trnsim.estimate.table import PACKAGED, rank_of, signature, write
from trnsim.lower.cache import version
from trnsim.torch.models.layer import compiled_layer
from trnsim.torch.models.shape import ModelShape
from trnsim.workload.config import read
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import blocks

CONFIGS = Path(__file__).parent / "configs"
MODELS = ("Llama-2-7b", "Llama-3-8B", "Llama-2-13b", "Llama-3-70B")
RANKS = (24, 32)
TARGET = "trn1"
"""Its core is Inferentia2's as well."""
PROMPTS = (1, 2, 4, 8)
COMPILED = 2
"""Prompts that are compiled together: each further one takes what the second adds."""
SHAPES = (
    *((Phase.PREFILL, 1, length) for length in (128, 256, 1024, 2048)),
    *((Phase.DECODE, batch, length) for batch in (1, 8) for length in (512, 2048, 8192)),
    *((Phase.PREFILL, 1, length) for length in (4096, 8192)),
)
"""Phase, batch, and tokens that a query meets."""


def shape_of(phase, batch, length, ranks):
    """The shape of a layer's graph."""
    past = length - 1 if phase is Phase.DECODE else 0
    return ModelShape(str(phase), batch, 1 if past else length, past, ranks, is_padded=True)


def layer_of(name, phase, batch, length, ranks):
    """The signature of a model's layer on a rank."""
    past = length - 1 if phase is Phase.DECODE else 0
    given = Pass(phase, batch, 1 if past else length, past)
    made = blocks(read(CONFIGS / f"{name}.json"), given, Split(ranks))
    return signature(next(one for one in made if one.name == "layer"), given)


class Made:
    """The table while it is made."""

    def __init__(self, file):
        self.file = file
        found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self.rows = found.get("layers", []) if found.get("version") == version() else []

    def row(self, layer, phase, model):
        """The row of a layer, made where it is missing."""
        rank = rank_of(TARGET, 1)
        for one in self.rows:
            if (one["rank"], one["layer"], one["phase"]) == (rank, layer, str(phase)):
                return one
        made = {"rank": rank, "layer": layer, "phase": str(phase), "model": model, "points": []}
        self.rows.append(made)
        return made

    def add(self, name, ranks, shape):
        """Compile a shape, unless the table has it; of prompts, one and two, and more of them."""
        phase, batch, length = shape
        row = self.row(layer_of(name, phase, batch, length, ranks), phase, name)
        if any(point[:2] == [batch, length] for point in row["points"]):
            return
        began = time.perf_counter()
        batches = range(1, COMPILED + 1) if phase is Phase.PREFILL else (batch,)
        try:
            found = [compiled(name, (phase, one, length), ranks) for one in batches]
        except EmulatorError as error:
            print(f"{name} on {ranks} ranks, {phase} {batch} x {length}: {error}", flush=True)
            return
        made = list(zip(batches, found, strict=True))
        if phase is Phase.PREFILL:
            more = [count for count in PROMPTS if count > COMPILED]
            made += [(one, found[-1] + (one - COMPILED) * (found[-1] - found[0])) for one in more]
        points = [[one, length, float(f"{time_s:.6g}")] for one, time_s in made]
        row["points"] = sorted([*row["points"], *points])
        write(self.file, [one for one in self.rows if one["points"]])
        print(
            f"{name} on {ranks} ranks, {phase} {batch} x {length}: "
            f"{found[0] * 1e6:.1f} us, in {time.perf_counter() - began:.0f} s",
            flush=True,
        )


def compiled(name, shape, ranks):
    """Seconds of a layer that is compiled now."""
    return compiled_layer(CONFIGS / f"{name}.json", shape_of(*shape, ranks), TARGET).time_s


def main():
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=PACKAGED, help="the file")
    asked = parser.parse_args()
    made = Made(asked.to)
    for shape in SHAPES:
        for name, ranks in product(MODELS, RANKS):
            made.add(name, ranks, shape)
    return 0


if __name__ == "__main__":
    sys.exit(main())
