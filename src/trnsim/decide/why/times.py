"""The times in an answer's JSON, each with its parts, by the command that gave it.

| answer | times |
|---|---|
| plan infer | latency |
| plan train | step |
| plan serve | TTFT, TPOT, and the prefill and the decode step of median time |
| plan layer | layer |
| plan collective | collective |
| compile | pass |
| assess | the step, token or item of each candidate |

Parts add up to the median. What those that an answer states leave over is a part of its own: of
TPOT, the median less the mean that its parts are of; of TTFT, "waiting": what it is above the
prefill step of median time, which is below 0 where its own prompts are the shorter ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.estimate.estimate import QUANTILES
from trnsim.formatting import clipped

COLLECTIVE: Final = "collective"
LAYER: Final = "layer"
TTFT: Final = "TTFT"
TPOT: Final = "TPOT"
STEP: Final = "step"
REST: Final = "in no part"
_WAITING: Final = "waiting"
_MEDIAN: Final = "median less mean"
_S_PER_MS: Final = 1e-3
_ROUNDING: Final = 1e-12
"""Of a time, the most that its parts may lack without being said to."""
_SIZES: Final = ("batch", "tokens", "past")
_WORK: Final = {"train": "step", "serve": "token", "infer": "item"}
"""What a candidate of each kind of workload takes its milliseconds for."""
_FIX: Final = "give it as trnsim printed it"
_WIDTH: Final = 40


@dataclass(frozen=True)
class Time:
    """A time of an answer.

    Attributes:
        name: what takes it: a step, TTFT, ...
        phase: prefill, decode, encode, train or collective; "" where it is not known.
        p50_s: median seconds.
        interval_s: P10 and P90; None where there is none.
        parts_s: seconds by cause, which add up to `p50_s`; nothing where it was measured.
        sizes: batch, tokens and past of the pass.
        sources: what its parts rest on.
        conditions: what was taken for granted, and in what it lies outside its source.
        is_measured: whether it is from a log.
    """

    name: str
    phase: str
    p50_s: float
    interval_s: tuple[float, float] | None = None
    parts_s: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    is_measured: bool = False


class Values:
    """What a part of an answer holds, checked as it is read.

    Attributes:
        plain: the part.
        where: the answer and the keys of the part in it, for messages.
    """

    def __init__(self, plain: object, where: str) -> None:
        if not isinstance(plain, Mapping):
            raise BadInput(f"{where} is {_shown(plain)}; legal: an object", fix=_FIX)
        self.plain = plain
        self.where = where

    def part(self, key: str) -> Values:
        """The object at a key."""
        return Values(self.plain.get(key), f"{self.where}: {key}")

    def has(self, key: str) -> bool:
        """Whether there is something at a key."""
        return self.plain.get(key) is not None

    def seconds(self, key: str) -> float:
        """A time, which is no less than 0."""
        found = self.number(key)
        if found < 0:
            raise BadInput(f"{self.where}: {key} is {found}; legal: from 0 on", fix=_FIX)
        return found

    def number(self, key: str) -> float:
        """A number."""
        found: Any = self.plain.get(key)
        is_number = isinstance(found, int | float) and not isinstance(found, bool)
        if not is_number or not _is_finite(found):
            raise BadInput(
                f"{self.where}: {key} is {_shown(found)}; legal: a number of seconds", fix=_FIX
            )
        return float(found)

    def numbers(self) -> dict[str, float]:
        """All that is there, as numbers."""
        return {str(key): self.number(key) for key in self.plain}

    def words(self, key: str) -> tuple[str, ...]:
        """A list of text, which may be missing."""
        found = self.plain.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise BadInput(
                f"{self.where}: {key} is {_shown(found)}; legal: a list of text", fix=_FIX
            )
        return tuple(found)

    def interval(self, key: str) -> tuple[float, tuple[float, float]]:
        """P50, and P10 with P90."""
        found = self.part(key)
        return found.seconds("p50"), (found.seconds("p10"), found.seconds("p90"))


def times(kind: str, plain: Mapping[str, Any], where: str) -> tuple[Time, ...]:
    """The times of an answer of a command.

    Raises:
        BadInput: one of them is not as that command writes it.
    """
    reader = _READERS.get(kind)
    return () if reader is None else tuple(reader(Values(plain, where)))


def _infer(one: Values) -> list[Time]:
    return [_estimate("latency", "encode", one.part("estimate"))] if one.has("estimate") else []


def _train(one: Values) -> list[Time]:
    if one.has("estimate"):
        return [_estimate(STEP, "train", one.part("estimate"))]
    if not one.has("parts_s"):
        return []
    p50_s, interval_s = one.interval("step_s")
    parts = _with_rest(one.part("parts_s").numbers(), p50_s)
    return [Time(STEP, "train", p50_s, interval_s, parts)]


def _serve(one: Values) -> list[Time]:
    steps = {
        phase: _estimate(f"{phase} step", phase, one.part(f"{phase}_step"))
        for phase in ("prefill", "decode")
        if one.has(f"{phase}_step")
    }
    found: list[Time] = []
    if "prefill" in steps:
        found.append(_of_run(TTFT, one, "ttft_p50_s", steps["prefill"], _WAITING))
    if one.has("token_parts_s") and one.has("tpot_p50_s"):
        parts = one.part("token_parts_s").numbers()
        like = steps.get("decode", Time("", "decode", 0.0))
        found.append(_of_run(TPOT, one, "tpot_p50_s", like, _MEDIAN, parts))
    return [*found, *steps.values()]


def _of_run(
    name: str,
    one: Values,
    key: str,
    like: Time,
    rest: str,
    parts: Mapping[str, float] | None = None,
) -> Time:
    """A latency of a run, whose parts are those given or those of a step like it."""
    p50_s, interval_s = one.interval(key)
    whole = _with_rest(like.parts_s if parts is None else parts, p50_s, rest)
    return Time(name, like.phase, p50_s, interval_s, whole, {}, like.sources, like.conditions)


def _layer(one: Values) -> list[Time]:
    found = one.part("answer")
    p50_s, spread = found.seconds("time_s"), found.seconds("spread")
    low, high = (_at(p50_s, spread, quantile) for quantile in ("p10", "p90"))
    sources = {LAYER: str(found.plain.get("source", ""))}
    parts = _with_rest(found.part("parts_s").numbers(), p50_s)
    phase = str(one.plain.get("phase", ""))
    return [Time(LAYER, phase, p50_s, (low, high), parts, _sizes(one), sources)]


def _at(p50_s: float, sigma: float, quantile: str) -> float:
    try:
        return p50_s * math.exp(QUANTILES[quantile] * sigma)
    except OverflowError:
        return math.inf


def _collective(one: Values) -> list[Time]:
    p50_s, interval_s = one.interval("time_s")
    parts = {"latencies": one.seconds("latency_s"), "bytes": one.seconds("bytes_s")}
    whole = _with_rest(parts, p50_s, "median of draws less these")
    return [Time(COLLECTIVE, COLLECTIVE, p50_s, interval_s, whole)]


def _compile(one: Values) -> list[Time]:
    phase = one.plain.get("phase", "")
    found = _estimate("pass", phase if isinstance(phase, str) else "", one.part("estimate"))
    return [replace(found, sizes=_sizes(one))]


def _assess(one: Values) -> list[Time]:
    work = _WORK.get(str(one.plain.get("kind")), "item")
    found = []
    candidates = one.plain.get("candidates")
    for place, plain in enumerate(candidates if isinstance(candidates, list) else []):
        each = Values(plain, f"{one.where}: candidates: {place}")
        if each.has("ms"):
            parts = {key: ms * _S_PER_MS for key, ms in each.part("ms").numbers().items()}
            name = f"{work} on {each.plain.get('instance')}"
            if parts:
                found.append(Time(name, work, math.fsum(parts.values()), None, parts))
    return found


_READERS: Final[Mapping[str, Callable[[Values], list[Time]]]] = MappingProxyType(
    {
        "plan infer": _infer,
        "plan train": _train,
        "plan serve": _serve,
        "plan layer": _layer,
        "plan collective": _collective,
        "compile": _compile,
        "assess": _assess,
    }
)


def _estimate(name: str, phase: str, one: Values) -> Time:
    """A time as `Estimate.as_dict` writes it."""
    p50_s = one.seconds("p50_s")
    sources = one.part("sources").plain if one.has("sources") else {}
    return Time(
        name,
        phase,
        p50_s,
        (one.seconds("p10_s"), one.seconds("p90_s")),
        _with_rest(one.part("parts_s").numbers(), p50_s),
        _sizes(one),
        {str(key): str(value) for key, value in sources.items()},
        (*one.words("conditions"), *one.words("extrapolations")),
    )


def _sizes(one: Values) -> dict[str, Any]:
    return {key: one.plain[key] for key in _SIZES if isinstance(one.plain.get(key), int)}


def _with_rest(parts_s: Mapping[str, float], p50_s: float, rest: str = REST) -> dict[str, float]:
    """The parts that are not 0, and what of the median they leave over."""
    found = {name: time_s for name, time_s in parts_s.items() if time_s}
    left_s = p50_s - math.fsum(found.values())
    if abs(left_s) > _ROUNDING * p50_s:
        found[rest] = found.get(rest, 0.0) + left_s
    return found


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond floating point
        return False


def _shown(value: object) -> str:
    """A value for a message."""
    if value is None:
        return "missing"
    return clipped(repr(value), _WIDTH)
