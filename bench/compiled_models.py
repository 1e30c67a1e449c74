"""Models as one program: times beside published ones or the bound, and what compiling takes.

usage: compiled_models.py [WORD ...]

Each line is a graph of `bench/accuracy/models/graphs.py`, compiled in a process of its own from an
empty cache: the estimate without its launch, the published time or the physical bound, the ratio,
seconds of the first compilation and of a second one that finds it on disk, and the process's peak
of memory. Words choose lines. It needs the environment of `make clients`.

Source of published times: aws-neuron-sdk about-neuron/benchmarks/trn1.
"""

import json
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


def compiled(name, shape, chip):
    """What one line takes; prints it as JSON."""
    sys.path.insert(0, str(MODELS))
    from graphs import graph_of  # noqa: PLC0415  needs transformers, in a child alone

    from trnsim import compiler  # noqa: PLC0415  likewise

    made = graph_of(name, **shape)
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
                "said": list(found.said) + sorted(set(made.missing)),
            }
        )
    )


def main():
    """Every line, or those chosen."""
    words = sys.argv[1:]
    if words[:1] == ["--row"]:
        _, name, shape, chip, _ = ROWS[int(words[1])]
        compiled(name, shape, chip)
        return
    head = f"{'graph':36}{'chip':>5}{'estimate ms':>13}{'beside ms':>11}{'':>11}{'ratio':>7}"
    print(f"{head}{'cold s':>8}{'warm s':>8}{'MiB':>7}")
    for number, (what, _, _, chip, published_ms) in enumerate(ROWS):
        if words and not any(word in what for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, "--row", str(number)]
            own = os.environ | {"TRNSIM_CACHE": folder, "PYTHONWARNINGS": "ignore"}
            done = subprocess.run(command, env=own, stdout=subprocess.PIPE, check=True)  # noqa: S603
        found = json.loads(done.stdout.splitlines()[-1])
        beside_ms = published_ms or found["bound_ms"]
        by = "published" if published_ms else found["binds"]
        print(
            f"{what:36}{chip:>5}{found['estimate_ms']:13.3f}{beside_ms:11.3f} {by:<10}"
            f"{found['estimate_ms'] / beside_ms:7.2f}{found['cold_s']:8.1f}{found['warm_s']:8.2f}"
            f"{found['peak_mib']:7.0f}  {'; '.join(found['said'])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
