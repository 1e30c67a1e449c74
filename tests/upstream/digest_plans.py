"""The part `plans` of the digest: figures of plans for a grid of models, shapes and platforms.

Each question is a command line (`trnsim plan ... --json`) and a row: its figures and its words by
their place in the answer, or its refusal. Configurations are those of published models whose
parameters are counted in tests, of rows of published times, of the examples, and quantized ones.
"""

import io
import json
import os
import re
import runpy
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLATFORMS = ("trn1", "inf2", "trn2", "trn3", "p5en")
FEW = ("trn1", "p5en")
"""The platforms of models that are asked little."""
DECODERS = (
    "examples/llama-3.1-8b",
    "published/Llama-2-70b",
    "published/Mistral-7B-v0.1",
    "published/gemma-2-9b",
    "published/falcon-40b",
    "published/gpt-neox-20b",
    "published/Mixtral-8x7B",
    "published/Qwen3-30B-A3B",
    "published/gpt-oss-20b",
    "published/DeepSeek-V2-Lite",
    "published/DeepSeek-V3",
    "published/llava-1.5-7b",
)
QUANTIZED = {
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128},
    "gptq": {"quant_method": "gptq", "bits": 8, "group_size": -1},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True},
}
"""The example's decoder with the weights of these configurations."""
ENCODERS = (
    "examples/bert-large",
    "published/roberta-base",
    "published/albert-base-v2",
    "published/electra-base-discriminator",
    "bench/T5-v1.1-XXL-encoder",
    "bench/SDXL-text-encoder-2",
)
PAIRS = (
    "published/t5-base",
    "published/flan-t5-xxl",
    "published/bart-large",
    "published/whisper-large-v3",
)
"""Encoders with decoders."""
IMAGES = (
    "published/vit-base-patch16-224",
    "published/dinov2-base",
    "published/clip-vit-base-patch32",
    "published/clip-vit-large-patch14",
    "published/siglip-base-patch16-224",
)
CAPTURED = (
    "bench/resnet50.json",
    "bench/deepmind--vision-perceiver-conv.json",
    "bench/stable-diffusion-2.1",
)
"""Models without a formula, which are built and read; that needs transformers and diffusers."""
BUILT = ("resnet", "perceiver")
"""The types of those with one config.json; one of each is asked."""
INSTANCES = {"trn1": 8, "inf2": 1, "trn2": 8, "trn3": 1, "p5en": 8}
"""As many as a step of training has."""
LAYOUTS = (
    "--tp 8 --pp 1 --zero 1 --recompute none",
    "--tp 8 --pp 1 --zero 3 --recompute full",
    "--tp 4 --pp 4 --vp 2 --zero 1 --recompute selective",
    "--tp 8 --pp 2 --no-sp --zero 1 --recompute full --schedule zb-h1",
    "--tp 8 --pp 1 --cp 4 --zero 2 --recompute full",
    "--tp 4 --pp 2 --zero 1 --recompute full --dtype fp8 --optimizer adamw-bf16",
)
EXPERT_LAYOUTS = (
    "--tp 4 --pp 1 --ep 8 --zero 1 --recompute full",
    "--tp 8 --pp 1 --ep 2 --zero 3 --recompute selective",
)
EXPERTS = ("Mixtral", "Qwen3-30B", "gpt-oss", "DeepSeek")
STEP = "--sequence 4096 --global-batch 1152 --micro-batch 1"
SMALL_STEP = "--global-batch 1152 --micro-batch 1 --pp 1 --cp 1 --ep 1 --zero 1 --recompute none"
SMALL_SERVER = "--max-num-seqs 8 --max-model-len 384 --input-len 256 --output-len 64"
SERVERS = (
    "--tensor-parallel-size 8 --max-num-seqs 16",
    "--tensor-parallel-size 8 --max-num-seqs 1 --input-len 512 --output-len 64 --num-prompts 8",
    "--tensor-parallel-size 8 --max-num-seqs 32 --kv-cache-dtype fp8 --quantization fp8",
    "--tensor-parallel-size 4 --max-num-seqs 4 --request-rate 2 --num-prompts 16",
    "--instances 4 --tensor-parallel-size 8 --pipeline-parallel-size 2 --max-num-seqs 8",
)
SEARCHED = (
    *(f"serve examples/llama-3.1-8b.json --on {on}" for on in PLATFORMS),
    *(f"serve published/{m}.json --on trn2" for m in ("Mixtral-8x7B", "DeepSeek-V2-Lite")),
    "serve examples/llama-3.1-8b.json --on trn2 --slo-ttft 1 --slo-tpot 0.03",
    "serve examples/llama-3.1-8b.json --on trn2 --num-speculative-tokens 3",
    *(f"train examples/llama-3.1-8b.json --on {on} --instances 4 --tokens 1e10" for on in FEW),
    "train published/Mixtral-8x7B.json --on trn2 --instances 8 --tokens 1e10 --budget 12",
    "train examples/bert-large.json --on trn1 --instances 1 --sequence 128",
)
"""Questions that a search answers."""
OTHERS = ("assess examples/inventory.csv", "assess examples/two-workloads.csv")


def published():
    """Configurations of published models whose parameters a test counts, by name."""
    sys.path.insert(0, str(ROOT / "tests" / "workload"))
    return {name: config for name, (config, _) in import_module("published_models").COUNTS.items()}


def lay_out(folder):
    """Put the configurations into a folder, so that questions name them without this checkout."""
    shutil.copytree(ROOT / "bench" / "system" / "configs", folder / "bench")
    shutil.copytree(ROOT / "examples", folder / "examples")
    llama = json.loads((folder / "examples" / "llama-3.1-8b.json").read_text(encoding="utf-8"))
    made = {f"published/{name}": config for name, config in published().items()}
    for name, how in QUANTIZED.items():
        made[f"quantized/{name}"] = {**llama, "quantization_config": how}
    for name, config in made.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(config), encoding="utf-8")


