"""The package's table of compiled layers: ``make layers``.

Compiles one layer of each model at each shape, which takes minutes a shape; what the table has of
the same sources is kept, so that a run that was stopped goes on. Needs transformers.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from trnsim.errors import EmulatorError
from trnsim.lower.cache import version
from trnsim.system.layers.table import PACKAGED, signature, write
from trnsim.system.workload.config import read
from trnsim.system.workload.operators import Pass, Phase, Split
from trnsim.system.workload.passes import blocks
from trnsim.torch.models.layer import compiled_layer
from trnsim.torch.models.shape import ModelShape

CONFIGS = Path(__file__).parent / "configs"
MODELS = (
    ("Llama-2-7b", "trn1", 32),
    ("Llama-2-13b", "trn1", 24),
    ("Llama-3-70B", "trn1", 32),
    ("Llama-3-8B", "trn1", 24),
)
SHAPES = (
    *((Phase.PREFILL, 1, length) for length in (128, 512, 2048)),
    *((Phase.DECODE, batch, length) for batch in (1, 8) for length in (512, 2048, 8192)),
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

    def row(self, target, layer, phase, model):
        """The row of a layer, made where it is missing."""
        for one in self.rows:
            if (one["target"], one["layer"], one["phase"]) == (target, layer, str(phase)):
                return one
        made = {"target": target, "layer": layer, "phase": str(phase), "model": model, "points": []}
        self.rows.append(made)
        return made

    def add(self, name, target, ranks, shape):
        """Compile a shape, unless the table has it."""
        phase, batch, length = shape
        row = self.row(target, layer_of(name, phase, batch, length, ranks), phase, name)
        if any(point[:2] == [batch, length] for point in row["points"]):
            return
        began = time.perf_counter()
        try:
            found = compiled_layer(CONFIGS / f"{name}.json", shape_of(*shape, ranks), target)
        except EmulatorError as error:
            print(f"{name} on {ranks} {target} ranks, {phase} {batch} x {length}: {error}")
            return
        row["points"] = sorted([*row["points"], [batch, length, float(f"{found.time_s:.6g}")]])
        write(self.file, [one for one in self.rows if one["points"]])
        print(
            f"{name} on {ranks} {target} ranks, {phase} {batch} x {length}: "
            f"{found.time_s * 1e6:.1f} us, in {time.perf_counter() - began:.0f} s",
            flush=True,
        )


def main():
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=PACKAGED, help="the file")
    asked = parser.parse_args()
    made = Made(asked.to)
    for shape in SHAPES:
        for name, target, ranks in MODELS:
            made.add(name, target, ranks, shape)
    return 0


if __name__ == "__main__":
    sys.exit(main())
