"""Published steps of GPUs beside the planner's: ``python bench/system/gpu_rows.py [--folds]``.

A100: Korthikanti et al. (arXiv:2205.05198), table 5. DGX A100's eight HDR InfiniBand adapters have
four times p4de's EFA; stages are sent each tensor rank's part; interleaved by three where the paper
says so; attention is not one kernel. B200: SimuMax 1.2, whose runs overlap no collectives
(docs/b200/b200_real_repro_guide.md), so nothing that hides is taken off; ZeRO-1, flash attention,
sequences of 4096, no recomputation, a fused loss (``_cef``, docs/strategy.md).
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from trnsim.estimate.gpu import gpu_times
from trnsim.place.machine import machine
from trnsim.system.train import memory
from trnsim.system.train.layout import Layout
from trnsim.system.train.step import TrainingSteps
from trnsim.workload.config import from_config

ROWS = Path(__file__).parent / "gpus.json"
INTERLEAVED = {"175B": 3, "530B": 3}
ADAPTERS = 400 / 1600
"""Gbit/s of p4de.24xlarge's EFA, of DGX A100's InfiniBand."""
LLAMA = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "num_hidden_layers": 12,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
GRID = {"A100": np.arange(0.70, 0.84, 0.02), "B200": np.arange(0.42, 0.52, 0.01)}
FIXED_S = (20e-6, 30e-6, 40e-6, 50e-6)
BASE = {"A100": "a100-80", "B200": "b200"}


@dataclass(frozen=True)
class Sends:
    """Exchanges of p4de.24xlarge with sends of another network."""

    given: object
    share: float

    def time_s(self, kind, nbytes, spread):
        """Seconds of a collective."""
        time_s = self.given.time_s(kind, nbytes, spread)
        return time_s * self.share if kind == "send" else time_s


class Case:
    """A published step."""

    def __init__(self, row):
        self.row = row
        self.gpu = row["gpu"].split()[0]
        self.name = row["id"].split("-")[1] if self.gpu == "A100" else _sizes(row["id"])
        self.model, self.layout, self.machine = _made(json.dumps(row))
        self.memory = memory.stages(self.model, self.layout)

    @property
    def memory_gib(self):
        """Of the stage that needs the most."""
        return max(one.total for one in self.memory) / 2**30

    def step_s(self, **constants):
        """Seconds of a step with the constants of the package, or with others."""
        is_fused = self.gpu == "B200"
        times = replace(gpu_times(self.machine.chip, is_fused=is_fused), **constants)
        steps = TrainingSteps(self.model, self.machine, times)
        if not is_fused:
            each = 1 if self.layout.is_sequence else 1 / self.layout.tensor
            steps.exchanges = Sends(steps.exchanges, each * ADAPTERS)
        found = steps.timed(self.layout, tuple(self.memory))
        hidden_s = found.data_hidden_s if is_fused else 0.0
        return sum(found.parts_s.values()) + hidden_s

    def error(self, **constants):
        """``estimate / published - 1``."""
        return self.step_s(**constants) / self.row["step_s"] - 1


def _sizes(name):
    return re.search(r"tp\d+_pp\d+_dp\d+", name)[0]


@cache
def _made(text):
    row = json.loads(text)
    sizes = row["parallel"]
    if row["gpu"] == "B200":
        layout = Layout(
            tensor=sizes["tp"],
            pipeline=sizes["pp"],
            data=sizes["dp"],
            recompute="none",
            is_sequence=sizes["tp"] > 1,
            global_batch=row["micro_batches"] * sizes["dp"],
        )
        return from_config(LLAMA, "Llama-3-70B.json"), layout, machine("p6-b200.48xlarge")
    hidden, layers, heads = map(
        int, re.search(r"hidden (\d+), (\d+) layers, (\d+) heads", row["model"]).groups()
    )
    config = {"model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads}
    layout = Layout(
        tensor=sizes["tp"],
        pipeline=sizes["pp"],
        virtual=INTERLEAVED.get(row["id"].split("-")[1], 1),
        zero=0,
        recompute=row["recompute"],
        is_sequence=sizes["sequence_parallel"],
        micro_batch=row["micro_batch"],
        global_batch=row["global_batch"],
        sequence=row["sequence"],
    )
    model = from_config(config | {"n_positions": 2048, "vocab_size": 51200}, "GPT.json")
    return model, layout, machine("p4de.24xlarge", row["gpus"] // 8)


def told(name, errors):
    """The median and the largest error."""
    size = 100 * np.abs(errors)
    signed = 100 * np.median(errors)
    return (
        f"{name:28} median {np.median(size):5.1f} %, largest {size.max():5.1f} %, {signed:+.1f} %"
    )


def folds(cases):
    """Errors of each case by the constants that fit the cases of other names best."""
    tables = {
        (fixed_s, gpu, round(float(base), 3)): np.array(
            [one.error(base=float(base), eager_s=fixed_s) for one in cases if one.gpu == gpu]
        )
        for fixed_s in FIXED_S
        for gpu, bases in GRID.items()
        for base in bases
    }
    for gpu, bases in GRID.items():
        own = [one for one in cases if one.gpu == gpu]
        names = np.array([one.name for one in own])
        left = np.zeros(len(own))
        for name in dict.fromkeys(names):
            out, least = names == name, np.inf
            for fixed_s in FIXED_S:
                for base in bases:
                    found = np.log1p(tables[fixed_s, gpu, round(float(base), 3)])
                    lost = np.abs(found[~out]).mean()
                    if lost < least:
                        least, best = lost, (fixed_s, round(float(base), 3), found)
            left[out] = np.expm1(best[2][out])
            print(f"  without {name}: fixed {best[0] * 1e6:.0f} us, base {best[1]:.2f}")
        print(told(f"{gpu}, left out", left))


def main():
    """Every row, then errors by GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", action="store_true", help="also fit without each model")
    asked = parser.parse_args()
    cases = [Case(row) for row in json.loads(ROWS.read_text(encoding="utf-8"))]
    errors = np.array([one.error() for one in cases])
    for one, error in zip(cases, errors, strict=True):
        published = one.row.get("peak_alloc_gib")
        of_memory = f"{one.memory_gib:6.1f} of {published} GiB" if published else ""
        print(
            f"{one.row['id'][:52]:54} {one.row['step_s']:8.3f} s {100 * error:+6.1f} % {of_memory}"
        )
    for gpu in GRID:
        print(told(gpu, errors[[one.gpu == gpu for one in cases]]))
    known = [one for one in cases if "peak_alloc_gib" in one.row]
    print(
        told(
            "peak GiB", np.array([one.memory_gib / one.row["peak_alloc_gib"] - 1 for one in known])
        )
    )
    if asked.folds:
        folds(cases)


if __name__ == "__main__":
    main()
