"""docs/generated/traced.md: 60 architectures of transformers, tiny, through torch_neuronx.trace.

Each is traced, compared with the CPU, saved, and traced once more with products cast to bfloat16,
which is compared with the CPU, and with the CPU when it casts the same operands. Then one new
process without transformers loads all files and computes the same.

What is known already is kept in build/traced.jsonl, so that a stopped run goes on where it stopped:
delete it to begin anew, or ask for some rows again (`--again fails bert`).
"""

import argparse
import io
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "clients"))

PAGE, KNOWN = ROOT / "docs" / "generated" / "traced.md", ROOT / "build" / "traced.jsonl"
FOLDER = ROOT / "build" / "traced"
EQUAL = 1e-5  # of the largest number: the host fuses attention as the CPU does, in its own order
CAST = 0.02
OPERANDS = {
    torch.ops.aten.addmm.default: (1, 2),
    torch.ops.aten.baddbmm.default: (1, 2),
    torch.ops.aten.bmm.default: (0, 1),
    torch.ops.aten.convolution.default: (0, 1),
    torch.ops.aten.mm.default: (0, 1),
}
"""The positions of the operands of each product."""
KINDS = (
    *("albert", "bart", "beit", "bert", "big_bird", "biogpt", "blenderbot", "blip", "bloom"),
    *("camembert", "canine", "clip", "codegen", "cohere", "convbert", "convnext", "convnextv2"),
    *(
        "deberta",
        "deberta-v2",
        "deit",
        "dinov2",
        "distilbert",
        "electra",
        "esm",
        "falcon",
        "flaubert",
    ),
    *("fnet", "focalnet", "gemma", "gemma2", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj"),
    *("granite", "ibert", "levit", "llama", "longt5", "m2m_100", "marian", "mistral", "mixtral"),
    *("mobilevit", "mpnet", "mpt", "olmo", "opt", "pegasus", "phi", "qwen2", "regnet", "resnet"),
    *("roberta", "segformer", "swin", "t5", "vit", "whisper", "xlm-roberta", "xlnet"),
)
NUMBER = 60


class CastOperands(TorchDispatchMode):
    """PyTorch's products on the CPU, of operands rounded to bfloat16, with sums in float32."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        args = list(args)
        for position in OPERANDS.get(operator, ()):
            args[position] = args[position].to(torch.bfloat16).to(args[position].dtype)
        return operator(*args, **(kwargs or {}))


def outcome(kind):
    """What became of an architecture, as a row of the page."""
    import tiny
    from each import line

    try:
        name, built = tiny.build(kind)
    except tiny.CannotBuild as error:
        return {"kind": kind, "end": "not built", "why": line(error)}
    row = {"kind": kind, "class": name}
    for part in built.model.modules():  # the configuration of an encoder is a copy
        if hasattr(part, "config"):
            part.config.use_cache = False
    try:
        return row | traced(kind, built)
    except Exception as error:  # noqa: BLE001  it stands on the page
        return row | {"end": "fails", "why": f"{type(error).__name__}: {line(error)}"}


def traced(kind, built):
    """The differences of a traced model's results from the CPU's; it is saved with both."""
    import torch_neuronx

    warnings.simplefilter("ignore")
    with torch.no_grad():
        expected = tensors(built.model(**built.inputs))
        with CastOperands():
            cast_on_cpu = tensors(built.model(**built.inputs))
    start = time.process_time()
    module = torch_neuronx.trace(built.model, built.inputs)
    seconds = time.process_time() - start
    results = tensors(module(**built.inputs))
    cast_module = torch_neuronx.trace(
        built.model, built.inputs, compiler_args="--auto-cast=matmult"
    )
    cast = tensors(cast_module(**built.inputs))
    row = {
        "seconds": round(seconds, 1),
        "difference": difference(results, expected),
        "cast": difference(cast, expected),
        "cast_on_cpu": difference(cast, cast_on_cpu),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.jit.save(module, FOLDER / f"{kind}.pt")
    torch.save({"inputs": built.inputs, "results": results}, FOLDER / f"{kind}.values")
    is_cast = row["cast"] <= CAST or row["cast_on_cpu"] <= EQUAL
    is_equal = row["difference"] <= EQUAL and is_cast
    return row | {"end": "equal" if is_equal else "differs"}


def tensors(value):
    """The tensors of a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list | tuple):
        return []
    return [tensor for part in parts for tensor in tensors(part)]


