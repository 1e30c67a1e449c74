"""BERT-large by `torch_neuronx.trace` beside `trnsim compile`: CPU seconds, and their ratio.

usage: tracing.py [--rounds N]

Each is timed in a process of its own, in turn, with an empty cache, after the imports, the making
of the model and the same for a tiny model of other sizes. The figure is the ratio of the least
times, with the median of the ratios of each round beside it. Saving is no part of it. It needs the
environment of `make clients`.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import torch
import torch_neuronx
import transformers

from trnsim.cli import app

TARGET = 1.2
TOKENS = 128
LARGE, TINY = (1024, 24), (64, 1)
"""Width and layers."""
PROGRAM = "from __main__ import MODEL_AND_ARGS\n\nmodel, args = MODEL_AND_ARGS\n"
"""A file for `trnsim compile` whose model is made already."""
MODEL_AND_ARGS: tuple[object, ...] = ()


def bert(width: int, layers: int) -> tuple[object, tuple[torch.Tensor]]:
    """BERT of a width, with random weights, and a sequence."""
    config = transformers.BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        return_dict=False,
    )
    return transformers.BertModel(config).eval(), (torch.zeros(1, TOKENS, dtype=torch.int64),)


def trace() -> None:
    """Trace the model by `torch_neuronx`."""
    torch_neuronx.trace(*MODEL_AND_ARGS)


def compile_file() -> None:
    """Compile a file that names the model and its arguments, by the command."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bert.py")
        file.write_text(PROGRAM, encoding="utf-8")
        with redirect_stdout(io.StringIO()):
            app(["compile", str(file), "--on", "trn1"], standalone_mode=False)


WAYS = {"trace": trace, "compile": compile_file}


def seconds_here(way: str) -> float:
    """CPU seconds of a way in this process."""
    global MODEL_AND_ARGS  # noqa: PLW0603  the compiled file imports it
    large = bert(*LARGE)
    MODEL_AND_ARGS = bert(*TINY)
    WAYS[way]()
    MODEL_AND_ARGS = large
    start = time.process_time()
    WAYS[way]()
    return time.process_time() - start


def seconds_alone(way: str) -> float:
    """CPU seconds of a way in a process of its own with an empty cache."""
    command = [sys.executable, __file__, "--way", way]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRNSIM_CACHE": cache}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print the table, or what one way takes in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(seconds_here(options.way))
        return
    rounds = [{way: seconds_alone(way) for way in WAYS} for _ in range(options.rounds)]
    least = {way: min(seconds[way] for seconds in rounds) for way in WAYS}
    ratio = least["trace"] / least["compile"]
    median = statistics.median(seconds["trace"] / seconds["compile"] for seconds in rounds)
    verdict = "met" if ratio <= TARGET else "missed"
    print(f"BERT-large, 1 x {TOKENS} tokens, trn1; CPU seconds, least of {options.rounds}")
    for way, seconds in least.items():
        print(f"{way:<10}{seconds:6.2f}")
    print(f"ratio     {ratio:6.2f}  (median {median:.2f}; at most {TARGET}: {verdict})")


if __name__ == "__main__":
    main()
