"""The parallel layout and batch of a job, and the options of programs that state them.

Programs spell them differently: `--tensor_parallel_size` of NxD's examples, Megatron's
`--tensor-model-parallel-size`, vLLM's `--tensor-parallel-size`. `OPTIONS` has a field for each
spelling, with dashes for underscores.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """The parallel layout and batch of a job; None for a degree that is not stated.

    Attributes:
        tensor: ranks that divide the heads and columns of a layer among them.
        pipeline: pipeline stages.
        virtual: parts of a pipeline stage.
        data: ranks with different sequences.
        context: ranks that divide the tokens of a sequence among them.
        expert: data ranks that divide the experts among them.
        zero: stage of ZeRO.
        is_sequence: whether sequence parallelism is on: outside of matrix products, tensor ranks
            divide the tokens among them.
        recompute: "none", "selective" or "full".
        micro_batch: sequences that a data rank takes at once.
        accumulation: micro batches of a data rank in a step.
        global_batch: sequences of a step.
        sequence: tokens of a sequence.
        server_sequences: sequences that a server decodes together.
        steps: optimizer steps of the run.
        checkpoint_steps: steps between checkpoints.
        logical_cores: physical NeuronCores in a logical one (LNC), by the framework's option.
        dtype: "bf16", "fp16", "fp32" or "fp8".
        optimizer: name of the optimizer.
    """

    tensor: int | None = None
    pipeline: int | None = None
    virtual: int | None = None
    data: int | None = None
    context: int | None = None
    expert: int | None = None
    zero: int | None = None
    is_sequence: bool | None = None
    recompute: str | None = None
    micro_batch: int | None = None
    accumulation: int | None = None
    global_batch: int | None = None
    sequence: int | None = None
    server_sequences: int | None = None
    steps: int | None = None
    checkpoint_steps: int | None = None
    logical_cores: int | None = None
    dtype: str | None = None
    optimizer: str | None = None

    @property
    def stated_fields(self) -> dict[str, Any]:
        """The fields that are stated, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def with_defaults(self, other: Parallelism) -> Parallelism:
        """A layout with the stated fields of this one, and the fields of `other` for the rest."""
        return replace(other, **self.stated_fields)


OPTIONS: Final = {
    "tensor-model-parallel-size": "tensor",
    "tensor-parallel-size": "tensor",
    "tensor-parallel-degree": "tensor",
    "tp-size": "tensor",
    "tp-degree": "tensor",
    "tp": "tensor",
    "pipeline-model-parallel-size": "pipeline",
    "pipeline-parallel-size": "pipeline",
    "pp-size": "pipeline",
    "pp": "pipeline",
    "virtual-pipeline-model-parallel-size": "virtual",
    "num-layers-per-virtual-pipeline-stage": "",
    "data-parallel-size": "data",
    "context-parallel-size": "context",
    "cp-size": "context",
    "expert-model-parallel-size": "expert",
    "expert-parallel-size": "expert",
    "zero-stage": "zero",
    "micro-batch-size": "micro_batch",
    "per-device-train-batch-size": "micro_batch",
    "train-batch-size": "micro_batch",
    "global-batch-size": "global_batch",
    "gradient-accumulation-steps": "accumulation",
    "grad-accum-usteps": "accumulation",
    "seq-length": "sequence",
    "seq-len": "sequence",
    "max-seq-length": "sequence",
    "sequence-length": "sequence",
    "block-size": "sequence",
    "max-model-len": "sequence",
    "max-num-seqs": "server_sequences",
    "max-steps": "steps",
    "train-iters": "steps",
    "checkpoint-freq": "checkpoint_steps",
    "save-steps": "checkpoint_steps",
    "save-interval": "checkpoint_steps",
    "recompute-granularity": "recompute",
    "optimizer": "optimizer",
    "optim": "optimizer",
    "logical-nc-config": "logical_cores",
}
"""The field that each option sets; "" for a known option that sets none.

Options are spelled with dashes for underscores.

Sources: Megatron-LM `megatron/training/arguments.py`; neuronx-distributed
`examples/training/llama`; transformers `TrainingArguments`; vLLM `EngineArgs`;
awsome-distributed-training `3.test_cases/pytorch/FSDP/src/model_utils/arguments.py`.
"""

