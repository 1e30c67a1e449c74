"""The published figures of whole models: what each row is the time of, as graphs and how often.

rows.json has every row of kinds model, llm and training of the calibration data. What the rows do
not say is taken from AWS's own scripts (aws-neuron-sdk archive/src/benchmark/pytorch) and named in
`says`; what they do not say either is assumed, and named so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from graphs import FACTS

ROWS = Path(__file__).with_name("rows.json")
ENCODERS, VISION, DECODE, PREFILL, TRAINING = (
    "encoders",
    "CNN, vision and diffusion",
    "decode",
    "prefill",
    "training",
)
CLASSES = (ENCODERS, VISION, DECODE, PREFILL, TRAINING)
TOKENS = "tokens per second"
"""Rows that follow from a decode and a prefill row: printed, not counted a second time."""
SEVERAL = "training on several instances"
LEAST_BUCKET = 128
CORES = {"inf2.xlarge": 2}
"""NeuronCores of the instances whose rows have a throughput."""
STEPS, STEPS_DIT = 50, 20
"""Steps of diffusers' pipelines where a script names none: Stable Diffusion's, PixArt's."""


@dataclass(frozen=True)
class Part:
    """A graph that a row's time contains.

    Attributes:
        times: how often it runs, one after another.
        spec: the arguments of `graphs.graph_of`.
        is_apart: whether it is a program of its own, started by the host.
    """

    times: float
    spec: dict

    @property
    def words(self):
        """What it is."""
        rest = [f"{k} {v}" for k, v in self.spec.items() if k not in ("name", "dtype") and v]
        return f"{self.times:g} x {self.spec['name']} ({', '.join(rest)})"


@dataclass
class Case:
    """A row, and how its time is made up.

    Attributes:
        row: the row.
        kind: its class.
        target: the chip.
        published_s: seconds.
        parts: its graphs.
        ranks: cores that compute together.
        lnc: physical cores of a logical one.
        cast: --auto-cast.
        grown: parameters that a training step updates, of one rank.
        replicas: ranks with the same parameters, whose gradients are added up.
        says: what the row leaves open, and where the answer comes from.
        left_out: why it is not run; "" where it is.
    """

    row: dict
    kind: str
    target: str
    published_s: float
    parts: tuple = ()
    ranks: int = 1
    lnc: int = 1
    cast: str = "none"
    replicas: int = 1
    accumulations: int = 1
    says: str = ""
    left_out: str = ""
    of: tuple = field(default=())

    @property
    def model(self):
        """What is left out together: models of one width and depth."""
        facts = FACTS.get(self.row["kernel_or_model"].split(" pre-")[0], {}).get("config", {})
        sizes = tuple(facts.get(k) for k in ("hidden_size", "num_hidden_layers"))
        return " x ".join(map(str, sizes)) if all(sizes) else self.row["kernel_or_model"]


@cache
def rows():
    """All rows, in the order of the file."""
    return json.loads(ROWS.read_text(encoding="utf-8"))


def cases():
    """Every row as a case."""
    return [MAKERS[row["kind"]](row) for row in rows()]


def target_of(row):
    """The chip of an instance."""
    name = row["hardware"].lower().split(" x ")[-1]
    return next(chip for chip in ("inf2", "trn1", "trn2") if name.startswith(chip))


def bucket(tokens, most):
    """The length that is compiled for: a power of two from 128, or the longest.

    Source: aws-neuron-sdk transformers-neuronx-developer-guide.rst, Bucketing.
    """
    size = LEAST_BUCKET
    while size < tokens:
        size *= 2
    return min(size, most) if most >= tokens else size


