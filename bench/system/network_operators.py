"""What networks without a formula compute, as their fit needs it.

Their graphs are built by transformers and diffusers. For each published row it writes
bench/system/graphs.json: of each part read from a graph how often it runs, its blocks (`block`) and
how many times as long as in BF16 a product takes; and the seconds of the parts that have a formula.
Rows that no command asks are read from the graphs of bench/accuracy/models.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import cases as published

from trnsim import arch
from trnsim.errors import EmulatorError
from trnsim.estimate.choice import layer_times
from trnsim.estimate.few import attention_flop, attentions, elements, unmasked_scores
from trnsim.estimate.fused import fuse_operators
from trnsim.place.machine import machine
from trnsim.system.infer.parts import InputSizes, inference
from trnsim.workload.captured import CapturedModel, summaries_of
from trnsim.workload.summary import captured_summaries

HERE = Path(__file__).parent
MODELS = HERE.parent / "accuracy" / "models"
sys.path.insert(0, str(MODELS))
import model_rows
from graphs import graph_of

NUMBERS = ("batch", "image", "steps", "sequence")


def network(row):
    """What the command of a row computes."""
    path, *words = row["command"][2:]
    options = dict(zip(words[::2], words[1::2], strict=True))
    given = {one: int(options[f"--{one}"]) for one in NUMBERS if f"--{one}" in options}
    where = machine(options["--on"])
    found = inference(path, InputSizes(**given))
    guided = max(part.guided for part in found.parts)
    times = layer_times(where, "encode")
    graphs, formula_s = [], 0.0
    for part in found.parts:
        given = replace(
            part.model_pass, batch=part.model_pass.batch * math.ceil(part.guided / guided)
        )
        made = summaries_of(part.model, given)
        if isinstance(part.model, CapturedModel):
            graphs.append({"times": part.times, "blocks": [block(one) for one in made]})
        else:
            each_s = sum(one.times * times.forward(one, given).time_s for one in made)
            formula_s += part.times * each_s
    return {"id": row["id"], "formula_s": formula_s, "graphs": graphs}


def block(one, share=1.0):
    """How many, FLOPs, a share of the bytes of weights, elements; then figures of its attention.

    These are its FLOPs, its unmasked scores, and how many attentions the block has.
    """
    kept = fuse_operators(one)
    general = [one.times, kept.flop, share * kept.weight_bytes, elements(kept)]
    return [*general, attention_flop(kept), unmasked_scores(kept), attentions(kept)]


def drawn(case):
    """What a row computes that no command asks, in the types of its published program.

    Weights are cast before the program runs, so that BF16 has half their bytes.
    """
    is_cast = case.cast != "none"
    slower = 1 if is_cast else arch.target(case.target).core.fp32_passes
    graphs = []
    for part in case.parts:
        made, is_float = graph_of(**part.spec), part.spec["dtype"] == "float32"
        share = 0.5 if is_cast and is_float else 1.0
        blocks = [block(one, share) for one in captured_summaries(made.graph, made.weights)]
        graphs.append({"times": part.times, "blocks": blocks, "slower": slower})
    return {"id": case.row["id"], "formula_s": 0.0, "graphs": graphs}


def main():
    """Write the file."""
    rows = json.loads((HERE / "rows.json").read_text(encoding="utf-8"))
    found = []
    for row in rows:
        if row["group"] not in published.IMAGES:
            continue
        try:
            found.append(network(row))
        except EmulatorError as error:
            print(f"{row['id']}: {str(error).splitlines()[0]}")
    met = {one["id"] for one in found}
    others = {one.id for one in published.cases() if one.family in published.IMAGES} - met
    found += [drawn(case) for case in model_rows.cases() if case.row["id"] in others]
    lines = ",\n".join(json.dumps(one) for one in found)
    (HERE / "graphs.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(found)} rows")


if __name__ == "__main__":
    main()
