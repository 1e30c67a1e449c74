"""Published times of whole models as passes: what a rank computes, and how often.

A case's estimate is the sum over blocks of layer times and exchanges; `architecture` says which
cases are left out together: all of one width and depth, or of one network that has neither.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from trnsim.errors import EmulatorError
from trnsim.place.links import Spread, exchange
from trnsim.workload.config import read
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

HERE = Path(__file__).parent
CONFIGS = HERE / "configs"
MODELS = HERE.parent / "accuracy" / "models" / "rows.json"
LEAST_BUCKET = 128
TEXTS, TEXT_TOKENS = 100, 9
"""Of CLIP's rows: hf-openai-clip_benchmark.py; the tokens are assumed."""
CORES = {"inf2.xlarge": 2, "inf2.8xlarge": 2}
DECODE, PREFILL, ENCODERS, CLIP, NETWORKS, DIFFUSION = (
    "TPOT",
    "TTFT",
    "encoders and ViT",
    "CLIP",
    "CNN and Perceiver",
    "diffusion",
)
IMAGES = (NETWORKS, DIFFUSION)
"""Families of models that are read from their graphs."""
TWO_COUNTS = f"{TEXTS} texts beside other numbers of images, which one batch cannot say"
TO_HOST = (
    "its 250,002 scores of each token, 128 MB a sequence, go to the host: a time of its link, "
    "which a plan of the device does not have"
)


@dataclass
class Case:
    """A published time.

    Attributes:
        row: the published row.
        family: `DECODE`, `PREFILL`, `ENCODERS`, `CLIP` or one of `IMAGES`.
        published_s: what one pass takes.
        target: the chip, "trn1".
        instance: where it ran.
        model: the architecture; None where it cannot be read.
        given: the pass.
        ranks: tensor ranks.
        why: why it is not answered.
        lnc: NeuronCores of a rank.
    """

    row: dict
    family: str
    published_s: float
    target: str
    instance: str
    model: object = None
    given: Pass | None = None
    ranks: int = 1
    why: str = ""
    lnc: int = 1

    @property
    def id(self):
        """The published row's."""
        return self.row["id"]

    @property
    def is_of_host(self):
        """Whether its time is that of the host's link, which no answer has."""
        return self.why == TO_HOST

    @property
    def architecture(self):
        """Width and depth: what is left out together."""
        if self.model is None:
            return self.row["kernel_or_model"]
        tower = self.model.decoder
        return f"{tower.hidden} x {tower.depth}"

    @cached_property
    def made(self):
        """Blocks of the pass; of CLIP, those of its texts are of more sequences than images."""
        if self.family != CLIP:
            return summaries(self.model, self.given, Split(self.ranks))
        images, texts = (replace(self.model, towers=(one,)) for one in self.model.towers)
        texts_pass = replace(self.given, batch=TEXTS)
        return (*summaries(images, self.given), *summaries(texts, texts_pass))

    @cached_property
    def exchanges_s(self):
        """All exchanges of the pass."""
        spread = Spread(self.ranks)
        return sum(
            block.times
            * one.times
            * exchange(self.instance, 1, one.kind, one.nbytes, spread).time_s
            for block in self.made
            for one in block.exchanges
        )

    def seconds(self, times):
        """The estimate with layer times."""
        return self.exchanges_s + sum(
            block.times * times.forward(block, self.given).time_s for block in self.made
        )


def bucket(tokens, most=1 << 30):
    """The next power of two from 128, at most the longest sequence."""
    found = max(LEAST_BUCKET, 1 << math.ceil(math.log2(tokens)))
    return min(found, max(most, tokens))


@cache
def architecture(name):
    """The architecture of a model, or why it cannot be read."""
    file = CONFIGS / (name.replace("/", "--").replace(" ", "-") + ".json")
    try:
        return read(file) if file.exists() else f"no configuration of {name}"
    except EmulatorError as error:
        return str(error).splitlines()[0].replace(f"{file}: ", "").replace(str(file), name)


def cases():
    """All published rows of whole models at inference."""
    rows = json.loads(MODELS.read_text(encoding="utf-8"))
    found = [_language(row) for row in rows if row["kind"] == "llm"]
    found += [_other(row) for row in rows if row["kind"] == "model"]
    return [one for one in found if one]