def of_model(row):
    """Inference of one model on each core."""
    name, shapes = row["kernel_or_model"], row["shapes"]
    batch = int(shapes["Batch Size"])
    is_text = "Sequence Length" in shapes
    case = Case(row, ENCODERS if is_text else VISION, target_of(row), pass_s(row, batch))
    case.cast = "none" if row["dtype"] == "None" else "matmult"
    if is_text:
        case.parts = (encoded(name, batch, int(shapes["Sequence Length"])),)
        if FACTS[name]["config"]["architectures"][0].endswith("ForMaskedLM"):
            case.says = (
                "with its vocabulary's scores: 128 MB a sequence go to the host, at the published "
                "throughput 6 GB/s; that is no time of the device"
            )
        return case
    maker = PIPELINES.get(name)
    if maker is None:
        case.parts = (plain(name, batch),)
    else:
        case.parts, case.says = maker(row, batch)
    return case


def pass_s(row, batch):
    """What one pass takes a core: the latency, or less where requests wait for one another.

    NeuronPerf feeds a core by one worker or by two, whichever gives the higher throughput. With
    two, a latency is that of the pass and of the one before it (neuronperf_benchmark_guide.rst,
    workers_per_model).
    """
    latency_s = row["value"] / 1e3
    if "throughput" not in row:
        return latency_s
    return min(latency_s, CORES[row["hardware"].lower()] * batch / row["throughput"])


def encoded(name, batch, sequence, **more):
    """One pass of an encoder."""
    shape = {"phase": "encode", "batch": batch, "sequence": sequence}
    return Part(1, {"name": name, **shape, "dtype": "float32", **more})


def plain(name, batch):
    """One pass of a network of images."""
    if "config" not in FACTS[name]:
        return Part(1, {"name": name, "batch": batch, "dtype": "float32"})
    return Part(1, {"name": name, "phase": "encode", "batch": batch, "dtype": "float32"})


def clip(row, batch):
    """Images beside the 100 names of a data set."""
    spec = {"name": row["kernel_or_model"], "phase": "encode", "batch": batch, "dtype": "float32"}
    spec |= {"sequence": 9, "texts": 100}
    says = "100 texts of 9 tokens (hf-openai-clip_benchmark.py; their length assumed)"
    return (Part(1, spec),), says


def latents(name, size, tokens, dtype="float32", scale=8):
    """One step of a denoiser, on one of two cores: each has one half of the guidance."""
    high, wide = size[1] // scale, size[0] // scale
    spec = {"name": name, "batch": 1, "height": high, "width": wide, "tokens": tokens}
    return spec | {"dtype": dtype}


def decoded(size, dtype="float32"):
    """Latents to an image."""
    return Part(1, latents("SD VAE", size, 0, dtype) | {"way": "decode"})


def size_of(row):
    """Width and height."""
    return tuple(map(int, row["shapes"]["Image Size"].split("x")))


def texted(name, times=2, tokens=77, dtype="float32"):
    """Prompts, one after another: what is wanted and what is not."""
    spec = {"name": name, "phase": "encode", "batch": 1, "sequence": tokens, "dtype": dtype}
    return Part(times, spec)


def stable_diffusion(row, batch):
    """Stable Diffusion 2.1."""
    del batch
    size = size_of(row)
    step = latents("SD 2.1 UNet", size, 77)
    says = f"{STEPS} steps (sd2_768_benchmark.py: the pipeline's own), a half of each step a core"
    return (texted("SD 2 text encoder"), Part(STEPS, step), decoded(size)), says


def inpainting(row, batch):
    """The same of an image and a mask, which are encoded first."""
    del batch
    size = size_of(row)
    step = latents("SD 2 inpainting UNet", size, 77, "bfloat16")
    first = Part(1, latents("SD VAE", size, 0) | {"way": "encode"})
    says = f"{STEPS} steps, bfloat16 (sd2_inpainting_inference.py)"
    return (texted("SD 2 text encoder"), first, Part(STEPS, step), decoded(size)), says


