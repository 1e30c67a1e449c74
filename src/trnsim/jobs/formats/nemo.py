"""Configurations of NeMo 1.0's Megatron models; the section `run` of NeMo's launcher is optional.

Source: NVIDIA/NeMo, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml;
NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/training/gpt3/5b.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.training_config import SIZES, TrainingConfigKeys, read_config, write_config
from trnsim.jobs.job import Job
from trnsim.jobs.parallelism import options_of, parallelism_in
from trnsim.reader import SourcePlace

_MODEL: Final = "model"
_TENSOR: Final = "tensor_model_parallel_size"
_MICRO_BATCH: Final = "micro_batch_size"
_KEYS: Final = TrainingConfigKeys(
    name="nemo",
    counts={
        "tensor": (_MODEL, _TENSOR),
        "pipeline": (_MODEL, "pipeline_model_parallel_size"),
        "virtual": (_MODEL, "virtual_pipeline_model_parallel_size"),
        "context": (_MODEL, "context_parallel_size"),
        "expert": (_MODEL, "expert_model_parallel_size"),
        "micro_batch": (_MODEL, _MICRO_BATCH),
        "global_batch": (_MODEL, "global_batch_size"),
        "sequence": (_MODEL, "encoder_seq_length"),
        "steps": ("trainer", "max_steps"),
        "checkpoint_steps": ("exp_manager", "checkpoint_callback_params", "every_n_train_steps"),
    },
    booleans={"is_sequence": (_MODEL, "sequence_parallel")},
    choices={
        ("recompute",): (
            (_MODEL, "activations_checkpoint_granularity"),
            {None: ("none",), "selective": ("selective",), "full": ("full",)},
        ),
        ("dtype",): (
            ("trainer", "precision"),
            {
                "bf16": ("bf16",),
                "bf16-mixed": ("bf16",),
                16: ("fp16",),
                "16": ("fp16",),
                "16-mixed": ("fp16",),
                32: ("fp32",),
                "32": ("fp32",),
            },
        ),
        ("optimizer", "zero"): (
            (_MODEL, "optim", "name"),
            {
                "distributed_fused_adam": ("adamw", 1),
                "fused_adam": ("adamw", 0),
                "adamw": ("adamw", None),
            },
        ),
    },
    sequence=(_MODEL, "data", "seq_length"),
    sizes=SIZES
    | {
        "num_key_value_heads": (_MODEL, "num_query_groups"),
        "num_local_experts": (_MODEL, "num_moe_experts"),
        "num_experts_per_tok": (_MODEL, "moe_router_topk"),
    },
    sections=("trainer", _MODEL),
    has_run_section=True,
)


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    """The document itself, if it has a trainer, and a model with one of two NeMo fields."""
    value = root.value
    if not isinstance(value, dict) or not isinstance(value.get("trainer"), dict):
        return
    model = value.get(_MODEL)
    if isinstance(model, dict) and (_TENSOR in model or _MICRO_BATCH in model):
        yield root


def _write(job: Job) -> str:
    words = [word for role in job.roles for word in role.command]
    layout = job.parallelism.with_defaults(parallelism_in(options_of(words)))
    has_kept = any(
        field.keys in ((_MODEL, _TENSOR), (_MODEL, _MICRO_BATCH)) for field in job.kept_fields
    )
    if layout.tensor is None and layout.micro_batch is None and not has_kept:
        why = f"{_TENSOR} or {_MICRO_BATCH} makes a file one of NeMo's"
        raise BadInput(
            f"nemo cannot express the job: no layout: {why}",
            fix="state --tensor-parallel-size or --micro-batch-size in the command",
        )
    return write_config(job, _KEYS)


FORMAT: Final = JobFormat(
    name="nemo",
    title="configuration of NeMo's Megatron models",
    suffix=".yaml",
    places=_places,
    read=partial(read_config, keys=_KEYS),
    write=_write,
)