_OPTIMIZERS: Final = {
    "adamw": (
        *("adam", "adamw", "fused_adam", "fusedadam", "distributed_fused_adam", "adamw_torch"),
        *("adamw_torch_fused", "adamw_torch_xla", "adamw_hf", "adamw_apex_fused"),
        "adamw_fp32optstate",
    ),
    "adamw-bf16": ("adamw_bf16",),
    "sgd": ("sgd", "fused_sgd"),
    "lamb": ("lamb", "fused_lamb", "fusedlamb"),
    "adafactor": ("adafactor",),
}
"""Names in options, in small letters and with _ for dashes, of the optimizers that plans have.

Megatron-LM's "adam" decays weights apart from the gradient, as AdamW does. Sources: Megatron-LM
`megatron/training/arguments.py`; transformers `OptimizerNames`; NxD Training `optim.name`.
"""
_FLAGS: Final = {
    "sequence-parallel": ("is_sequence", True),
    "sequence-parallel-enabled": ("is_sequence", True),
    "use-zero-1": ("zero", 1),
    "use-zero1-optimizer": ("zero", 1),
    "bf16": ("dtype", "bf16"),
    "fp16": ("dtype", "fp16"),
    "fp32": ("dtype", "fp32"),
}
"""Options without a value, each with the field that it sets, and its value."""
_DENIALS: Final = ("0", "false", "False", "no")
"""Values with which an option of `_FLAGS` sets nothing."""
MODEL_OPTIONS: Final = ("model", "model-name", "model-id", "model-path", "model-name-or-path")
"""Options whose value is the name of a model, or its folder."""
_SHORT_OPTIONS: Final = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
}
"""Options with one dash, and their long names. Source: vLLM, EngineArgs."""
RANK_OPTIONS: Final = ("nproc-per-node", "ranks-per-node")
"""Options of launchers for the ranks of an instance, in order of precedence."""
_MOST_RANKS: Final = 999_999
_WHOLE_NUMBER: Final = re.compile(r"\d{1,15}", re.ASCII)


def whole_number(text: str | None) -> int | None:
    """The whole number that a text spells in up to 15 digits; None for any other text."""
    return int(text) if text and _WHOLE_NUMBER.fullmatch(text) else None


def options_of(words: Sequence[str]) -> dict[str, str]:
    """Options of a command by name with dashes for underscores; "" for an option without a value.

    Both `--name value` and `--name=value` are read, and vLLM's short options by their long names.
    The last of equal options counts.
    """
    options: dict[str, str] = {}
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not _is_option(word) or name == "--":
            continue
        if not equals and index + 1 < len(words) and not _is_option(words[index + 1]):
            value = words[index + 1]
        options[_long_name(word)] = value
    return options


def option_index(words: Sequence[str], names: Container[str]) -> int | None:
    """The index of the last word of a command that is one of these options; None without one."""
    for index in range(len(words) - 1, -1, -1):
        if _is_option(words[index]) and _long_name(words[index]) in names:
            return index
    return None


def _is_option(word: str) -> bool:
    return word.startswith("--") or word.partition("=")[0] in _SHORT_OPTIONS


def _long_name(word: str) -> str:
    """The name of an option, without its value, with dashes for underscores."""
    name = word.partition("=")[0]
    return _SHORT_OPTIONS.get(name, name.removeprefix("--").replace("_", "-"))


def rank_count_text(words: Sequence[str]) -> str:
    """The text of a launcher's option for the ranks of an instance; "" without one.

    The value can be a word: torchrun takes "auto".

    Sources: PyTorch, torchrun's `--nproc-per-node`; docs/how-to-slurm.md, `--ranks-per-node`.
    """
    options = options_of(words)
    return next((options[name] for name in RANK_OPTIONS if name in options), "")


def has_launcher(words: Sequence[str], tasks: int) -> bool:
    """True if each task of a node starts ranks itself: with torchrun, or `trnsim slurm launch`.

    `trnsim slurm launch` does so only if a node has one task; with several tasks, each task is a
    rank. Source: docs/how-to-slurm.md.
    """
    is_trnsim = "launch" in words and any(
        "trnsim" in word for word in words[: words.index("launch")]
    )
    return (is_trnsim and tasks == 1) or "nproc-per-node" in options_of(words)


def started_ranks(words: Sequence[str]) -> int | None:
    """Ranks that a launcher starts on an instance; None if its option gives no number.

    A number of more than six digits is treated as a mistake.
    """
    ranks = whole_number(rank_count_text(words))
    return ranks if ranks and ranks <= _MOST_RANKS else None


def optimizer_name(text: str) -> str:
    """The optimizer of plans that an option's value names; else the value itself."""
    plain_name = text.lower().replace("-", "_")
    return next((name for name, words in _OPTIMIZERS.items() if plain_name in words), text)


def parallelism_in(options: dict[str, str]) -> Parallelism:
    """The parallelism that a program's options state, without values that are no numbers."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        field, number = OPTIONS.get(name), whole_number(value)
        if field == "optimizer":
            values[field] = optimizer_name(value)
        elif field == "recompute":
            values[field] = value
        elif field and number is not None and (number > 0 or field == "zero"):
            values[field] = number
        elif name in _FLAGS and value not in _DENIALS:
            flag, meaning = _FLAGS[name]
            values[flag] = meaning
    return Parallelism(**values)