def _language(row):
    """A row of a decoder: the time to the first token, or between tokens."""
    metric, shapes = row["metric"], row["shapes"]
    if "hroughput" in metric or metric.startswith("e2e"):
        return None
    is_first = "TTFT" in metric or "context" in metric
    hardware = row["hardware"].lower().split()[0]
    target = hardware.split(".")[0]
    case = Case(row, PREFILL if is_first else DECODE, row["value"] / 1e3, target, hardware)
    if "dataset" in shapes or "+" in row["kernel_or_model"]:
        case.why = "a prompt's length, or what its drafts accept, is not stated"
        return case
    if "conc" in shapes:
        case.why = "weights of mixed bf16 and mxfp4, in shares that are not stated"
        return case
    found = architecture(row["kernel_or_model"])
    if isinstance(found, str):
        case.why = found
        return case
    case.model = replace(found, weight_bits=8) if "int8" in row["dtype"] else found
    case.ranks = int(shapes.get("TP Degree", shapes.get("TP", 1)))
    batch = int(shapes.get("Batch Size", shapes.get("bs", 1)))
    most = int(shapes.get("Sequence Length", shapes.get("seq", 0)))
    given = int(shapes.get("Input Length", shapes.get("ctx", 0)))
    made = int(shapes.get("Output Length", most - given))
    if is_first:
        case.given = Pass(Phase.PREFILL, batch, bucket(given) if given >= LEAST_BUCKET else given)
    else:
        case.given = Pass(Phase.DECODE, batch, 1, bucket(given + made // 2, most) - 1)
    return case


def _other(row):
    """A row of an encoder, or of images."""
    name, shapes = row["kernel_or_model"], row["shapes"]
    batch = int(shapes["Batch Size"])
    hardware = row["hardware"].lower()
    is_image = "Image Size" in shapes
    is_network = "_cnn" in row["id"] or "perceiver" in name
    family = (NETWORKS if is_network else DIFFUSION) if is_image else ENCODERS
    family = ENCODERS if name.startswith("google/vit-") else CLIP if "clip-" in name else family
    target = hardware.split(".")[0]
    case = Case(row, family, pass_s(row, batch), target, hardware)
    if name.startswith("xlm-"):
        case.why = TO_HOST
        return case
    found = architecture(name)
    if isinstance(found, str):
        case.why = found
        return case
    case.model = found
    tokens = found.decoder.tokens or TEXT_TOKENS if is_image else int(shapes["Sequence Length"])
    case.given = Pass(Phase.ENCODE, batch, tokens)
    return case


def pass_s(row, batch):
    """What one pass takes a core: the latency, or less where two requests wait for one another.

    NeuronPerf feeds a core by one worker or by two, whichever gives the higher throughput. With
    two, a latency is that of the pass and of the one before it (neuronperf_benchmark_guide.rst,
    workers_per_model).
    """
    latency_s = row["value"] / 1e3
    if "throughput" not in row:
        return latency_s
    return min(latency_s, CORES[row["hardware"].lower()] * batch / row["throughput"])


TRN2 = {
    "trn2-l33-70b-sd-ttft": (
        *("Llama-3-70B", 64, Pass(Phase.PREFILL, 1, 12288)),
        "10,000 tokens in the context bucket of 12,288; its draft's prompt left out",
    ),
    "trn2-l70b-apc-2": (
        *("Llama-3-70B", 64, Pass(Phase.PREFILL, 1, 2048)),
        "about 1,000 tokens in the bucket of 2,048, on as many ranks as the row above: assumed",
    ),
    "vllm-l31-8b": (
        *("Llama-3-8B", 8, Pass(Phase.DECODE, 2, 1, 639)),
        "all weights in bf16: the shares of bf16 and mxfp4 are not stated",
    ),
}
"""Rows of Trainium2: model, ranks, pass, and what is assumed."""


def extrapolated():
    """(case, what is assumed) of the rows of Trainium2 that can be priced at all."""
    rows = {row["id"]: row for row in json.loads(MODELS.read_text(encoding="utf-8"))}
    for name, (model, ranks, given, told) in TRN2.items():
        row, family = rows[name], DECODE if given.phase is Phase.DECODE else PREFILL
        place = ("trn2", "trn2.48xlarge", architecture(model), given, ranks)
        yield Case(row, family, row["value"] / 1e3, *place, lnc=2), told