def difference(results, expected):
    """The largest difference, relative to the largest number of the tensor that it is in."""
    if [tensor.shape for tensor in results] != [tensor.shape for tensor in expected]:
        return float("inf")
    worst = 0.0
    for one, other in zip(results, expected, strict=True):
        if other.numel():
            scale = max(other.double().abs().max().item(), 1e-6)
            worst = max(worst, (one.double() - other.double()).abs().max().item() / scale)
    return worst


def load_all():
    """The loading process: each saved module's largest difference from what it gave before."""
    sys.modules["transformers"] = None
    torch.set_num_threads(1)
    for path in sorted(FOLDER.glob("*.pt")):
        stored = torch.load(path.with_suffix(".values"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = torch.jit.load(io.BytesIO(path.read_bytes()))
                found = difference(tensors(module(**stored["inputs"])), stored["results"])
        except Exception as error:  # noqa: BLE001  it stands on the page
            reason = " ".join(str(error).split()).rpartition("BadInput: ")[2]
            found = reason.partition(" fix: ")[0].partition(": ")[2][:120]  # without where
        print(json.dumps({"kind": path.stem, "loaded": found}), flush=True)


def page(rows):
    """The page of all rows."""
    equal = [row for row in rows if row["end"] == "equal"]
    loaded = [row for row in equal if row.get("loaded") == 0]
    within = [row for row in equal if row["cast"] <= CAST]
    lines = [
        "# Traced models",
        "",
        f"{len(rows)} tiny models of transformers through `torch_neuronx.trace`, with random",
        "weights (`tests/xla/neuronx/architectures.py` writes this page). Of these,",
        f"{len(equal)} compute what the CPU computes within {EQUAL:g} of the largest number.",
        f"With `--auto-cast=matmult` {len(within)} are within {CAST:.0%} of it; any other is",
        f"within {EQUAL:g} of the CPU whose products have the same operands in bfloat16 (*from",
        f"the CPU's cast*). {len(loaded)} of them, saved and loaded in a process without",
        "transformers, compute the very same.",
        "",
        "| architecture | class | difference | bfloat16 | from the CPU's cast | loaded | CPU s | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(cells, rows), ""])


def cells(row):
    """The line of a row."""
    why = row.get("why", "") or ("" if row["end"] == "equal" else row["end"])
    found = row.get("loaded", "")
    said = "equal" if found == 0 else f"{found:.0e}" if isinstance(found, float) else found
    differences = ("difference", "cast", "cast_on_cpu")
    numbers = [f"{row[key]:.0e}" if key in row else "" for key in differences]
    name = f"`{row.get('class', '')}`"
    parts = [row["kind"], name, *numbers, said, row.get("seconds", ""), why]
    return "| " + " | ".join(map(str, parts)) + " |"


def main():
    from each import rows_of

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", nargs="*", default=())
    parser.add_argument("--at-once", type=int, default=1)
    asked = parser.parse_args()
    rows = rows_of(KINDS, outcome, KNOWN, asked.again, at_once=asked.at_once)
    rows = [row for row in rows if row["end"] != "not built"][:NUMBER]
    command = [sys.executable, str(Path(__file__)), "--load"]
    answers = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    loaded = {row["kind"]: row["loaded"] for row in map(json.loads, answers.splitlines())}
    for row in rows:
        row["loaded"] = loaded.get(row["kind"], "")
    PAGE.write_text(page(rows))


if __name__ == "__main__":
    load_all() if "--load" in sys.argv else main()
