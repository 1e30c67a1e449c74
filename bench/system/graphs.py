"""What networks without a formula compute, as their fit needs it: ``make graphs``.

Their graphs are built by transformers and diffusers. For each published row it writes
bench/system/graphs.json: of each part read from a graph how often it runs and its blocks (how
many, FLOPs, bytes of weights, elements), and the seconds of the parts that have a formula.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

from trnsim.errors import EmulatorError
from trnsim.estimate.choice import layer_times
from trnsim.estimate.few import elements
from trnsim.estimate.fused import fused
from trnsim.place.machine import machine
from trnsim.system.infer.parts import Asked, inference
from trnsim.workload.captured import Captured, blocks_of

HERE = Path(__file__).parent
GROUP = "CNN and diffusion"
NUMBERS = ("batch", "image", "steps", "sequence")


def network(row):
    """What the command of a row computes."""
    path, *words = row["command"][2:]
    options = dict(zip(words[::2], words[1::2], strict=True))
    given = {one: int(options[f"--{one}"]) for one in NUMBERS if f"--{one}" in options}
    where = machine(options["--on"])
    found = inference(path, Asked(**given))
    guided = max(part.guided for part in found.parts)
    times = layer_times(where, "encode")
    graphs, formula_s = [], 0.0
    for part in found.parts:
        given = replace(part.given, batch=part.given.batch * math.ceil(part.guided / guided))
        made = blocks_of(part.model, given)
        if isinstance(part.model, Captured):
            graphs.append({"times": part.times, "blocks": [block(one) for one in made]})
        else:
            each_s = sum(one.times * times.of(one, given).time_s for one in made)
            formula_s += part.times * each_s
    return {"id": row["id"], "formula_s": formula_s, "graphs": graphs}


def block(one):
    """How many, FLOPs, bytes of weights, elements."""
    kept = fused(one)
    return [one.times, kept.flop, kept.weight_bytes, elements(kept)]


def main():
    """Write the file."""
    rows = json.loads((HERE / "rows.json").read_text(encoding="utf-8"))
    found = []
    for row in rows:
        if row["group"] != GROUP:
            continue
        try:
            found.append(network(row))
        except EmulatorError as error:
            print(f"{row['id']}: {str(error).splitlines()[0]}")
    lines = ",\n".join(json.dumps(one) for one in found)
    (HERE / "graphs.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(found)} rows")


if __name__ == "__main__":
    main()
