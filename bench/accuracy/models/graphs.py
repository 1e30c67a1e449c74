"""Graphs of published architectures as pickles, for programs without transformers.

Each is a dictionary: the graph, the numbers of its inputs that are weights, their names, and what
it is of. Run it with the environment of `make clients`:

    .venv-clients/bin/python bench/accuracy/models/graphs.py --model Llama-3-8B
        --layers 1 --phase decode --past 2047 --batch 1 --out graph.pkl
"""

import argparse
import json
import pickle
import sys
from pathlib import Path

FACTS = json.loads(Path(__file__).with_name("architectures.json").read_text(encoding="utf-8"))


def graph_of(name, *, layers=0, dtype="bfloat16", weights="", loss="", **sizes):
    """The graph of an architecture, or of a part of one.

    `layers` is how many of its layers, `loss` the class whose loss is trained; 0 and "" leave the
    architecture as it is. `sizes` are those of `ModelShape`, or of `parts.part`.
    """
    import parts  # noqa: PLC0415  rows are read where there is no PyTorch

    from trnsim.torch.models import ModelShape, model_graph, module_graph  # noqa: PLC0415  likewise
    from trnsim.torch.models.config import config_of  # noqa: PLC0415  likewise

    facts = FACTS[name]
    if "phase" not in sizes or "texts" in sizes:
        return module_graph(*parts.part(name, facts, dtype, sizes))
    values = dict(facts["config"])
    if layers:
        values[next(key for key in LAYERS if key in values)] = layers
    if loss:
        values["architectures"] = [loss]
    found = config_of(values, name)
    return model_graph(found, ModelShape(**sizes), dtype=dtype, weights=weights)


LAYERS = ("num_hidden_layers", "n_layers", "num_layers")


def asked():
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, choices=FACTS)
    parser.add_argument("--phase", default="encode")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--past", type=int, default=0)
    parser.add_argument("--tp", dest="ranks", type=int, default=1)
    parser.add_argument("--layers", type=int, default=0, help="fewer than the model has")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--weights", default="", help="int8")
    parser.add_argument("--out", type=Path, required=True)
    return vars(parser.parse_args())


def main():
    """Write one graph."""
    given = asked()
    out, name = given.pop("out"), given.pop("model")
    found = graph_of(name, **given)
    kept = {
        "graph": found.graph,
        "weights": found.weights,
        "names": found.names,
        "missing": found.missing,
        "model": name,
        **given,
    }
    out.write_bytes(pickle.dumps(kept))
    print(
        f"{out}: {len(found.graph.nodes)} operations, {len(found.weights)} weights", file=sys.stderr
    )


if __name__ == "__main__":
    main()
