"""A serving plan as the values of the `--json` document, with SI units in the names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from trnsim.estimate import ported
from trnsim.estimate.certainty import Support, subject, support
from trnsim.estimate.choice import facts as layer_facts
from trnsim.estimate.reach import list_extrapolations
from trnsim.facts import P90_SIGMAS, Evidence, Interval, Rate
from trnsim.system.serve.capacity_report import capacity_values
from trnsim.system.serve.constants import COMPILE_LAYER_S, LOAD_BYTES_PER_S
from trnsim.system.serve.engine import powers_of_two
from trnsim.system.serve.plan import ServingPlan
from trnsim.system.serve.server import Deployment
from trnsim.workload.architecture import Tower
from trnsim.workload.operators import Pass, Phase

_Shape = TypeVar("_Shape", bound=tuple[int, ...])


def values(plan: ServingPlan) -> dict[str, Any]:
    """All values of a plan."""
    deployment = plan.deployment
    machine = deployment.machine
    return {
        "platform": machine.name,
        "instance": machine.instance.name,
        "instances": deployment.instances,
        **_layout(deployment),
        "port_state": str(deployment.options.port),
        "memory_bytes": _memory(deployment),
        "requests": len(plan.load),
        "input_tokens": sum(request.input_tokens for request in plan.load),
        "output_tokens": sum(request.output_tokens for request in plan.load),
        **plan.served.figures,
        "token_parts_s": plan.served.parts_s,
        "decode_step": _decode_step(plan),
        "prefill_step": _prefill_step(plan),
        **capacity_values(plan),
        "is_slo_met": plan.is_met,
        "usd_per_million_tokens": plan.usd_per_million_tokens,
        "price": str(plan.quote),
        "startup_s": startup_s(deployment),
        "idle_replicas": idle_replicas(plan),
        "not_faster_than": _smaller_split(plan),
        "times": deployment.steps.source,
        "sources": deployment.steps.sources,
        "assumed": assumed_facts(deployment),
        "validated": is_validated(deployment),
        "note": machine.note,
    }


def _layout(deployment: Deployment) -> dict[str, Any]:
    options, engine = deployment.options, deployment.engine
    compiled_shapes = {
        "buckets": list(engine.buckets),
        "num_seqs_buckets": list(engine.batches),
        "max_prefills": engine.prompts_at_once,
        "lnc": deployment.machine.lnc,
    }
    return {
        "data_parallel_size": deployment.replicas,
        "prefill_replicas": options.prefill_replicas,
        "tensor_parallel_size": options.tensor,
        "pipeline_parallel_size": options.stages,
        "expert_parallel_size": options.expert,
        "max_num_seqs": engine.max_num_seqs,
        "max_model_len": engine.max_model_len,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "block_size": engine.block_tokens,
        "kv_blocks": engine.blocks,
        **(compiled_shapes if engine.is_compiled else {}),
    }


def _memory(deployment: Deployment) -> Mapping[str, float]:
    """Use of a rank's device memory, in bytes."""
    memory = deployment.memory
    return {
        "total": memory.total_bytes,
        "weights": memory.weights_bytes,
        "draft": memory.draft_bytes,
        "activations": memory.activations_bytes,
        "sequence": memory.sequence_bytes,
        "free": memory.free_bytes,
    }


def _decode_step(plan: ServingPlan) -> dict[str, Any] | None:
    """The decode step of median time in the run: shape and estimate; None without one."""
    steps = plan.deployment.steps
    counts = [replica.decodes for replica in plan.served.outcome.replicas]
    shape = _median_shape(counts, lambda key: steps.decode(*key).time_s)
    if shape is None:
        return None
    batch, length = shape
    tokens = 1 + steps.speculation.tokens
    sizes = {"batch": batch, "tokens": tokens, "past": max(length - tokens, 0)}
    return {**sizes, **steps.decode(*shape).as_dict()}


def _prefill_step(plan: ServingPlan) -> dict[str, Any] | None:
    """The prefill step of median time in the run: shape and estimate; None without one."""
    steps = plan.deployment.steps
    counts = [replica.prefills for replica in plan.served.outcome.replicas]
    shape = _median_shape(counts, lambda key: steps.prefill(*key).time_s)
    if shape is None:
        return None
    sizes = dict(zip(("batch", "tokens", "past"), shape, strict=True))
    return {**sizes, **steps.prefill(*shape).as_dict()}


