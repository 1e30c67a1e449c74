"""`make agree`: 20 models, whether every command that can be asked the same says the same.

usage: agree.py [--only WORD] [--chips trn1,trn2] [--jobs N]

Each model is encoded, or its prompt and steps of 1 and of 32 sequences are taken, and trained where
one chip's program of it is small; on four chips. `trnsim compile` is asked with the model's graph,
plans and decisions with its config.json. P10, P50 and P90 have to be the same to 1 %, but for the
parts that a plan's question has besides: host, exchanges of data ranks, optimizer, bubble. What was
asked lies in build/agree, so that a stopped run goes on. Needs transformers (.venv-clients).
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from asking import Answer, Case, faults, plans, told

from trnsim import disk_cache
from trnsim.errors import EmulatorError, OutOfMemory
from trnsim.files import write
from trnsim.place.machine import machine

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "agree"
FACTS = json.loads((ROOT / "bench/accuracy/models/architectures.json").read_text(encoding="utf-8"))
CHIPS = ("trn1", "inf2", "trn2", "trn3")
ENCODERS = {
    "bert-base-uncased": 128,
    "bert-large-uncased": 384,
    "roberta-base": 128,
    "roberta-large": 128,
    "distilbert-base-uncased": 128,
    "google/electra-base-discriminator": 512,
    "xlm-roberta-base": 128,
    "SD 2 text encoder": 77,
    "SDXL text encoder 2": 77,
    "google/vit-base-patch16-224": 1,
    "resnet50": 1,
}
"""Tokens of a text; 1 for images."""
DECODERS = {
    "Llama-3.2-1B": 2,
    "Llama-2-7b": 8,
    "Llama-3-8B": 8,
    "Mistral-7B-Instruct-v0.2": 8,
    "Llama-2-13b": 8,
    "CodeLlama-13b-hf": 8,
    "Llama-2-70b": 32,
    "Llama-3-70B": 32,
    "GPT3-23B": 8,
    "GPT3-46B": 32,
}
"""Ranks of a layer, or a power of two that an instance has."""
TRAINED = {
    "bert-base-uncased": "BertForMaskedLM",
    "bert-large-uncased": "BertForMaskedLM",
    "roberta-base": "RobertaForMaskedLM",
    "Llama-3.2-1B": "LlamaForCausalLM",
}
"""The class whose loss is trained."""
KEYS = 2047
PROMPT = 512


def cases(chips):
    """All cases."""
    for name, sequence in ENCODERS.items():
        for chip in chips:
            yield case(name, chip, "encode", 8, sequence, has_text=sequence > 1)
    for name, ranks in DECODERS.items():
        for chip in chips:
            shared = 1 << (min(ranks, machine(chip).ranks).bit_length() - 1)  # heads divide by it
            yield case(name, chip, "prefill", 1, PROMPT, shared)
            for batch in (1, 32):
                yield case(name, chip, "decode", batch, KEYS, shared)
    for name, loss in TRAINED.items():
        for chip in chips:
            yield case(name, chip, "train", 1, 128, loss=loss)


def case(name, chip, phase, batch, sequence, ranks=1, *, has_text=True, loss=""):
    """A case, whose configuration lies in the folder of what was asked."""
    path = KEPT / "configs" / f"{name.replace('/', '-')}{loss}" / "config.json"
    if not path.exists():
        config = FACTS[name]["config"]
        write(
            path,
            json.dumps({**config, **({"architectures": [loss]} if loss else {})}),
            parents=True,
        )
    return Case(name, path, chip, phase, batch, sequence, ranks, has_text)


def compiled(asked):
    """What `trnsim compile` says."""
    from trnsim.device import configured  # noqa: PLC0415  takes seconds
    from trnsim.device.model_report import report_model  # noqa: PLC0415  likewise
    from trnsim.torch.models import subjects as answers  # noqa: PLC0415  likewise
    from trnsim.workload.shape import ModelShape  # noqa: PLC0415  likewise

    decodes = asked.phase == "decode"
    shape = ModelShape(
        asked.phase,
        asked.batch,
        1 if decodes else asked.sequence,
        asked.sequence if decodes else 0,
        asked.ranks,
    )
    subject = configured.model_of_config(asked.path, shape) or answers.of_config(asked.path, shape)
    return Answer("compile", report_model(subject, asked.chip).estimate)


def asked_of(one):
    """Answers to a case, kept by it and by the sources that decide them; or why there are none."""
    path = KEPT / f"{disk_cache.version()}-{zlib.crc32(one.text.encode()):08x}.json"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    try:
        answers = plans(one)
        answers = [compiled(one), *answers]
        made = {"faults": faults(answers), "told": told(answers), "count": len(answers)}
    except OutOfMemory as error:
        made = {"faults": [], "told": f"does not fit: {error.reason.splitlines()[0]}", "count": 0}
    except EmulatorError as error:
        made = {"faults": [str(error).splitlines()[0]], "told": "", "count": 0}
    if not made["faults"]:  # what was wrong is asked again
        write(path, json.dumps(made), parents=True)
    return made


def main():
    """Ask every case, and say where answers differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--chips", default=",".join(CHIPS))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    given = parser.parse_args()
    chosen = [one for one in cases(given.chips.split(",")) if given.only in one.text]
    wrong, compared = [], 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for number, (one, found) in enumerate(
            zip(chosen, pool.map(asked_of, chosen), strict=True), 1
        ):
            compared += bool(found["count"])
            wrong += [f"{one.text}: {fault}" for fault in found["faults"]]
            print(f"{number}/{len(chosen)} {one.text}: {found['told']}", flush=True)
    print(f"{compared} of {len(chosen)} cases compared, {len(wrong)} faults")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
