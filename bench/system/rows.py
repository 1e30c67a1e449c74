"""Published figures as rows of bench/system/run.py: ``python bench/system/rows.py``.

Writes bench/system/rows.json: what `trnsim plan` is asked, where its answer lies, and what was
published. What cannot be asked is in bench/system/unasked.json with its reason.
"""

from __future__ import annotations

import json
from pathlib import Path

import cases as published
from training import trainings

HERE = Path(__file__).parent
ARCHITECTURES = HERE.parent / "accuracy" / "models" / "architectures.json"
GPT = {"22B": (6144, 48, 64), "175B": (12288, 96, 96), "530B": (20480, 105, 128)}
GPT["1T"] = (25600, 128, 160)
"""Width, layers and heads of the GPTs of Korthikanti et al., table 3; 51,200 words."""
GPU_INSTANCES = {"B200": "p6-b200.48xlarge", "A100 80GB": "p4de.24xlarge"}
SD_TEXTS = ("text_encoder", "CLIPTextModel", "SD 2 text encoder")
SDXL_TEXTS = (
    ("text_encoder", "CLIPTextModel", "SDXL text encoder"),
    ("text_encoder_2", "CLIPTextModelWithProjection", "SDXL text encoder 2"),
)
T5_TEXTS = ("text_encoder", "T5EncoderModel", "T5 v1.1 XXL encoder")
PIPELINES = {
    "stable-diffusion-2.1": (SD_TEXTS, ("unet", "UNet2DConditionModel", "SD 2.1 UNet")),
    "sdxl-base": (*SDXL_TEXTS, ("unet", "UNet2DConditionModel", "SDXL UNet")),
    "pixart-256": (T5_TEXTS, ("transformer", "PixArtTransformer2DModel", "PixArt 256")),
    "pixart-512": (T5_TEXTS, ("transformer", "PixArtTransformer2DModel", "PixArt 512")),
}
"""Parts of pipelines: folder, class, and name in bench/accuracy/models/architectures.json."""
DECODER = ("vae", "AutoencoderKL", "SD VAE")
ASKED = {
    "Stable Diffusion 2.1": ("stable-diffusion-2.1", 50, 77),
    "Stable Diffusion XL Base": ("sdxl-base", 50, 77),
    "PixArt Alpha": ("pixart-{}", 20, 120),
    "PixArt Sigma": ("pixart-{}", 20, 300),
}
"""Pipeline, steps and tokens of a text: of diffusers' pipelines, as AWS's scripts take them."""
UNASKED = {
    "Stable Diffusion 2 Inpainting": "an image of 936 x 624 pixels: plans know squares",
    "Stable Diffusion XL Base & Refiner": "two pipelines, one after another: plans know one",
}
PLACED = {
    "trn1 era (2 ranks = 2 NC of one chip likely)": "trn1.32xlarge",
    "unstated (trn2 likely)": "trn2.48xlarge",
}
"""Instances assumed for collectives, whose pages state none: two cores of one Trn1 chip, and 32
logical cores of a Trn2."""


def config(name):
    """The path of a model's configuration, from the repository's root."""
    return "bench/system/configs/" + name.replace("/", "--").replace(" ", "-") + ".json"


def row(name, group, command, path, value, unit, source):
    """A row of bench/system/run.py."""
    return {
        "id": name,
        "group": group,
        "command": [str(word) for word in command],
        "path": path,
        "value": value,
        "unit": unit,
        "source": source,
    }


def served(case):
    """A row of a decoder."""
    one, shapes = case.row, case.row["shapes"]
    batch = shapes.get("Batch Size", shapes.get("bs"))
    given = shapes.get("Input Length", shapes.get("ctx"))
    longest = shapes.get("Sequence Length", shapes.get("seq"))
    made = shapes.get("Output Length", int(longest) - int(given))
    name = longer(one["kernel_or_model"], int(longest))
    command = ["plan", "serve", config(name), "--on", case.instance]
    command += ["--tensor-parallel-size", case.ranks, "--max-num-seqs", batch]
    command += ["--max-model-len", longest, "--input-len", given, "--output-len", made]
    command += ["--concurrency", batch]
    if "int8" in one["dtype"]:
        command += ["--quantization", "int8"]
    path = "ttft_p50_s" if case.family == published.PREFILL else "tpot_p50_s"
    return row(one["id"], case.family, command, path, one["value"], one["unit"], one["source"])


def longer(name, tokens):
    """The configuration of a model, with as many positions as its published run must have had."""
    file = HERE.parents[1] / config(name)
    found = json.loads(file.read_text(encoding="utf-8"))
    if found["max_position_embeddings"] >= tokens:
        return name
    made = f"{name}-{tokens}"
    _write(made, found | {"max_position_embeddings": tokens})
    return made


def inferred(case):
    """A row of an encoder or of images."""
    one, shapes = case.row, case.row["shapes"]
    pixels = shapes.get("Image Size", "").split("x")[-1]
    pipeline, steps, tokens = ASKED.get(one["kernel_or_model"], ("", 0, 0))
    path = f"bench/system/configs/{pipeline.format(pixels)}/model_index.json"
    path = path if pipeline else config(one["kernel_or_model"])
    command = ["plan", "infer", path, "--on", case.instance, "--batch", shapes["Batch Size"]]
    if pixels:
        command += ["--image", pixels]
        command += ["--steps", steps, "--sequence", tokens] if pipeline else []
    else:
        command += ["--sequence", shapes["Sequence Length"]]
    value = float(f"{case.published_s:.6g}")
    return row(one["id"], case.family, command, "latency_p50_s", value, "s", one["source"])