def xl(row, batch):
    """SDXL: two text encoders."""
    del batch
    size = size_of(row)
    steps, more = STEPS, ()
    says = f"{STEPS} steps (sdxl_base_1024_benchmark.py: the pipeline's own)"
    if "Refiner" in row["kernel_or_model"]:
        refined = latents("SDXL refiner UNet", size, 77)
        steps, more = 32, (texted("SDXL text encoder 2"), Part(8, refined))
        says = "40 steps, a fifth of them the refiner's (sdxl_base_and_refiner_1024_benchmark.py)"
    texts = (texted("SDXL text encoder"), texted("SDXL text encoder 2"))
    step = Part(steps, latents("SDXL UNet", size, 77))
    return (*texts, step, *more, decoded(size)), says


def pixart(row, batch):
    """PixArt: a transformer of latents, after T5."""
    del batch
    size = size_of(row)
    tokens = 300 if "Sigma" in row["kernel_or_model"] else 120
    step = latents(f"PixArt {size[0]}", size, tokens, "bfloat16")
    text = texted("T5 v1.1 XXL encoder", 2, tokens, "bfloat16")
    says = f"{STEPS_DIT} steps, bfloat16 (pixart_*_benchmark.py: the pipeline's own)"
    return (text, Part(STEPS_DIT, step), decoded(size, "bfloat16")), says


def multimodal(row, batch):
    """An encoder, then a decoder for each of 128 pieces of a video."""
    del row, batch
    name = "deepmind/multimodal-perceiver"
    parts = tuple(
        Part(times, {"name": name, "batch": 1, "way": way, "dtype": "float32"})
        for times, way in ((1, "encode"), (128, "decode"))
    )
    return parts, "an encoder and 128 decoders (perceiver-multimodal_benchmark.py)"


PIPELINES = {
    "openai/clip-vit-base-patch32": clip,
    "openai/clip-vit-large-patch14": clip,
    "Stable Diffusion 2.1": stable_diffusion,
    "Stable Diffusion 2 Inpainting": inpainting,
    "Stable Diffusion XL Base": xl,
    "Stable Diffusion XL Base & Refiner": xl,
    "PixArt Alpha": pixart,
    "PixArt Sigma": pixart,
    "deepmind/multimodal-perceiver": multimodal,
}

NOT_RUN = {
    "trn2-l33-70b-sd-tpot": "speculative: the number of accepted tokens is not published",
    "vllm-l31-8b-eagle": "speculative: the draft model's sizes are not published",
    "nkipy-gptoss-base-reference-MoE": "a program written for the example, not a compiler's",
    **{
        f"trn2-l70b-apc-{n}": "the mean over a served data set: lengths are not published"
        for n in range(8)
    },
}


