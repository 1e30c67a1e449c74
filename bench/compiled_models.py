"""Models as one program: times beside published ones or the bound, and what compiling takes.

usage: compiled_models.py [WORD ...]
       compiled_models.py --cold N [--json FILE] [WORD ...]
       compiled_models.py --compare A.json B.json

Each line is a graph of `bench/accuracy/models/graphs.py`, compiled in a process of its own from an
empty cache: the estimate without its launch, the published time or the physical bound, the ratio,
seconds of the first compilation and of a second one that finds it on disk, and the process's peak
of memory. Words choose lines. It needs the environment of `make clients`.

With --cold the lines are whole models, and the figure is the CPU time of the first compilation, of
which the least of N counts. Each is in a process of its own with an empty cache, split off after
the model's graph was made, whose time is told apart; a loop of Python's own in that process says
how fast the machine was. PYTHONPATH=CHECKOUT/src compiles by another checkout's; a comparison has
the ratios of the second file to the first.

Source of published times: aws-neuron-sdk about-neuron/benchmarks/trn1.
"""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = HERE / "accuracy" / "models"

BERT = {"phase": "encode", "sequence": 128}
DECODE = {"phase": "decode", "batch": 1, "past": 2047, "layers": 1}
PREFILL = {"phase": "prefill", "batch": 1, "sequence": 2048, "layers": 1}
TRAIN = {"phase": "train", "batch": 1, "sequence": 2048, "loss": "LlamaForCausalLM"}

# (what, model, its shape, chip, published ms or 0 for the bound)
ROWS = (
    ("BERT-base, batch 1", "bert-base-uncased", BERT | {"batch": 1}, "trn1", 0.943),
    ("BERT-base, batch 16", "bert-base-uncased", BERT | {"batch": 16}, "trn1", 9.34),
    ("BERT-large, batch 1", "bert-large-uncased", BERT | {"batch": 1}, "trn1", 2.67),
    ("BERT-large, batch 4", "bert-large-uncased", BERT | {"batch": 4}, "trn1", 7.24),
    ("Llama-8B, layer, decode", "Llama-3-8B", DECODE, "trn2", 0),
    ("Llama-8B, layer, prefill", "Llama-3-8B", PREFILL, "trn2", 0),
    ("Llama-1B, training step", "Llama-3.2-1B", TRAIN, "trn2", 0),
    ("Llama-70B, layer, tp 32, prefill", "Llama-3-70B", PREFILL | {"ranks": 32}, "trn2", 0),
    (
        "Llama-70B, layer, tp 32, decode b8",
        "Llama-3-70B",
        DECODE | {"ranks": 32, "batch": 8},
        "trn2",
        0,
    ),
    ("Llama-8B, tp 32, 1 layer", "Llama-3-8B", DECODE | {"ranks": 32}, "trn2", 0),
    (
        "Llama-8B, tp 32, 100 layers",
        "Llama-3-8B",
        DECODE | {"ranks": 32, "layers": 100},
        "trn2",
        0,
    ),
)


WHOLE = {"ranks": 8, "layers": 0}
RANK = {"ranks": 32, "layers": 0, "batch": 8}
COLD = (
    ("BERT-large, encode", "bert-large-uncased", BERT | {"batch": 1}, "trn1"),
    ("Llama-8B, tp 8, decode", "Llama-3-8B", DECODE | WHOLE, "trn2"),
    ("Llama-8B, tp 8, prefill", "Llama-3-8B", PREFILL | WHOLE, "trn2"),
    ("Llama-70B, tp 32, decode b8", "Llama-3-70B", DECODE | RANK, "trn2"),
)
"""Whole models, whose compiling from nothing is timed."""
SPIN = 5_000_000
"""Turns of the loop that says how fast the machine is; some tenths of a second."""


def captured(name, shape):
    """A model's graph."""
    sys.path.insert(0, str(MODELS))
    from graphs import graph_of  # noqa: PLC0415  needs transformers, in a child alone

    return graph_of(name, **shape)


def compiled(name, shape, chip):
    """What one line takes; prints it as JSON."""
    from trnsim import compiler  # noqa: PLC0415  in a child alone, whose time it takes

    made = captured(name, shape)
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        found = compiler.compile(made.graph, chip, weights=made.weights)
        seconds.append(time.perf_counter() - started)
    print(
        json.dumps(
            {
                "estimate_ms": found.device_time_s * 1e3,
                "bound_ms": found.bound.seconds * 1e3,
                "binds": found.bound.binds,
                "cold_s": seconds[0],
                "warm_s": seconds[1],
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "said": list(found.notes) + sorted(set(made.missing)),
            }
        )
    )


