"""Configurations of NxD Training.

Source: aws-neuron/neuronx-distributed-training, docs/general/config_overview.rst; `devices` is the
number of a node's ranks in examples/train.sh and in all files of examples/conf.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.training_config import SIZES, TrainingConfigKeys, read_config, write_config
from trnsim.reader import SourcePlace

_STRATEGY: Final = "distributed_strategy"
_KEYS: Final = TrainingConfigKeys(
    name="nxdt",
    counts={
        "tensor": (_STRATEGY, "tensor_model_parallel_size"),
        "pipeline": (_STRATEGY, "pipeline_model_parallel_size"),
        "virtual": (_STRATEGY, "virtual_pipeline_model_parallel_size"),
        "context": (_STRATEGY, "context_parallel_size"),
        "expert": (_STRATEGY, "expert_model_parallel_size"),
        "micro_batch": ("data", "micro_batch_size"),
        "global_batch": ("data", "global_batch_size"),
        "sequence": ("model", "encoder_seq_length"),
        "steps": ("trainer", "max_steps"),
        "checkpoint_steps": ("exp_manager", "checkpoint_callback_params", "every_n_train_steps"),
        "logical_cores": ("trainer", "lnc"),
    },
    booleans={
        "zero": (_STRATEGY, "zero1"),
        "is_sequence": (_STRATEGY, "sequence_parallel"),
    },
    choices={
        ("recompute",): (
            ("model", "activations_checkpoint_granularity"),
            {None: ("none",), "selective": ("selective",), "full": ("full",)},
        ),
        ("dtype",): (
            ("precision", "type"),
            {
                "mixed_precision": ("bf16",),
                "mixed_precisionSR": ("bf16",),
                "bf16SR": ("bf16",),
                "autocast": ("bf16",),
                "fp32": ("fp32",),
            },
        ),
        ("optimizer",): (
            ("model", "optim", "name"),
            {"adamw": ("adamw",), "adamw_fp32OptState": ("adamw",)},
        ),
    },
    sequence=("data", "seq_length"),
    model=("model", "model_config"),
    sections=("trainer", _STRATEGY),
    sizes=SIZES
    | {
        "num_key_value_heads": ("model", "num_kv_heads"),
        "num_local_experts": ("model", "moe", "num_experts"),
        "num_experts_per_tok": ("model", "moe", "top_k"),
    },
)


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    value = root.value
    if isinstance(value, dict) and all(
        isinstance(value.get(name), dict) for name in ("trainer", _STRATEGY)
    ):
        yield root


FORMAT: Final = JobFormat(
    name="nxdt",
    title="configuration of NxD Training",
    suffix=".yaml",
    places=_places,
    read=partial(read_config, keys=_KEYS),
    write=partial(write_config, keys=_KEYS),
)
