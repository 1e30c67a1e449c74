"""Graphs of published architectures, as `trnsim compile` makes them; as pickles, if asked for.

A pickle is a dictionary: the graph, the numbers of its inputs that are weights, their names, and
the arguments. A graph that only a framework can build needs the environment of `make clients`:

    .venv-clients/bin/python bench/accuracy/models/graphs.py --model Llama-3-8B
        --layers 1 --phase decode --past 2047 --batch 1 --out graph.pkl
"""

import argparse
import json
import pickle
import sys
import tempfile
from pathlib import Path

from trnsim.device import configured
from trnsim.workload.shape import ModelShape

FACTS = json.loads(Path(__file__).with_name("architectures.json").read_text(encoding="utf-8"))


def graph_of(name, *, layers=0, dtype="bfloat16", weights="", loss="", **sizes):
    """The graph of an architecture, or of a part of one.

    `layers` is how many of its layers, `loss` the class whose loss is trained; 0 and "" leave the
    architecture as it is. `sizes` are those of `ModelShape`, or of `parts.part`.
    """
    facts = FACTS[name]
    if "phase" not in sizes or "texts" in sizes:
        import parts  # noqa: PLC0415  needs PyTorch

        from trnsim.torch.models import module_graph  # noqa: PLC0415  likewise

        return module_graph(*parts.part(name, facts, dtype, sizes))
    values = dict(facts["config"])
    if layers:
        values[next(key for key in LAYERS if key in values)] = layers
    if loss:
        values["architectures"] = [loss]
    shape = ModelShape(**sizes)
    return (not weights and built(values, shape, dtype)) or captured(
        name, values, shape, dtype, weights
    )


def built(values, shape, dtype):
    """The graph that trnsim builds by itself; None if it needs a framework."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.json")
        path.write_text(json.dumps(values), encoding="utf-8")
        subject = configured.model_of_config(path, shape, dtype)
    return subject and subject.model_graph


def captured(name, values, shape, dtype, weights):
    """The graph of the model that transformers builds."""
    from trnsim.torch.models import model_graph  # noqa: PLC0415  needs PyTorch
    from trnsim.torch.models.config import config_of  # noqa: PLC0415  likewise

    return model_graph(config_of(values, name), shape, dtype=dtype, weights=weights)


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
