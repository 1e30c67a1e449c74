"""A model by its `config.json`, whose graph `trnsim.workload` builds: no framework is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from trnsim.device.model_report import Subject
from trnsim.errors import BadInput, NotModelled
from trnsim.estimate.question import Question
from trnsim.place.machine import Machine
from trnsim.workload.architecture import Architecture
from trnsim.workload.captured import workload_of
from trnsim.workload.config import read_values
from trnsim.workload.families.keys import ConfigGap
from trnsim.workload.kinds import ModelKind
from trnsim.workload.mixer import Mixer
from trnsim.workload.model_names import displayed, hub_id
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.quantization import DTYPES
from trnsim.workload.shape import ModelShape
from trnsim.workload.tensor_ranks import divides_heads, legal_ranks
from trnsim.workload.whole_graph import WholeGraph, is_known, whole_graph

_DECODER_SUFFIXES: Final = ("ForCausalLM", "LMHeadModel")
_DTYPE_KEYS: Final = ("dtype", "torch_dtype")
_MOST_LARGER_SPLITS: Final = 3
"""Numbers of ranks that are tried for a model that does not fit."""
_CAST_DTYPE: Final = "bfloat16"
_SHORT_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def model_of_config(path: Path, shape: ModelShape, dtype: str = "bfloat16") -> Subject | None:
    """The model of a `config.json` with its graph; None where a framework has to build it.

    Weights are of `dtype`, whatever their quantization. Ranks must divide the heads, unless the
    shape is padded: unused heads are added then.

    Raises:
        BadInput: for a file that is no configuration, a phase or length that the model does not
            have, or ranks that do not divide its heads.
    """
    values = read_values(path)
    model = _architecture(values, path, dtype)
    if model is None:
        return None
    _check_shape(model, shape)
    if not is_known(model):
        return None
    is_of_images = model.kind is ModelKind.VISION
    tokens = 1 if is_of_images else shape.tokens
    model_pass = Pass(Phase(shape.phase), shape.batch, tokens, shape.past)
    _check_ranks(model, 1 if shape.is_padded else shape.ranks)
    try:
        graph = whole_graph(model, model_pass, Split(tensor=shape.ranks))
    except NotModelled:
        return None
    item = "images" if is_of_images else "tokens"
    subject = Subject(
        model_title(model.model_type, path, shape),
        graph,
        (item, shape.batch * tokens),
        graphs_on_more_ranks=partial(_graphs_on_more_ranks, model, model_pass, shape.ranks),
        weights_note=_weights_note(values, dtype),
    )
    return with_question(subject, path, shape, dtype)


def _graphs_on_more_ranks(
    model: Architecture, model_pass: Pass, ranks: int, factor: float
) -> Iterator[tuple[int, WholeGraph]]:
    """(number, graph) for numbers of ranks that divide the heads, from `factor` times `ranks` on.

    A few are enough: a rank's memory falls little once weights are no longer most of it.
    """
    rank_numbers = [number for number in legal_ranks([model.decoder]) if number >= factor * ranks]
    for number in rank_numbers[:_MOST_LARGER_SPLITS]:
        try:
            yield number, whole_graph(model, model_pass, Split(tensor=number))
        except (BadInput, NotModelled):
            continue


def _weights_note(values: Mapping[str, Any], dtype: str) -> str:
    """Note on a checkpoint whose weights are smaller than those of the program; "" if none."""
    config = values.get("quantization_config")
    if not isinstance(config, Mapping):
        return ""
    method = str(cast("Mapping[str, Any]", config).get("quant_method", "quantized"))
    return (
        f"; a program's weights are {dtype} (--dtype), and this checkpoint's are {method}: trnsim "
        "instances --for and trnsim plan serve count these"
    )


def _check_shape(model: Architecture, shape: ModelShape) -> None:
    """Check that a model has the phase and the length of a shape.

    Raises:
        BadInput: the model generates no tokens, or has no learned position for a token.
    """
    if shape.phase in ("prefill", "decode") and not model.is_generating:
        raise BadInput(
            f"phase {shape.phase!r}; legal for {model.name} ({model.model_type}): encode, train, "
            "as it makes no tokens one after another",
            fix="ask for phase encode, without past",
        )
    if not model.decoder.tokens:
        model.check_length(shape.tokens + shape.past)


def _check_ranks(model: Architecture, ranks: int) -> None:
    """Check that ranks divide the heads of a model.

    Raises:
        BadInput: they do not.
    """
    if divides_heads([model.decoder], ranks):
        return
    legal = ", ".join(map(str, legal_ranks([model.decoder])))
    forms = [form for layer in model.decoder.layers for form in layer.attentions]
    heads = [
        f"{form.heads} heads in {form.groups} groups of mixers"
        if isinstance(form, Mixer)
        else f"{form.heads} attention heads"
        for form in forms
    ]
    raise BadInput(
        f"tp of {ranks} does not divide the {' and the '.join(dict.fromkeys(heads))} of "
        f"{model.model_type}; legal: {legal}",
        fix="choose one of these",
    )


def _architecture(values: Mapping[str, Any], path: Path, dtype: str) -> Architecture | None:
    """The architecture with weights of `dtype`; None where its sizes are not known.

    Raises:
        BadInput: for a dtype that no weights have, and for an illegal value in the file.
    """
    if dtype not in DTYPES:
        raise BadInput(f"dtype {dtype!r}; legal: {', '.join(DTYPES)}", fix="choose one of these")
    try:
        architecture = workload_of(_with_dtype(values, dtype), str(path))
    except (ConfigGap, NotModelled):  # transformers knows what is usual where a key is left out
        return None
    if not isinstance(architecture, Architecture):
        return None
    # A float32 model computes in 16 bits only where the compiler casts.
    return replace(architecture, short_dtype=_CAST_DTYPE if dtype == "float32" else dtype)


def _with_dtype(values: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """A configuration with weights of `dtype`, whatever their quantization."""
    ignored_keys = (*_DTYPE_KEYS, "quantization_config")
    settings = {key: value for key, value in values.items() if key not in ignored_keys}
    return {**settings, "torch_dtype": dtype}


def unknown_part(path: Path) -> str:
    """The reason why a framework has to build a model, in words."""
    try:
        workload_of(read_values(path), str(path))
    except (BadInput, NotModelled) as error:
        return error.reason.splitlines()[0]
    return "its sizes are known, but not all of its operations"


def model_title(model_type: str, path: Path, shape: ModelShape) -> str:
    """The title of a model at a shape: type, file or name, phase and sizes."""
    name = displayed(path) if hub_id(path) else path.name
    length = f"{shape.past:,} keys in the cache" if shape.past else f"{shape.sequence:,} tokens"
    ranks = f", one of {shape.ranks} ranks" if shape.ranks > 1 else ""
    return f"{model_type} ({name}), {shape.phase}, batch {shape.batch}, {length}{ranks}"


def with_question(subject: Subject, path: Path, shape: ModelShape, dtype: str) -> Subject:
    """A subject with the question that plans answer about it, or the reason why there is none."""
    try:
        return replace(subject, ask=question_of(path, shape, dtype))
    except (BadInput, NotModelled) as error:
        return replace(subject, no_plan_reason=error.reason.splitlines()[0])


def question_of(path: Path, shape: ModelShape, dtype: str) -> Callable[[Machine, bool], Question]:
    """The pass of a model at a shape, as a question to plans on weights of `dtype`.

    Raises:
        BadInput: plans cannot read the configuration, which transformers may.
        NotModelled: plans have no formula for the model.
    """
    values = read_values(path)
    plain_workload, narrow_workload = (
        workload_of(_with_dtype(values, name), str(path)) for name in (dtype, _CAST_DTYPE)
    )
    tokens = 1 if plain_workload.kind is ModelKind.VISION else shape.tokens
    model_pass = Pass(Phase(shape.phase), shape.batch, tokens, shape.past)
    split = Split(tensor=shape.ranks)

    def ask(machine: Machine, is_cast: bool) -> Question:
        if is_cast:  # the weights too, before the program runs
            return Question(narrow_workload, model_pass, machine, split, _SHORT_DTYPES[_CAST_DTYPE])
        return Question(plain_workload, model_pass, machine, split, _SHORT_DTYPES[dtype])

    return ask


def phase_of(values: Mapping[str, Any], past: int) -> str:
    """The default phase: a decoder generates, any other model encodes."""
    if past:
        return "decode"
    architectures = values.get("architectures")
    name = architectures[0] if isinstance(architectures, list) and architectures else architectures
    return "prefill" if str(name).endswith(_DECODER_SUFFIXES) else "encode"