def _median_shape(
    counts: Iterable[Counter[_Shape]], time_s: Callable[[_Shape], float]
) -> _Shape | None:
    """The shape of the step of median time among all steps; None without steps."""
    shape_counts: Counter[_Shape] = Counter()
    for counter in counts:
        shape_counts.update(counter)
    remaining_count = shape_counts.total() / 2
    for shape in sorted(+shape_counts, key=time_s):
        remaining_count -= shape_counts[shape]
        if remaining_count <= 0:
            return shape
    return None


def startup_s(deployment: Deployment) -> dict[str, Interval]:
    """Seconds of a replica's start: loading weights, and on AWS's chips compiling programs.

    There is a prefill program for each bucket and number of prompts, and a decode program for each
    bucket and batch. Compiled programs are cached, so that only the first start compiles.
    """
    nbytes = deployment.memory.weights_bytes * deployment.ranks
    times = {"load": _interval_around(nbytes / LOAD_BYTES_PER_S, LOAD_BYTES_PER_S)}
    engine = deployment.engine
    if engine.is_compiled:
        layers = deployment.model.depth
        prompt_batches = powers_of_two(1, engine.prompts_at_once)
        programs = len(engine.buckets) * (len(prompt_batches) + len(engine.batches))
        times["compile"] = _interval_around(layers * programs * COMPILE_LAYER_S, COMPILE_LAYER_S)
    return times


def _interval_around(value: float, fact: Rate) -> Interval:
    """The P10 to P90 interval of a value with the relative uncertainty of a fact."""
    sigma = float(np.sqrt(np.log1p(fact.provenance.spread**2)))
    factor = float(np.exp(P90_SIGMAS * sigma))
    return Interval(value / factor, value, value * factor)


def _smaller_split(plan: ServingPlan) -> dict[str, float] | None:
    """A layout with fewer tensor ranks on which requests take no longer; None without one."""
    split = plan.smaller_split
    if split is None:
        return None
    return {"tensor_parallel_size": split.tensor, "e2e_p50_s": split.e2e_s}


def extrapolations(deployment: Deployment) -> tuple[str, ...]:
    """Sentences on how the longest prompt and a full decode step exceed the measured rows."""
    return tuple(
        f"{name}: {reach}"
        for name, model_pass in _largest_passes(deployment).items()
        for reach in list_extrapolations(deployment.model, model_pass, deployment.machine.lnc)
    )


def _largest_passes(deployment: Deployment) -> dict[str, Pass]:
    """The longest prompt, and a decode step with all sequences at their longest."""
    engine = deployment.engine
    longest = engine.max_model_len
    return {
        "prompts": Pass(Phase.PREFILL, 1, longest),
        "steps": Pass(Phase.DECODE, engine.max_num_seqs, 1, longest - 1),
    }


def idle_replicas(plan: ServingPlan) -> int:
    """Number of replicas that had no request."""
    return sum(not replica.busy_s for replica in plan.served.outcome.replicas)


def assumed_facts(deployment: Deployment) -> list[str]:
    """Assumed facts on which the times depend, each with its reason."""
    facts = layer_facts(deployment.machine, Phase.DECODE)
    facts |= deployment.steps.host.facts
    if deployment.options.is_ported:
        facts |= ported.facts()
    images = [_image(tower) for tower in deployment.model.towers if tower.image]
    return images + [
        f"{name} = {fact:.4g}: {fact.provenance.source}"
        for name, fact in facts.items()
        if fact.provenance.kind is Evidence.ASSUMED
    ]


def _image(tower: Tower) -> str:
    """The image that each prompt has."""
    parts = ["each prompt has one image"]
    if tower.tiles:
        parts.append("image_size beside vision_config states another size")
    else:
        parts[0] += ", of the size that vision_config.image_size states"
    if tower.tiles > 1:
        parts.append(f"it is encoded as {tower.tiles} tiles")
    if tower.prompt_tokens:
        parts.append(f"{tower.prompt_tokens:,} tokens of the prompt are its own")
    return f"pixels of an image along a side = {tower.image}: {'; '.join(parts)}"


def is_validated(deployment: Deployment) -> bool:
    """True if published rows validate the longest prompt and a full decode step."""
    return all(rows.is_validated for rows in published_support(deployment).values())


def published_support(deployment: Deployment) -> dict[str, Support]:
    """The published rows behind the times of the longest prompt and of a full decode step."""
    chip, tensor = deployment.machine.chip, deployment.steps.split.tensor
    is_ported = deployment.options.is_ported
    return {
        name: support(subject(deployment.model, model_pass, chip, tensor, is_ported=is_ported))
        for name, model_pass in _largest_passes(deployment).items()
    }
