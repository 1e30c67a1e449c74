"""Times in an answer's JSON with their parts, by command.

| answer | times |
|---|---|
| plan infer | latency |
| plan train | step |
| plan serve | TTFT, TPOT, and the prefill and the decode step of median time |
| plan layer | layer |
| plan collective | collective |
| compile | pass |
| assess | the step, token or item of each candidate |

Parts add up to the median. The remainder that the parts of an answer do not cover is a part of its
own:

- TPOT: "median less mean", as the answer has parts of the mean;
- TTFT: "waiting", the excess over the prefill step of median time; it is negative if the prompts
  of the median request are shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from trnsim.decide.difference import is_number
from trnsim.errors import BadInput
from trnsim.estimate.estimate import QUANTILES
from trnsim.formatting import clipped

COLLECTIVE: Final = "collective"
LAYER: Final = "layer"
TTFT: Final = "TTFT"
TPOT: Final = "TPOT"
STEP: Final = "step"
REMAINDER: Final = "in no part"
_WAITING_TERM: Final = "waiting"
_MEDIAN_TERM: Final = "median less mean"
_S_PER_MS: Final = 1e-3
_LARGEST_ROUNDING: Final = 1e-12
"""Maximum share of a time that is treated as rounding."""
_PASS_SIZES: Final = ("batch", "tokens", "past")
_WORK_BY_KIND: Final = {"train": "step", "serve": "token", "infer": "item"}
"""Unit of work of a candidate's milliseconds, by kind of workload."""
_FIX: Final = "give it as trnsim printed it"
_MOST_VALUE_CHARS: Final = 40
_MOST_NUMBER: Final = 1e30
"""Maximum of a number in an answer, so that sums of numbers are finite."""
_MOST_SPREAD: Final = 100
"""Maximum of the sigma of a logarithm, so that quantiles are finite."""