def trained(case):
    """A row of training, against the median over releases."""
    one, layout = case.row, case.layout()
    command = ["plan", "train", config(case.config), "--on", "trn1.32xlarge"]
    command += ["--instances", one["nodes"], "--tp", layout.tensor, "--pp", layout.pipeline]
    command += ["--dp", layout.data, "--zero", layout.zero, "--recompute", layout.recompute]
    command += ["--sp" if layout.is_sequence else "--no-sp", "--sequence", layout.sequence]
    command += ["--global-batch", layout.global_batch, "--micro-batch", layout.micro_batch]
    source = (
        f"median of {len(one['releases'])} releases, aws-neuron-sdk {', '.join(one['commits'])}"
    )
    path, unit = "sequences_per_s", "sequences/s"
    return row(case.id, "training", command, path, one["median"], unit, source)


def exchanged(one):
    """A row of a collective."""
    shapes, instance = one["shapes"], PLACED[one["hardware"]]
    command = ["plan", "collective", one["kernel_or_model"], "--on", instance, "--instances", 1]
    command += ["--ranks", shapes["ranks"], "--bytes", shapes["bytes"]]
    # 6 us are less than any host starts a program in: this table is taken to be inside one.
    path = "inside_s" if one["id"].startswith("nccom-allg32-new") else "time_s"
    return row(one["id"], "collectives", command, path, one["value"], one["unit"], one["source"])


def on_gpus(one):
    """Rows of a step on GPUs: its seconds, and its memory where that was measured."""
    layout, is_korthikanti = one["parallel"], one["gpu"].startswith("A100")
    name = (
        f"GPT-{one['model'].split()[1].rstrip(':')}" if is_korthikanti else "Llama-3-70B-12-layers"
    )
    batch = one.get("global_batch") or one["micro_batches"] * layout["dp"] * one["micro_batch"]
    instances = -(-one["gpus"] // 8)
    command = ["plan", "train", config(name), "--on", GPU_INSTANCES[one["gpu"]]]
    command += ["--instances", instances, "--tp", layout["tp"], "--pp", layout["pp"]]
    command += ["--dp", layout["dp"], "--zero", 1 if layout["dp"] > 1 else 0]
    command += ["--recompute", one.get("recompute", "none")]
    command += ["--sp" if layout.get("sequence_parallel", layout["tp"] > 1) else "--no-sp"]
    command += ["--sequence", one["sequence"], "--global-batch", batch]
    command += ["--micro-batch", one["micro_batch"]]
    group = f"{one['gpu'].split()[0]} steps"
    found = [row(one["id"], group, command, "step_s", one["step_s"], "s", one["source"])]
    if "peak_alloc_gib" in one:
        given = f"{one['id']}-memory", f"{one['gpu']} memory", command, "memory_bytes.max"
        found.append(row(*given, one["peak_alloc_gib"], "GiB", one["source"]))
    return found


def all_rows():
    """(rows, what is not asked and why)."""
    found, unasked = [], {}
    for case in published.cases():
        why = reason(case)
        if why:
            unasked[case.id] = why
        else:
            found.append((served if "TP" in case.family or "TF" in case.family else inferred)(case))
    for case in trainings():
        if case.why:
            unasked[f"{case.id}, {case.row['dtype']}"] = case.why
        else:
            found.append(trained(case))
    found += [exchanged(one) for one in read("collectives.json")]
    for one in read("gpus.json"):
        found += on_gpus(one)
    return found, unasked


def reason(case):
    """Why a row of inference is not asked; empty where it is."""
    name = case.row["kernel_or_model"]
    if case.family == published.CLIP:
        return published.TWO_COUNTS
    if case.family not in published.IMAGES:
        return case.why
    if name in ASKED or (HERE.parents[1] / config(name)).exists():
        return ""
    return UNASKED.get(name, "a model of torchvision, which has no config.json")


def read(name):
    """A file of this folder."""
    return json.loads((HERE / name).read_text(encoding="utf-8"))


def configurations():
    """Write configurations of models that have no card: the GPTs and the shortened Llama."""
    for name, (hidden, layers, heads) in GPT.items():
        sizes = {"n_embd": hidden, "n_layer": layers, "n_head": heads, "n_positions": 2048}
        made = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 51200}
        _write(f"GPT-{name}", made | sizes)
    known = json.loads(ARCHITECTURES.read_text(encoding="utf-8"))
    for name, parts in PIPELINES.items():
        index = {part: [_library(made), made] for part, made, _ in (*parts, DECODER)}
        _write(f"{name}/model_index", {"_class_name": "DiffusionPipeline", **index})
        for part, made, one in (*parts, DECODER):
            named = {"_class_name": made} if _library(made) == "diffusers" else {}
            _write(f"{name}/{part}/config", named | known[one]["config"])
    short = json.loads((HERE / "configs" / "Llama-3-70B.json").read_text(encoding="utf-8"))
    _write("Llama-3-70B-12-layers", short | {"num_hidden_layers": 12})


def _library(made):
    """The library that has a class."""
    return "diffusers" if made.endswith(("2DModel", "ConditionModel", "KL")) else "transformers"


def _write(name, made):
    file = HERE / "configs" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def main():
    """Write the rows."""
    configurations()
    found, unasked = all_rows()
    lines = ",\n".join(json.dumps(one) for one in found)
    (HERE / "rows.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    text = json.dumps(unasked, indent=1, sort_keys=True) + "\n"
    (HERE / "unasked.json").write_text(text, encoding="utf-8")
    print(f"{len(found)} rows, {len(unasked)} not asked")


if __name__ == "__main__":
    main()
