"""Time to first token, time per token and cost of serving, by roofline.

    TPOT  = max(bytes read / HBM, FLOPs / peak) + 2 L half-layer latency
    TTFT  = max(FLOPs / peak, weights / HBM)    + 2 L half-layer latency

of one replica. The half-layer latency covers the small all-reduce and the kernel launches of half
a layer. A replica of several instances has its layers spread over them, and they work one after
another, one EFA hop apart. Queueing, buckets, prefix caches and speculative decoding are not
modelled. The formulas: docs/design/0005-closed-forms-above-one-node.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trnsim.errors import BadInput, OutOfMemory
from trnsim.facts import Interval
from trnsim.price import Quote, quote
from trnsim.system.platform import Platform, platform
from trnsim.system.uncertainty import SEED, Basis, Inputs, Samples, interval

if TYPE_CHECKING:
    from datetime import date

    from trnsim.arch.catalogue import Catalogue
    from trnsim.system.model import ModelShape

_MOST_INSTANCES: Final = 64
_WIDEST: Final = 16  # chips: the widest group of the rows that the half-layer latency was fitted to


@dataclass(frozen=True)
class ServingEstimate:
    """Latency, throughput and USD per million output tokens on one platform.

    Attributes:
        ttft_s: seconds until the first token of one prompt.
        tpot_s: seconds per output token while `batch` requests decode together.
        tokens_per_s: output tokens per second of all `instances` when kept busy.
        usd_per_million_tokens: of output, prompts included, or None without a public price.
    """

    model: ModelShape
    platform: str
    instance: str
    instances: int
    chips_per_replica: int
    replicas: int
    batch: int
    context: int
    output_tokens: int
    bytes_per_chip: float
    ttft_s: Interval
    tpot_s: Interval
    tokens_per_s: Interval
    usd_per_million_tokens: Interval | None
    quote: Quote
    basis: Basis
    note: str

    @property
    def validated(self) -> bool:
        """Whether the HBM efficiency was observed on this chip."""
        return self.basis.validated


def estimate(
    model: ModelShape,
    on: str,
    *,
    batch: int = 8,
    context: int = 2048,
    output_tokens: int = 256,
    chips_per_replica: int | None = None,
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
    seed: int = SEED,
) -> ServingEstimate:
    """Latency and cost of serving `model` in bfloat16.

    Args:
        model: the model.
        on: platform: a short name of `system.platform.platforms`, or an instance name.
        batch: requests that decode together on a replica.
        context: tokens of each prompt; output tokens attend to them.
        output_tokens: tokens generated per request.
        chips_per_replica: a divisor of the instance's chips; by default up to 16, more if needed.
        kind: purchase kind of the price.
        as_of: day of the price; today by default.
        rows: the catalogue; the built-in one by default.
        seed: seed of the draws.

    Raises:
        BadInput: a number that is not positive, an unknown platform or purchase kind.
        OutOfMemory: `chips_per_replica` was given and is too small.
    """
    _check_positive(batch=batch, context=context, output_tokens=output_tokens)
    target = platform(on, rows)
    inputs = Inputs(target.facts, seed=seed)
    length = context + output_tokens
    size = _chips_per_replica(model, target, inputs, batch, length, chips_per_replica)
    instances = max(1, size // target.instance.count)
    replicas = max(1, target.instance.count // size)
    ttft_s, tpot_s = _latencies_s(model, target, inputs, size, batch, context, length)
    tokens_per_s = replicas * batch * output_tokens / (batch * ttft_s + output_tokens * tpot_s)
    price = quote(target.instance.name, kind, as_of=as_of, rows=rows)
    return ServingEstimate(
        model=model,
        platform=on,
        instance=target.instance.name,
        instances=instances,
        chips_per_replica=size,
        replicas=replicas,
        batch=batch,
        context=context,
        output_tokens=output_tokens,
        bytes_per_chip=_bytes(model, target, size, batch, length) / size,
        ttft_s=interval(ttft_s),
        tpot_s=interval(tpot_s),
        tokens_per_s=interval(tokens_per_s),
        usd_per_million_tokens=_usd(price, instances, tokens_per_s),
        quote=price,
        basis=inputs.basis("HBM efficiency"),
        note=target.note,
    )


def _check_positive(**numbers: int) -> None:
    """Refuse a number that is not positive.

    Raises:
        BadInput: naming it.
    """
    for name, value in numbers.items():
        if value <= 0:
            raise BadInput(f"{name} must be positive, not {value}", fix=f"give a positive {name}")


def kv_copies(model: ModelShape, target: Platform, chips: int) -> float:
    """``max(1, ranks / kv_heads)``: beyond one head per rank, heads are copied, not split.

    Ranks count within an instance: several instances split layers, not heads.
    """
    ranks = min(chips, target.instance.count) * target.ranks_per_chip
    return max(1.0, ranks / model.kv_heads)


def _kv_bytes(model: ModelShape, target: Platform, chips: int, batch: int, length: int) -> float:
    """Keys and values of `batch` requests of `length` tokens, all copies, bytes."""
    return batch * length * model.kv_bytes_per_token * kv_copies(model, target, chips)


def _bytes(model: ModelShape, target: Platform, chips: int, batch: int, length: int) -> float:
    """Weights, keys and values of one replica, bytes."""
    return model.weight_bytes + _kv_bytes(model, target, chips, batch, length)


def _chips_per_replica(
    model: ModelShape,
    target: Platform,
    inputs: Inputs,
    batch: int,
    length: int,
    asked: int | None,
) -> int:
    """`asked`, or the widest usual group that the model fits, or enough whole instances."""
    count = target.instance.count
    room = target.instance.memory_bytes / count * inputs.use("usable memory fraction")

    def fits(chips: int) -> bool:
        return _bytes(model, target, chips, batch, length) <= chips * room

    if asked is not None and (asked < 1 or count % asked):
        legal = ", ".join(str(size) for size in range(1, count + 1) if count % size == 0)
        raise BadInput(f"chips_per_replica must divide {count}: one of {legal}, not {asked}")
    sizes = [asked] if asked else [math.gcd(count, _WIDEST), count]
    sizes += [] if asked else [instances * count for instances in range(2, _MOST_INSTANCES + 1)]
    for size in sizes:
        if fits(size):
            return size
    needed = _bytes(model, target, sizes[-1], batch, length)
    raise OutOfMemory(
        f"{model.name}: {sizes[-1]} chips of {target.instance.name} have "
        f"{sizes[-1] * room / 2**30:.0f} GiB usable; weights, keys and values of batch {batch} "
        f"x {length} tokens need {needed / 2**30:.0f} GiB",
        fix="lower the batch or the context, or use more chips per replica",
    )


def _latencies_s(
    model: ModelShape,
    target: Platform,
    inputs: Inputs,
    chips: int,
    batch: int,
    context: int,
    length: int,
) -> tuple[Samples, Samples]:
    """TTFT and TPOT of a replica of `chips`; the chips of one instance work at a time."""
    count = target.instance.count
    fixed_s = _fixed_s(model, inputs, max(1, chips // count))
    at_once = min(chips, count)
    return (
        _prefill_s(model, inputs, at_once, context) + fixed_s,
        _decode_s(model, target, inputs, at_once, batch, length) + fixed_s,
    )


def _fixed_s(model: ModelShape, inputs: Inputs, instances: int) -> Samples:
    """``2 L half-layer latency + (instances - 1) EFA hop``."""
    fixed_s = 2 * model.layers * inputs.draw("half-layer latency s")
    if instances > 1:
        fixed_s = fixed_s + (instances - 1) * inputs.draw("EFA hop s")
    return fixed_s


def _prefill_s(model: ModelShape, inputs: Inputs, chips: int, context: int) -> Samples:
    """``C (2 N + 2 L D C) / (chips peak efficiency)``, or reading the weights once if longer."""
    causal_flop = context * model.decode_flop_per_token(context // 2)
    peak = chips * inputs.draw("peak FLOP/s (bf16)") * inputs.draw("prefill efficiency")
    hbm = chips * inputs.draw("HBM bytes/s") * inputs.draw("HBM efficiency")
    return np.maximum(causal_flop / peak, model.weight_bytes / hbm)


def _decode_s(
    model: ModelShape, target: Platform, inputs: Inputs, chips: int, batch: int, length: int
) -> Samples:
    """``max((weights read + keys and values) / HBM, batch (2 N + 4 L D C) / peak)``."""
    read = model.weight_bytes_read(batch) + _kv_bytes(model, target, chips, batch, length)
    flop = batch * model.decode_flop_per_token(length)
    hbm = chips * inputs.draw("HBM bytes/s") * inputs.draw("HBM efficiency")
    peak = chips * inputs.draw("peak FLOP/s (bf16)") * inputs.draw("prefill efficiency")
    return np.maximum(read / hbm, flop / peak)


def _usd(price: Quote, instances: int, tokens_per_s: Samples) -> Interval | None:
    """``instances USD per hour / (tokens per second 3600) 1e6``."""
    if price.usd_per_hour is None:
        return None
    return interval(instances * price.usd_per_hour / (tokens_per_s * 3600) * 1e6)