def cold_turns(name, shape, chip, turns):
    """What one line of whole models takes, each turn in a process of its own; prints it as JSON."""
    started = cpu_s()
    made = captured(name, shape)
    found = {"graph_cpu_s": cpu_s() - started, "load": os.getloadavg(), "turns": []}
    context = multiprocessing.get_context("fork")
    for _ in range(turns):
        mine, theirs = context.Pipe()
        child = context.Process(target=cold_turn, args=(made, chip, theirs))
        child.start()
        theirs.close()
        found["turns"].append(mine.recv())
        child.join()
    print(json.dumps(found))


def cold_turn(made, chip, pipe):
    """Compile a graph from an empty cache; sends what it takes."""
    from trnsim import compiler  # noqa: PLC0415  in a child alone

    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRNSIM_CACHE"] = folder
        spins = [spin_s()]
        before = cpu_s()
        found = compiler.compile(made.graph, chip, weights=made.weights)
        took = cpu_s() - before
        spins.append(spin_s())
    pipe.send(
        {
            "cpu_s": took,
            "spin_s": sum(spins) / len(spins),
            "estimate_ms": found.device_time_s * 1e3,
            "instructions": found.instructions,
            "said": list(found.notes),
        }
    )


def cpu_s():
    """CPU time of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def spin_s():
    """CPU time of a loop of Python's own."""
    before = time.process_time()
    total = 0
    for number in range(SPIN):
        total += number & 3
    return time.process_time() - before


def in_child(*words):
    """What this program prints for a line, in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--row", *map(str, words)]
        own = os.environ | {"TRNSIM_CACHE": folder, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command, env=own, stdout=subprocess.PIPE, check=True)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])


def chosen(rows, words):
    """The lines with one of the words, or all where there are none, with their numbers."""
    return [
        (number, row)
        for number, row in enumerate(rows)
        if not words or any(word in row[0] for word in words)
    ]


def lines(words):
    """Print lines beside what is published or the bound."""
    head = f"{'graph':36}{'chip':>5}{'estimate ms':>13}{'beside ms':>11}{'':>11}{'ratio':>7}"
    print(f"{head}{'cold s':>8}{'warm s':>8}{'MiB':>7}")
    for number, (what, _, _, chip, published_ms) in chosen(ROWS, words):
        found = in_child(number)
        beside_ms = published_ms or found["bound_ms"]
        by = "published" if published_ms else found["binds"]
        print(
            f"{what:36}{chip:>5}{found['estimate_ms']:13.3f}{beside_ms:11.3f} {by:<10}"
            f"{found['estimate_ms'] / beside_ms:7.2f}{found['cold_s']:8.1f}{found['warm_s']:8.2f}"
            f"{found['peak_mib']:7.0f}  {'; '.join(found['said'])}",
            flush=True,
        )


def cold(words, turns, path):
    """Print the CPU time of compiling whole models from nothing."""
    print(f"{'graph':32}{'chip':>5}{'CPU s':>8}{'over spin':>11}{'graph s':>9}{'estimate ms':>13}")
    figures = {}
    for number, (what, _, _, chip) in chosen(COLD, words):
        found = in_child(number, turns)
        best = min(found["turns"], key=lambda one: one["cpu_s"])
        over = min(one["cpu_s"] / one["spin_s"] for one in found["turns"])
        figures[what] = {**best, "over_spin": over, **found}
        print(
            f"{what:32}{chip:>5}{best['cpu_s']:8.2f}{over:11.2f}{found['graph_cpu_s']:9.2f}"
            f"{best['estimate_ms']:13.3f}",
            flush=True,
        )
        if path:
            path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def compare(paths):
    """Print the ratios of the second file's figures to those of the first."""
    one, other = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    print(f"{'graph':32}{'CPU s':>8}{'CPU s':>8}{'ratio':>7}{'over spin':>11}{'estimate':>10}")
    for what in one:
        if what in other:
            mine, theirs = one[what], other[what]
            ratios = [theirs[f] / mine[f] for f in ("cpu_s", "over_spin", "estimate_ms")]
            print(
                f"{what:32}{mine['cpu_s']:8.2f}{theirs['cpu_s']:8.2f}"
                f"{ratios[0]:7.2f}{ratios[1]:11.2f}{ratios[2]:10.4f}"
            )


def main():
    """Lines beside what is published, or CPU seconds of whole models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of lines' names; default all")
    parser.add_argument("--row", nargs="+", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cold", type=int, default=0, metavar="N", help="compilations of a model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where their figures are put")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE", help="two such files")
    given = parser.parse_args()
    if given.row:
        number, *turns = given.row
        (compiled if not turns else cold_turns)(*(COLD if turns else ROWS)[number][1:4], *turns)
    elif given.compare:
        compare(given.compare)
    elif given.cold:
        cold(given.words, given.cold, given.json)
    else:
        lines(given.words)


if __name__ == "__main__":
    main()