def questions() -> Iterator[str]:
    """Every command line, without `trnsim` and `--json`."""
    quantized = tuple(f"quantized/{name}" for name in QUANTIZED)
    for model in (*DECODERS, *quantized):
        yield from _of_decoder(f"{model}.json", is_sparse=any(one in model for one in EXPERTS))
    for model in (*ENCODERS, *IMAGES):
        yield from _of_encoder(f"{model}.json", has_text=model in ENCODERS)
    for model in PAIRS:
        yield from _of_another(f"{model}.json", PLATFORMS)
    yield from (f"plan infer {model} --on trn1" for model in CAPTURED)
    asked = {*DECODERS, *ENCODERS, *PAIRS, *IMAGES, *(one.partition(".")[0] for one in CAPTURED)}
    for model in (*benched(), *(f"published/{name}" for name in published())):
        if model not in asked:
            yield from _of_another(f"{model}.json", FEW)
    yield from (f"plan {asked}" for asked in SEARCHED)
    yield from OTHERS


def benched():
    """Configurations of rows of published times that name an architecture of transformers."""
    files = sorted((ROOT / "bench" / "system" / "configs").glob("*.json"))
    return [
        f"bench/{file.stem}"
        for file in files
        if json.loads(file.read_text(encoding="utf-8")).get("model_type") not in (None, *BUILT)
    ]


def _of_decoder(model, *, is_sparse):
    """A layer of it, its servers, its training steps and what holds it."""
    layouts = (*LAYOUTS, *EXPERT_LAYOUTS) if is_sparse else LAYOUTS
    for on in PLATFORMS:
        for phase, batch, ranks in product(("prefill", "decode"), (1, 32), (1, 8)):
            yield (
                f"plan layer {model} --on {on} --phase {phase} --batch {batch} "
                f"--tensor-parallel-size {ranks}"
            )
        yield from (f"plan serve {model} --on {on} {server}" for server in SERVERS)
        step = f"--instances {INSTANCES[on]} {STEP}"
        yield from (f"plan train {model} --on {on} {step} {layout}" for layout in layouts)
    yield f"instances --for {model} --tokens 4096 --sequences 8"


def _of_encoder(model, *, has_text):
    """Its passes, a layer of them, its training steps and what holds it."""
    for on in PLATFORMS:
        shapes = ["--batch 1", "--batch 32", "--batch 1 --cores 1"]
        shapes += ["--batch 8 --sequence 64"] if has_text else []
        shapes += ["--batch 32 --dtype fp32"] if on != "p5en" else []  # it has no peak in fp32
        yield from (f"plan infer {model} --on {on} {shape}" for shape in shapes)
        for batch, ranks in product((1, 32), (1, 4)):
            yield (
                f"plan layer {model} --on {on} --phase encode --batch {batch} --sequence 64 "
                f"--tensor-parallel-size {ranks}"
            )
        text = "--sequence 64" if has_text else ""
        step = f"--instances {INSTANCES[on]} {SMALL_STEP} {text}"
        yield from (f"plan train {model} --on {on} --tp {ranks} {step}" for ranks in (2, 4))
    yield f"instances --for {model} --sequences 8"


def _of_another(model, platforms):
    """Enough to see what every family reads: times, bytes and FLOP."""
    for on in platforms:
        yield f"plan infer {model} --on {on}"
        for phase in ("encode", "prefill", "decode"):
            yield f"plan layer {model} --on {on} --phase {phase} --sequence 256 --batch 8"
        yield f"plan serve {model} --on {on} --instances 1 {SMALL_SERVER} --tensor-parallel-size 4"
        step = f"--instances {INSTANCES[on]} {SMALL_STEP} --sequence 256"
        yield f"plan train {model} --on {on} --tp 4 {step}"
    yield f"instances --for {model} --tokens 256"


def answer(question):
    """What a command line answers, as JSON, and what it says where it ends otherwise."""
    sys.argv = ["trnsim", *shlex.split(question), "--json"]
    out, complaint = io.StringIO(), io.StringIO()
    sys.modules.pop("trnsim.__main__", None)  # runpy warns of a module that is there
    try:
        with redirect_stdout(out), redirect_stderr(complaint):
            runpy.run_module("trnsim", run_name="__main__")
    except SystemExit as end:
        if end.code:
            return None, complaint.getvalue().strip() or f"exit status {end.code}"
    except Exception as error:  # noqa: BLE001  a fault is a row
        return None, f"{type(error).__name__}: {error}"
    return json.loads(out.getvalue()), ""


def leaves(value, place=""):
    """(place, number or text) of each end of nested values; parts with a name are placed by it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            name = inner.get("name", number) if isinstance(inner, dict) else number
            yield from leaves(inner, f"{place}[{name}]")
    elif value is not None:
        yield place, value


_AGE = re.compile(r" \(warning: \d+ days old\)")


def row(found, error, clean=str):
    """The figures and words of an answer, or its refusal."""
    if error:
        return {"error": clean(error)}
    if isinstance(found, list) and len(found) == 1:
        (found,) = found
    ends = dict(leaves(found))
    words = {place: clean(_AGE.sub("", end)) for place, end in ends.items() if isinstance(end, str)}
    return {
        "figures": {place: end for place, end in ends.items() if not isinstance(end, str)},
        "words": words,
    }


def run(notes):
    """A row for each question."""
    notes.is_estimating = True
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as scratch:
        lay_out(Path(scratch))
        os.chdir(scratch)
        for question in questions():
            notes.begin(question)
            notes.write("answer", **row(*answer(question), notes.clean))
        os.chdir(before)
