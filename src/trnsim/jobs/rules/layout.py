"""Rules of parallel layouts: divisibility, memory of a rank, the interval of checkpoints.

A rule applies only if all of its numbers are stated. For parts of a layout that are not stated, the
memory of a rank is computed with the values that need the least.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from trnsim.errors import BadInput, EmulatorError, OutOfMemory
from trnsim.formatting import seconds
from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.job import Job, JobKind
from trnsim.jobs.parallelism import OPTIONS, Parallelism, options_of, parallelism_in
from trnsim.jobs.plans import architecture_of, model_name, parallelism_of
from trnsim.jobs.price import price_job
from trnsim.jobs.ranks import all_ranks, machine_of
from trnsim.jobs.spec import JobSpec, is_template
from trnsim.system.train import memory
from trnsim.system.train.layout import Layout
from trnsim.system.train.optimizers import OPTIMIZERS
from trnsim.system.train.run import Reliability, best_interval_s, kept_fraction
from trnsim.workload.config import read_values
from trnsim.workload.model_names import config_file

_HEADS: Final = "num_attention_heads"
_LAYERS: Final = "num_hidden_layers"
_SIZE_OPTIONS: Final = {
    "num-attention-heads": _HEADS,
    "num-layers": _LAYERS,
    "num-hidden-layers": _LAYERS,
}
"""Options of Megatron's programs that state sizes of the model."""
_EVEN_STAGES: Final = frozenset(
    (
        *("pipeline-model-parallel-size", "num-layers-per-virtual-pipeline-stage"),
        *("num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size"),
    )
)
"""Options of pipelines whose stages have equally many layers."""
_MEGATRON_OPTION: Final = "tensor-model-parallel-size"
_LAYOUT_FIELDS: Final = (
    *("tensor", "pipeline", "virtual", "context", "expert", "micro_batch", "sequence"),
    *("zero", "recompute", "is_sequence", "optimizer", "dtype"),
)
_DEGREES: Final = frozenset(("tensor", "pipeline", "context", "data"))
_DEGREES_AND_BATCHES: Final = _DEGREES | {"micro_batch", "global_batch"}
_MOST_DEGREE: Final = 100_000
"""Largest degree of a layout that a message lists: no job has as many chips."""
_LITTLE_LOSS: Final = 0.05
"""Share of a run's time; an interval of checkpoints that loses at most this share is no finding."""


def _field(spec: JobSpec, name: str) -> str:
    """The field that states a part of the layout: the job's own, or an option of a command."""
    job = spec.job
    if getattr(job.parallelism, name) is not None:
        return f"parallelism.{name}"
    options = [option for option, field in OPTIONS.items() if field == name]
    for index, role in enumerate(job.roles):
        if getattr(parallelism_in(options_of(role.command)), name) is not None:
            return spec.option_field(index, *options)
    return "roles.0"


def _is_training(job: Job) -> bool:
    """True if a job is a training that states the layout of all its ranks."""
    if job.kind is not JobKind.TRAINING or not job.roles:
        return False
    return job.parallelism.tensor is not None or any(
        _MEGATRON_OPTION in options_of(role.command) for role in job.roles
    )


def _model_ranks(parallelism: Parallelism) -> int:
    """Ranks that share one copy of the model: ``tensor pipeline context``."""
    return (parallelism.tensor or 1) * (parallelism.pipeline or 1) * (parallelism.context or 1)


def _has_templates(spec: JobSpec, names: frozenset[str] = _DEGREES_AND_BATCHES) -> bool:
    """True if a template states one of these degrees or batches."""
    if any(value.field.removeprefix("parallelism.") in names for value in spec.templates):
        return True
    return any(
        is_template(value) and names & set(parallelism_in({name: "1"}).stated_fields)
        for role in spec.job.roles
        for name, value in options_of(role.command).items()
    )


def _sizes(job: Job) -> dict[str, Any]:
    """Sizes of the model: the spec's, or else its command's options, or else the named model's."""
    sizes: dict[str, Any] = {}
    name = model_name(job)
    if name and not is_template(name):
        with suppress(EmulatorError):
            sizes |= read_values(config_file(name))
    for role in job.roles:
        for option, value in options_of(role.command).items():
            if option in _SIZE_OPTIONS and re.fullmatch(r"[1-9]\d{0,6}", value, re.ASCII):
                sizes[_SIZE_OPTIONS[option]] = int(value)
    return sizes | dict(job.config)