@dataclass(frozen=True)
class Time:
    """A time of an answer.

    Attributes:
        name: name of the time: a step, TTFT, ...
        phase: prefill, decode, encode, train or collective; "" if unknown.
        p50_s: median seconds.
        interval_s: P10 and P90; None without an interval.
        parts_s: seconds by cause, which add up to `p50_s`; empty if the time was measured.
        sizes: sizes of the pass: batch, tokens, and past (tokens in the KV cache).
        sources: sources of the parts, by part.
        conditions: assumptions of the time, and extrapolations beyond its sources.
        is_measured: True if the time is from a log.
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
    """An object in an answer's JSON, whose fields are checked as they are read.

    Attributes:
        plain: the object as parsed.
        where: answer and keys that lead to the object, for messages.
    """

    def __init__(self, plain: object, source: str) -> None:
        if not isinstance(plain, Mapping):
            raise BadInput(f"{source} is {_value_text(plain)}; legal: an object", fix=_FIX)
        self.plain = plain
        self.where = source

    def object_at(self, key: str) -> Values:
        """The object at a key."""
        return Values(self.plain.get(key), f"{self.where}: {key}")

    def has_value(self, key: str) -> bool:
        """True if there is a value at a key."""
        return self.plain.get(key) is not None

    def seconds(self, key: str) -> float:
        """Time in seconds at a key, at least 0."""
        time_s = self.number(key)
        if time_s < 0:
            raise BadInput(f"{self.where}: {key} is {time_s}; legal: from 0 on", fix=_FIX)
        return time_s

    def number(self, key: str) -> float:
        """Number at a key."""
        value: Any = self.plain.get(key)
        if not is_number(value) or abs(value) > _MOST_NUMBER:
            raise BadInput(
                f"{self.where}: {key} is {_value_text(value)}; legal: a number, at most "
                f"{_MOST_NUMBER:g}",
                fix=_FIX,
            )
        return float(value)

    def numbers(self) -> dict[str, float]:
        """All fields as numbers."""
        return {str(key): self.number(key) for key in self.plain}

    def words(self, key: str) -> tuple[str, ...]:
        """List of text at a key, which may be missing."""
        words = self.plain.get(key, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise BadInput(
                f"{self.where}: {key} is {_value_text(words)}; legal: a list of text", fix=_FIX
            )
        return tuple(words)

    def interval(self, key: str) -> tuple[float, tuple[float, float]]:
        """P50, and P10 with P90, at a key."""
        quantiles = self.object_at(key)
        return quantiles.seconds("p50"), (quantiles.seconds("p10"), quantiles.seconds("p90"))


def times(kind: str, plain: Mapping[str, Any], source: str) -> tuple[Time, ...]:
    """Times of an answer of a command.

    Raises:
        BadInput: a time is not in the form that the command writes.
    """
    reader = _READERS_BY_KIND.get(kind)
    return () if reader is None else tuple(reader(Values(plain, source)))


def _infer_times(plan: Values) -> list[Time]:
    return (
        [_estimated_time("latency", "encode", plan.object_at("estimate"))]
        if plan.has_value("estimate")
        else []
    )


def _train_times(values: Values) -> list[Time]:
    if values.has_value("estimate"):
        return [_estimated_time(STEP, "train", values.object_at("estimate"))]
    if not values.has_value("parts_s"):
        return []
    p50_s, interval_s = values.interval("step_s")
    parts = _with_rest(values.object_at("parts_s").numbers(), p50_s)
    return [Time(STEP, "train", p50_s, interval_s, parts)]


def _serve_times(values: Values) -> list[Time]:
    steps = {
        phase: _estimated_time(f"{phase} step", phase, values.object_at(f"{phase}_step"))
        for phase in ("prefill", "decode")
        if values.has_value(f"{phase}_step")
    }
    latencies: list[Time] = []
    if "prefill" in steps:
        latencies.append(_run_latency(TTFT, values, "ttft_p50_s", steps["prefill"], _WAITING_TERM))
    if values.has_value("token_parts_s") and values.has_value("tpot_p50_s"):
        parts = values.object_at("token_parts_s").numbers()
        median_step = steps.get("decode", Time("", "decode", 0.0))
        latencies.append(_run_latency(TPOT, values, "tpot_p50_s", median_step, _MEDIAN_TERM, parts))
    return [*latencies, *steps.values()]


def _run_latency(
    name: str,
    values: Values,
    key: str,
    median_step: Time,
    rest_name: str,
    parts: Mapping[str, float] | None = None,
) -> Time:
    """Latency of a simulated run of a server, with its parts.

    Args:
        name: name of the latency.
        values: the answer.
        key: field of the latency.
        median_step: step of median time, which gives the phase, sources and conditions.
        rest_name: name of the part for the remainder.
        parts: seconds by cause; None for the parts of `median_step`.
    """
    p50_s, interval_s = values.interval(key)
    all_parts = _with_rest(median_step.parts_s if parts is None else parts, p50_s, rest_name)
    return Time(
        name,
        median_step.phase,
        p50_s,
        interval_s,
        all_parts,
        {},
        median_step.sources,
        median_step.conditions,
    )


def _layer_times(values: Values) -> list[Time]:
    answer = values.object_at("answer")
    p50_s, spread = answer.seconds("time_s"), answer.number("spread")
    if not 0 <= spread <= _MOST_SPREAD:
        raise BadInput(
            f"{answer.where}: spread is {spread:g}; legal: 0 to {_MOST_SPREAD}", fix=_FIX
        )
    low, high = (p50_s * math.exp(QUANTILES[name] * spread) for name in ("p10", "p90"))
    sources = {LAYER: str(answer.plain.get("source", ""))}
    parts = _with_rest(answer.object_at("parts_s").numbers(), p50_s)
    phase = str(values.plain.get("phase", ""))
    return [Time(LAYER, phase, p50_s, (low, high), parts, _sizes_of_pass(values), sources)]


def _collective_times(values: Values) -> list[Time]:
    p50_s, interval_s = values.interval("time_s")
    parts = {"latencies": values.seconds("latency_s"), "bytes": values.seconds("bytes_s")}
    all_parts = _with_rest(parts, p50_s, "median of draws less these")
    return [Time(COLLECTIVE, COLLECTIVE, p50_s, interval_s, all_parts)]


def _compile_times(values: Values) -> list[Time]:
    phase = values.plain.get("phase", "")
    estimate = _estimated_time(
        "pass", phase if isinstance(phase, str) else "", values.object_at("estimate")
    )
    return [replace(estimate, sizes=_sizes_of_pass(values))]


def _assess_times(values: Values) -> list[Time]:
    work = _WORK_BY_KIND.get(str(values.plain.get("kind")), "item")
    times_s = []
    candidates = values.plain.get("candidates")
    for position, plain in enumerate(candidates if isinstance(candidates, list) else []):
        candidate = Values(plain, f"{values.where}: candidates: {position}")
        if candidate.has_value("ms"):
            parts = {key: ms * _S_PER_MS for key, ms in candidate.object_at("ms").numbers().items()}
            name = f"{work} on {candidate.plain.get('instance')}"
            if parts:
                times_s.append(Time(name, work, math.fsum(parts.values()), None, parts))
    return times_s


_READERS_BY_KIND: Final[Mapping[str, Callable[[Values], list[Time]]]] = MappingProxyType(
    {
        "plan infer": _infer_times,
        "plan train": _train_times,
        "plan serve": _serve_times,
        "plan layer": _layer_times,
        "plan collective": _collective_times,
        "compile": _compile_times,
        "assess": _assess_times,
    }
)


def _estimated_time(name: str, phase: str, values: Values) -> Time:
    """Time in the form of `Estimate.as_dict`."""
    p50_s = values.seconds("p50_s")
    sources = values.object_at("sources").plain if values.has_value("sources") else {}
    return Time(
        name,
        phase,
        p50_s,
        (values.seconds("p10_s"), values.seconds("p90_s")),
        _with_rest(values.object_at("parts_s").numbers(), p50_s),
        _sizes_of_pass(values),
        {str(key): str(value) for key, value in sources.items()},
        (*values.words("conditions"), *values.words("extrapolations")),
    )


def _sizes_of_pass(values: Values) -> dict[str, Any]:
    return {key: values.plain[key] for key in _PASS_SIZES if isinstance(values.plain.get(key), int)}


def _with_rest(
    parts_s: Mapping[str, float], p50_s: float, rest_name: str = REMAINDER
) -> dict[str, float]:
    """Parts other than 0, with the remainder of the median as a part called `rest_name`."""
    parts = {name: time_s for name, time_s in parts_s.items() if time_s}
    remainder_s = p50_s - math.fsum(parts.values())
    if abs(remainder_s) > _LARGEST_ROUNDING * p50_s:
        parts[rest_name] = parts.get(rest_name, 0.0) + remainder_s
    return parts


def _value_text(value: object) -> str:
    """Short form of a value, for messages."""
    if value is None:
        return "missing"
    return clipped(repr(value), _MOST_VALUE_CHARS)