def of_llm(row):
    """Tokens of a decoder."""
    metric, shapes = row["metric"], row["shapes"]
    case = Case(
        row, DECODE, target_of(row), 0.0, ranks=int(shapes.get("TP Degree", shapes.get("TP", 1)))
    )
    case.left_out = NOT_RUN.get(row["id"], "")
    if case.left_out:
        case.kind = PREFILL if "TTFT" in metric else DECODE
        case.published_s = row["value"] / 1e3 if row["unit"] == "ms" else 1 / row["value"]
        return case
    name, batch, given, made, most = lengths(row)
    case.lnc = 2 if case.target == "trn2" else 1
    shared = {"name": name, "batch": batch, "ranks": case.ranks, "is_padded": True}
    if "int8" in row["dtype"]:
        shared["weights"] = "int8"
    keys = bucket(given + made // 2, most)
    step = Part(1, {**shared, "phase": "decode", "past": keys - 1})
    length = (
        bucket(given, 1 << 30) if case.target != "trn2" else next(n for n in CONTEXTS if n >= given)
    )
    length = given if given < LEAST_BUCKET else length
    prompt = Part(1, {**shared, "phase": "prefill", "sequence": length})
    case.published_s = row["value"] / 1e3
    if "TTFT" in metric or "context" in metric:
        case.kind, case.parts = PREFILL, (prompt,)
        case.says = f"{length} tokens, the bucket of {given}"
    elif "TPOT" in metric or metric.startswith("token_generation"):
        case.parts, case.says = (step,), f"{keys} keys, the bucket of the median token"
    else:
        case.kind = TOKENS
        case.parts = (prompt, Part(made - 1, step.spec))
        if row["unit"] == "tok/s":
            case.published_s = batch * made / row["value"]
        case.says = "a prompt and its tokens, one after another"
    return case


CONTEXTS = (512, 2048, 4096, 8192, 12288)
"""Of trn2-llama3.3-70b-tutorial.rst, and 512 for the shorter prompts of other rows."""


def lengths(row):
    """Architecture, batch, tokens given and made, and the longest sequence."""
    shapes = row["shapes"]
    if "Batch Size" in shapes:
        given, made = int(shapes["Input Length"]), int(shapes["Output Length"])
        batch = int(shapes["Batch Size"])
        return row["kernel_or_model"], batch, given, made, int(shapes["Sequence Length"])
    if "seq" in shapes:  # a program of one length: prompts of 32 tokens, 64 in all
        given, most = shapes["ctx"], shapes["seq"]
        return "Llama-3.2-1B", shapes["bs"], given, most - given, most
    name = "Llama-3-70B" if "70B" in row["kernel_or_model"] else "Llama-3-8B"
    batch = shapes.get("bs", shapes.get("conc", 1))
    return name, batch, shapes["in"], shapes.get("out", 1), 12800 if "70B" in name else 4096


TRAINED = {
    "HuggingFace BERT-Large Ph1": ("bert-large-uncased", "BertForPreTraining", 128),
    "HuggingFace BERT-Large Ph2": ("bert-large-uncased", "BertForPreTraining", 512),
    "HuggingFace ViT-Base": ("google/vit-base-patch16-224", "", 0),
    "HuggingFace CLIP-Base": ("openai/clip-vit-base-patch32", "", 77),
    "HuggingFace Vision-Perveriver-Conv": ("deepmind/vision-perceiver-conv", "", 0),
    "Llama-3.1-8B": ("Llama-3-8B", "", 8192),
    "Llama2-7B": ("Llama-2-7b", "", 4096),
    "Llama2-13B": ("Llama-2-13b", "", 4096),
    "GPT3-23B": ("GPT3-23B", "", 2048),
    "GPT3-46B": ("GPT3-46B", "", 2048),
}
"""What is trained: an architecture, the class with the loss, tokens of a sequence."""


def of_training(row):
    """One step of the optimizer: microbatches one after another, then the update."""
    shapes = row["shapes"]
    title = row["kernel_or_model"].rsplit(" ", 1)[0]
    name, loss, sequence = TRAINED[title]
    degrees = dict(part.split("=") for part in shapes["Topology"].split() if "=" in part)
    ranks, stages = int(degrees.get("TP", 1)), int(degrees.get("PP", 1))
    nodes = int(shapes["Nodes"])
    replicas = 32 * nodes // (ranks * stages)
    micro, whole = int(shapes["Microbatch"]), int(shapes["Globalbatch"])
    accumulations = max(round(whole / (micro * replicas)), 1)
    spec = {"name": name, "phase": "train", "batch": micro, "ranks": ranks, "loss": loss}
    spec |= {"sequence": sequence} if sequence else {}
    if stages > 1:
        spec["layers"] = -(-FACTS[name]["config"]["num_hidden_layers"] // stages)
    turns = accumulations + stages - 1
    case = Case(row, TRAINING if nodes == 1 else SEVERAL, "trn1", whole / row["value"])
    case.parts, case.ranks, case.replicas = (Part(turns, spec),), ranks, replicas
    case.accumulations = accumulations
    length = f", {sequence} tokens" if sequence else ""
    case.says = f"{turns} microbatches of {micro} a core{length}, without dropout"
    return case


MAKERS = {"model": of_model, "llm": of_llm, "training": of_training}