def _ranks(spec: JobSpec) -> Iterator[Violation]:
    job, parallelism = spec.job, parallelism_of(spec.job)
    ranks = all_ranks(job)
    if ranks is None or not _is_training(job) or _has_templates(spec, _DEGREES):
        return
    model_ranks = _model_ranks(parallelism)
    if ranks % model_ranks:
        words = " x ".join(
            f"{name} {value}"
            for name in ("tensor", "pipeline", "context")
            if (value := getattr(parallelism, name)) is not None
        )
        yield Violation(
            _field(spec, "tensor"),
            f"{words} is {model_ranks} ranks, which do not divide the job's {ranks:,}",
            f"a number of ranks that is a multiple of {model_ranks}, or degrees that divide "
            f"{ranks:,}",
        )
    elif parallelism.data is not None and parallelism.data * model_ranks != ranks:
        yield Violation(
            _field(spec, "data"),
            f"data {parallelism.data} x {model_ranks} ranks of the model are not "
            f"the job's {ranks:,}",
            f"set data {ranks // model_ranks}",
        )


def _heads(spec: JobSpec) -> Iterator[Violation]:
    job = spec.job
    if not _is_training(job):
        return
    tensor, heads = parallelism_of(job).tensor, _sizes(job).get(_HEADS)
    if tensor and isinstance(heads, int) and heads % tensor:
        legal = _divisors(heads)
        yield Violation(
            _field(spec, "tensor"),
            f"tensor {tensor} does not divide the {heads} attention heads; legal: {legal}",
            "choose one of these",
        )


def _layers(spec: JobSpec) -> Iterator[Violation]:
    job = spec.job
    if not _is_training(job):
        return
    parallelism, layers = parallelism_of(job), _sizes(job).get(_LAYERS)
    parts = (parallelism.pipeline or 1) * (parallelism.virtual or 1)
    if not isinstance(layers, int) or parts == 1:
        return
    if layers < parts:
        reason = f"{parts} parts of the pipeline share {layers} layers, so some have none"
    elif layers % parts and _has_even_stages(spec):
        reason = f"{parts} parts of the pipeline do not divide {layers} layers"
    else:
        return
    yield Violation(_field(spec, "pipeline"), reason, f"pipeline x virtual of {_divisors(layers)}")


def _divisors(count: int) -> str:
    """The divisors of a number up to `_MOST_DEGREE`, ascending."""
    sizes = range(1, min(count, _MOST_DEGREE) + 1)
    return ", ".join(str(size) for size in sizes if count % size == 0)


def _has_even_stages(spec: JobSpec) -> bool:
    """True if stages have equally many layers: in Megatron, without options for uneven stages."""
    if spec.format == "nxdt":
        return False
    names = {name for role in spec.job.roles for name in options_of(role.command)}
    # Fields of the file that `Job` does not hold may be such options too.
    names |= {str(field.keys[-1]).replace("_", "-") for field in spec.job.kept_fields}
    return not any("pipeline" in name and name not in _EVEN_STAGES for name in names)


