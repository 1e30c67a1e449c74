"""Published servers under load beside the planner's: ``python bench/system/serving_rows.py``.

It writes docs/generated/accuracy-serving.md. Rows are in serving.json, with their sources. A row is
one replica that serves clients, each of which sends its next request when the last has ended; all
requests of a row are equal. Users are as many clients as a row has; of the DeepSeek-V3 port, whose
rows have one client, the load is the compiled batch. What a row does not say is the default of its
server (`SERVERS`).

Every row is judged by constants that were fitted without the rows of its publication.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from trnsim.estimate.ported import FITTED, PortedConstants, PortedTimes
from trnsim.place.machine import machine
from trnsim.system.serve.figures import serve
from trnsim.system.serve.load import Lengths, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy
from trnsim.workload.config import read
from trnsim.workload.model_names import config_file

HERE = Path(__file__).parent
ROWS = json.loads((HERE / "serving.json").read_text())["rows"]
PORTED, TUNED = "as ported", "tuned"
MODELS = {
    "llama-4-scout": HERE / "configs" / "Llama-4-Scout.json",
    "deepseek-r1": "deepseek-v3",
    "qwen3-235b-a22b-fp8": "qwen3-235b-a22b",
}
"""Models that do not ship by that name. Scout: meta-llama/Llama-4-Scout-17B-16E, config.json,
text_config. DeepSeek-R1 has the sizes of DeepSeek-V3."""
GPU_TOKENS = 8192
"""Tokens of a step: default of TensorRT-LLM's max_num_tokens and of SGLang's --chunked-prefill-size
on GPUs of 80 GB and more."""
SERVERS = {
    "NIM 1.8.0": {"max_num_batched_tokens": GPU_TOKENS, "kv_dtype": "fp8"},
    "trtllm": {"max_num_batched_tokens": GPU_TOKENS, "kv_dtype": "fp8"},
    "sglang": {"max_num_batched_tokens": GPU_TOKENS, "is_chunked": False},
    "the port's own loop": {"host_s": 0.0},
    "vLLM with its Neuron plugin": {},
}
"""Settings of servers. Keys in FP8: of NVIDIA's FP8 checkpoints (TensorRT-LLM, Quantization);
assumed of rows that do not say. SGLang: prompts are not mixed with tokens (--enable-mixed-chunk is
off) and go first."""
SEQUENCES = 256
"""Sequences of rows that do not say, which is more than they have clients."""
WAVES = 10
"""Requests of each client."""
BATCH_ROWS = HOST_ROWS = "aws-neuron/neuronx-distributed-inference"
"""The publication whose load is the compiled batch; the host's time of ports is of its rows."""
GRID_S = np.arange(50e-6, 600e-6, 5e-6)
LIMITS = {"TPOT": 0.20, "TTFT": 0.35, "ratio": 0.25}


def publication(row):
    """The repository or the page of a row, which is left out as a whole."""
    return row["source"].partition("@")[0].partition(" (")[0]


def load_of(row):
    """What grows under load: users, or the batch of a port that was measured with one."""
    return row["max_num_seqs"] if publication(row) == BATCH_ROWS else row["concurrency"]


@cache
def model(name):
    """A row's model."""
    known = MODELS.get(name, name)
    return read(known if isinstance(known, Path) else config_file(known))


def deployment(row, constants=FITTED, host_s=None):
    """A row's server, of which a port has these constants, and a step of the host this time."""
    longest = row.get("max_model_len", row["input_tokens"] + row["output_tokens"])
    where = machine(row["instance"], lnc=row.get("lnc"))
    options = ServerOptions(
        tensor=row["tensor_parallel"],
        max_num_seqs=row.get("max_num_seqs", SEQUENCES),
        max_model_len=longest,
        replicas=1,
        quantization="" if where.is_neuron else row.get("quantization", ""),
        port=row["state"].replace(" ", "-"),
        **{"host_s": host_s} | SERVERS[row["server"]],
    )
    if not where.is_neuron:
        options = replace(options, port="tuned", host_s=None)
    made = deploy(model(row["model"]), where, options)
    times = made.steps.times
    if not isinstance(times, PortedTimes):
        return made
    steps = replace(made.steps, times=replace(times, constants=constants), _estimates={})
    return replace(made, steps=steps)


