"""Models of PyTorch on a chip: from a configuration, a Python file, or an exported program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from trnsim.compiler import Flags
from trnsim.device import answer as answers
from trnsim.device.answer import Answer, Subject
from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.estimate.question import Question
from trnsim.place.machine import Machine
from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.models.config import read_config
from trnsim.torch.models.exported import exported_graph
from trnsim.torch.models.model_graph import model_graph
from trnsim.torch.models.script import script_graph
from trnsim.torch.models.shape import ModelShape
from trnsim.workload.architecture import Architecture
from trnsim.workload.captured import workload_of
from trnsim.workload.config import read_values
from trnsim.workload.operators import Pass, Phase, Split

_DECODERS: Final = ("ForCausalLM", "LMHeadModel")
_DTYPE_KEYS: Final = ("dtype", "torch_dtype")
_CAST: Final = "bfloat16"
_SHORT: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def of_config(path: Path, shape: ModelShape, dtype: str = "bfloat16") -> Subject:
    """A model of transformers, by its configuration.

    Raises:
        BadInput: for what is no configuration, or a shape that it does not have.
    """
    made = of_model(read_config(path), path.name, shape, dtype)
    try:
        return replace(made, ask=asking(path, shape, dtype))
    except (BadInput, NotModelled) as error:
        return replace(made, unasked=error.reason.splitlines()[0])


def asking(path: Path, shape: ModelShape, dtype: str) -> Callable[[Machine, bool], Question]:
    """The same pass as a question to plans.

    Raises:
        BadInput: they read less of the configuration than transformers does.
        NotModelled: they have no formula.
    """
    kept = {key: one for key, one in read_values(path).items() if key not in _DTYPE_KEYS}
    plain, cast = (workload_of({**kept, "torch_dtype": name}, str(path)) for name in (dtype, _CAST))
    tokens = 1 if isinstance(plain, Architecture) and plain.is_of_images else shape.tokens
    given = Pass(Phase(shape.phase), shape.batch, tokens, shape.past)
    split = Split(tensor=shape.ranks)

    def ask(machine: Machine, is_cast: bool) -> Question:
        if is_cast:  # weights ahead of time
            return Question(cast, given, machine, split, _SHORT[_CAST])
        return Question(plain, given, machine, split, _SHORT[dtype])

    return ask


def of_model(config: Any, name: str, shape: ModelShape, dtype: str = "bfloat16") -> Subject:
    """A model of a configuration of that name."""
    made = model_graph(config, shape, dtype=dtype)
    title = f"{config.model_type} ({name}), {_words(shape)}"
    what = "tokens" if shape.phase != "encode" or hasattr(config, "vocab_size") else "images"
    number = shape.batch * (shape.tokens if what == "tokens" else 1)
    return Subject(title, made, (what, number))


def of_script(path: Path) -> Subject:
    """The model of a Python file on the arguments there.

    Raises:
        BadInput: for a file without a model, or without arguments.
    """
    return Subject(path.name, script_graph(path))


def of_export(path: Path) -> Subject:
    """An exported program.

    Raises:
        BadInput: for a file that is not an exported program.
        CompilerRefusal: for a program with dimensions without a size.
    """
    return Subject(path.name, exported_graph(path))


def phase_of(path: Path, past: int) -> str:
    """The phase that is meant where none is said: decoders generate, others encode."""
    if past:
        return "decode"
    named = (getattr(read_config(path), "architectures", None) or [""])[0]
    return "prefill" if named.endswith(_DECODERS) else "encode"


def _words(shape: ModelShape) -> str:
    length = f"{shape.past:,} keys in the cache" if shape.past else f"{shape.sequence:,} tokens"
    ranks = f", one of {shape.ranks} ranks" if shape.ranks > 1 else ""
    return f"{shape.phase}, batch {shape.batch}, {length}{ranks}"


def answer(
    subject: Subject,
    target: str,
    flags: Flags = Flags(),  # noqa: B008  frozen
    lnc: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Answer:
    """What a model takes on a chip, with PyTorch's errors (see `trnsim.device.answer`).

    Raises:
        BadInput: for cores that the chip has not, or that are named twice.
        CompilerRefusal: for what neuronx-cc refuses, under the policy `chip`.
        OutOfDeviceMemory: for a graph over the HBM of a NeuronCore.
    """
    try:
        return answers.answer(subject, target, flags, lnc, tell)
    except OutOfMemory as error:
        raise OutOfDeviceMemory(
            error.reason, fix=error.fix, source=error.source, line=error.line
        ) from error


__all__ = [
    "Answer",
    "Subject",
    "answer",
    "asking",
    "of_config",
    "of_export",
    "of_model",
    "of_script",
    "phase_of",
]