def _batch(spec: JobSpec) -> Iterator[Violation]:
    job, parallelism = spec.job, parallelism_of(spec.job)
    ranks = all_ranks(job)
    if ranks is None or not _is_training(job) or _has_templates(spec):
        return
    model_ranks = _model_ranks(parallelism)
    if ranks % model_ranks or parallelism.global_batch is None:
        return
    data = ranks // model_ranks
    parallel_sequences = data * (parallelism.micro_batch or 1)
    if parallelism.global_batch % parallel_sequences:
        next_batch = -(-parallelism.global_batch // parallel_sequences) * parallel_sequences
        yield Violation(
            _field(spec, "global_batch"),
            f"global batch {parallelism.global_batch} is no multiple of {data} data ranks x "
            f"micro batch {parallelism.micro_batch or 1}",
            f"for example {next_batch}",
        )


def _memory(spec: JobSpec) -> Iterator[Violation]:
    job, parallelism = spec.job, parallelism_of(spec.job)
    if not _is_training(job) or len(job.roles) != 1 or _has_templates(spec):
        return
    machine = machine_of(job.roles[0])
    lnc = job.roles[0].lnc or parallelism.logical_cores
    if machine is None or parallelism.sequence is None or job.roles[0].replicas is None:
        return
    if lnc in (1, 2) and machine.chip.cores % lnc == 0:
        machine = replace(machine, lnc=lnc)
    layout = _least_layout(parallelism, machine.ranks)
    if layout is None:
        return
    try:
        model = architecture_of(job)
        memory.check(memory.stages(model, layout), layout, machine)
    except OutOfMemory as error:
        yield Violation(_field(spec, "tensor"), error.reason, error.fix)
    except EmulatorError:
        return


def _least_layout(parallelism: Parallelism, ranks: int) -> Layout | None:
    """The layout with the least memory for a rank that the stated parts allow."""
    model_ranks = _model_ranks(parallelism)
    if ranks % model_ranks:
        return None
    fields: dict[str, Any] = {
        "zero": 3,
        "recompute": "full",
        "is_sequence": True,
        "optimizer": min(
            OPTIMIZERS,
            key=lambda name: OPTIMIZERS[name].moment_bytes + OPTIMIZERS[name].master_bytes,
        ),
    }
    fields |= {
        name: value for name, value in parallelism.stated_fields.items() if name in _LAYOUT_FIELDS
    }
    data = ranks // model_ranks
    fields["global_batch"] = data * (parallelism.micro_batch or 1)
    try:
        return Layout(data=data, **fields)
    except (TypeError, ValueError):
        return None


def _checkpoints(spec: JobSpec) -> Iterator[Violation]:
    job, parallelism = spec.job, parallelism_of(spec.job)
    steps = parallelism.checkpoint_steps
    if steps is None or not _is_training(job):
        return
    if any(machine_of(role) is None for role in job.roles):
        return
    try:
        plan = price_job(job).training
    except BadInput:
        return
    if plan is None:
        return
    step_s = plan.step.step_s.p50
    run_s = plan.steps * step_s
    reliability, goodput = Reliability(), plan.goodput
    interval_s = min(steps * step_s, run_s)
    best_s = min(best_interval_s(goodput.mtbf_s, reliability.checkpoint_s), run_s)
    useful_share, best_share = (
        kept_fraction(goodput.mtbf_s, every_s, reliability.checkpoint_s, goodput.recovery_s)
        for every_s in (interval_s, best_s)
    )
    if best_share - useful_share > _LITTLE_LOSS:
        count = max(round(best_s / step_s), 1)
        yield Violation(
            _field(spec, "checkpoint_steps"),
            f"a checkpoint every {steps:,} steps, {seconds(interval_s)}: failures every "
            f"{seconds(goodput.mtbf_s)} and checkpoints leave {useful_share:.0%} of the time; "
            f"every {count:,} steps leave {best_share:.0%}",
            f"a checkpoint every {count:,} steps",
        )


RULES: Final = (
    JobRule(
        "layout-ranks",
        "Tensor, pipeline and context ranks divide the ranks of the job.",
        "Megatron-LM megatron/core/parallel_state.py, initialize_model_parallel",
        _ranks,
    ),
    JobRule(
        "layout-heads",
        "Tensor ranks divide the attention heads.",
        "aws-neuron-sdk libraries/neuronx-distributed/api-reference-guide-training.rst, "
        "GQA-QKV Linear Module",
        _heads,
    ),
    JobRule(
        "layout-layers",
        "Each part of a pipeline has layers, and in Megatron equally many.",
        "Megatron-LM megatron/core/transformer/transformer_block.py, num_layers; aws-neuron-sdk "
        "libraries/neuronx-distributed/pp_developer_guide.rst, auto_partition",
        _layers,
    ),
    JobRule(
        "layout-batch",
        "The global batch is a multiple of data ranks times micro batch.",
        "Megatron-LM megatron/core/num_microbatches_calculator.py; neuronx-distributed-training "
        "src/neuronx_distributed_training/lightning_modules/model/base.py, num_microbatches",
        _batch,
    ),
    JobRule(
        "memory-of-rank",
        "Weights, gradients, optimizer state and activations of a rank fit into its HBM.",
        "trnsim plan train, memory of a rank (docs/design/0027-a-plan-is-made-of-layers.md)",
        _memory,
    ),
    JobRule(
        "checkpoint-interval",
        "The interval of checkpoints loses little more of the time than the best interval.",
        "Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps",
        _checkpoints,
        Severity.WARNING,
    ),
)