def figures(row, constants=FITTED, host_s=None):
    """Figures of a row's server under its load, as intervals."""
    made = deployment(row, constants, host_s)
    lengths = (Lengths("fixed", row[key]) for key in ("input_tokens", "output_tokens"))
    clients = row["concurrency"]
    load = Synthetic(*lengths, WAVES * clients, concurrency=clients)
    return serve(made, load.requests(made.engine.max_model_len)).figures


def unloaded_tpot_s(row, routed_s, host_s):
    """TPOT of one user of a port, with a fixed time of layers with experts."""
    made = deployment(row, replace(FITTED, routed_s=routed_s), host_s)
    engine = made.engine
    return made.steps.decode(engine.batch(1), engine.bucket(row["input_tokens"] + 1)).time_s


def host_without(left_out):
    """Seconds of a port's host in a step: None for the package's, 0 if its rows are left out."""
    return 0.0 if left_out == HOST_ROWS else None


def fit(rows, host_s=None):
    """Constants of ports, fitted to the TPOT of one user: least squares of logarithms."""
    known = [row for row in rows if row["state"] == PORTED and row["concurrency"] == 1]
    base_s = np.array([unloaded_tpot_s(row, 0.0, host_s) for row in known])
    layers = np.array([unloaded_tpot_s(row, 1.0, host_s) for row in known]) - base_s
    published_s = np.array([row["tpot_p50_s"] for row in known])
    misses = [
        float((np.log((base_s + layers * routed_s) / published_s) ** 2).sum())
        for routed_s in GRID_S
    ]
    return replace(FITTED, routed_s=float(GRID_S[int(np.argmin(misses))]))


@dataclass(frozen=True)
class Judged:
    """A row, and what constants say that saw no row of its publication.

    Attributes:
        row: the row.
        constants: these constants.
        figures: figures by name, as intervals.
    """

    row: dict
    constants: PortedConstants
    figures: dict

    def error(self, name):
        """(estimate - published) / published of ``tpot_p50_s`` or ``ttft_p50_s``; None without."""
        published_s = self.row.get(name)
        return None if published_s is None else self.figures[name].p50 / published_s - 1

    def is_inside(self, name):
        """True if the published figure lies between P10 and P90."""
        interval = self.figures[name]
        return interval.p10 <= self.row[name] <= interval.p90


def judge(rows=None):
    """All rows, each publication left out in turn of what is fitted."""
    rows = rows or ROWS
    judged = []
    for left_out in dict.fromkeys(map(publication, rows)):
        host_s = host_without(left_out)
        constants = fit([row for row in ROWS if publication(row) != left_out], host_s)
        judged += [
            Judged(row, constants, figures(row, constants, host_s))
            for row in rows
            if publication(row) == left_out
        ]
    return judged


@dataclass(frozen=True)
class Ratio:
    """TPOT under load over that without, of two rows of one server.

    Attributes:
        loaded: the row under load.
        unloaded: the row with the least load.
    """

    loaded: Judged
    unloaded: Judged

    @property
    def published(self):
        """As published."""
        return self.loaded.row["tpot_p50_s"] / self.unloaded.row["tpot_p50_s"]

    @property
    def estimated(self):
        """As estimated."""
        return self.loaded.figures["tpot_p50_s"].p50 / self.unloaded.figures["tpot_p50_s"].p50

    @property
    def error(self):
        """(estimated - published) / published."""
        return self.estimated / self.published - 1


def ratios(judged):
    """Of each server with several loads all but the least, over the least."""
    servers = {}
    for each in judged:
        row = each.row
        key = row["source"], row["server"], row["model"], row["instance"], row["input_tokens"]
        servers.setdefault(key, []).append(each)
    pairs = []
    for same in servers.values():
        same.sort(key=lambda each: load_of(each.row))
        pairs += [Ratio(each, same[0]) for each in same[1:]]
    return pairs


if __name__ == "__main__":
    import serving_page

    serving_page.write(judge(), fit(ROWS))
