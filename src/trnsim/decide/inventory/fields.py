"""Fields of an inventory's rows and of rows beside a bill: meaning, unit and legal values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal

from trnsim.decide.inventory.workload import Kind, PortState
from trnsim.price.quotes import KINDS as PURCHASE_KINDS
from trnsim.price.regions import LEGAL_REGION, is_region
from trnsim.reader import FileRecord, Rule, between, declared

_Framework = Literal["pytorch", "jax", "tensorflow", "cuda", "other"]
_OTHER_CLOUDS: Final = ("azure", "gcp", "oracle", "coreweave", "on_premises", "other")

MOST_USD: Final = 1e10
"""Maximum USD a month: above the total AWS bill of any company."""
_MOST_VOLUME: Final = 1e17
"""Maximum tokens or items a month: the work of a million accelerators at 3e9 a day each."""
MOST_GPU_HOURS: Final = 1e10
"""Maximum accelerator-hours a month: the hours of 13 million accelerators."""
_MOST_S: Final = 2.7e6
"""Seconds of the longest month."""
_MOST_HOURS: Final = 744.0
"""Hours of the longest month."""
_MOST_COUNT: Final = 1_000_000
_MOST_TOKENS: Final = 100_000_000
_MOST_PIXELS: Final = 100_000
_MOST_WEEKS: Final = 10_000.0
_MOST_RATIO: Final = 1_000.0
_ALL_PERCENT: Final = 100


def _region(text: str) -> str:
    if not is_region(text):
        raise ValueError
    return text


def _number(help_text: str, unit: str, maximum: float, example: str = "") -> Any:
    return declared(
        None, help=help_text, unit=unit, exclusive_minimum=0, maximum=maximum, example=example
    )


@dataclass(frozen=True, kw_only=True)
class InventoryRow(FileRecord):
    """A workload in an inventory; it has exactly one of the three volumes."""

    workload: str = declared(help="name of the workload, unique in the inventory", example="chat")
    model_config: str = declared(
        help="the model",
        legal="path of a Hugging Face config.json in or below the inventory's folder, or a name of "
        "trnsim models",
        example="config.json",
    )
    kind: Kind = declared(help="what is done with the model", example="serve")
    tokens_per_month: float | None = _number(
        "tokens trained on, or written by a service", "tokens/month", _MOST_VOLUME, "6e9"
    )
    items_per_month: float | None = _number(
        "sequences or images of kind infer", "items/month", _MOST_VOLUME
    )
    gpu_hours: float | None = _number(
        "accelerator-hours on the current instance, in place of tokens or items",
        "hours/month",
        MOST_GPU_HOURS,
    )
    current_instance: str = declared(
        help="instance type on which the workload runs today",
        legal="a name of trnsim instances, such as p5.48xlarge",
        example="p5.48xlarge",
    )
    current_count: int | None = _number("number of instances", "instances", _MOST_COUNT, "2")
    purchase_kind: str = declared(
        "on_demand",
        help="purchase kind of the instances",
        legal=PURCHASE_KINDS,
        example="on_demand",
    )
    usd_per_month: float = declared(
        help="monthly bill of the instances",
        unit="USD/month",
        exclusive_minimum=0,
        maximum=MOST_USD,
        example="80000",
    )
    region: str | None = declared(
        None,
        help="AWS region of the instances",
        parse=_region,
        legal=LEGAL_REGION,
        example="us-east-1",
    )
    as_of: date | None = declared(
        None, help="last day of the bill, not in the future", example="2026-10-31"
    )
    sequence: int | None = _number(
        "length of a sequence of training or of kind infer", "tokens", _MOST_TOKENS
    )
    input_len: int | None = _number("length of a request", "tokens", _MOST_TOKENS, "1000")
    output_len: int | None = _number("length of an answer", "tokens", _MOST_TOKENS, "200")
    batch: int | None = _number(
        "sequences or images of a training step or of a pass", "items", _MOST_COUNT
    )
    image: int | None = _number("side of an image", "pixels", _MOST_PIXELS)
    steps: int | None = _number(
        "passes of the model for one item, such as denoising steps", "passes", _MOST_COUNT
    )
    ttft_s: float | None = _number("limit of the time to the first token", "s", _MOST_S, "1")
    tpot_s: float | None = _number("limit of the time for each further token", "s", _MOST_S, "0.05")
    latency_s: float | None = _number("limit of the time of a whole request or pass", "s", _MOST_S)
    percentile: float = declared(
        99.0,
        help="share of requests that keep the limits",
        unit="percent",
        exclusive_minimum=0,
        exclusive_maximum=_ALL_PERCENT,
        example="99",
    )
    deadline_hours: float | None = _number(
        "hours within which a month's training or offline inference must end", "hours", _MOST_HOURS
    )
    peak_ratio: float | None = between(
        "demand of the busiest hour over the mean", 1, _MOST_RATIO, None, example="2"
    )
    port_state: PortState = declared(
        "tuned",
        help="state of a mixture of experts' port to AWS's chips",
        example="tuned",
    )
    sources: tuple[str, ...] = declared(
        (),
        help="program files (.py, .cu, .pt2) and folders to scan",
        each=Rule(legal="a path in or below the inventory's folder"),
    )
    framework: _Framework | None = declared(
        None, help="framework of the programs", example="pytorch"
    )
    staff_weeks: float | None = between(
        "engineer-weeks that can be given to a migration",
        0,
        _MOST_WEEKS,
        None,
        unit="weeks",
        example="12",
    )
    other_clouds: tuple[str, ...] = declared(
        (),
        help="other clouds on which the workload runs",
        each=Rule(legal=_OTHER_CLOUDS),
        example="gcp",
    )
    portability_needed: bool = declared(
        False, help="whether the same program must run on the other clouds", example="no"
    )
    committed_to_aws: bool | None = declared(
        None, help="whether the company means to stay with AWS", example="yes"
    )


def _pair(text: str) -> tuple[str, str]:
    """Key and value of a tag, from KEY=VALUE."""
    key, is_pair, value = text.partition("=")
    if not is_pair:
        raise ValueError
    return key.strip(), value.strip()


def _refusal(text: str) -> None:
    """Parser that refuses every text."""
    raise ValueError(text)


def _empty_beside_bill(help_text: str) -> Any:
    """Field that must stay empty, as the bill states its value."""
    return declared(None, help=help_text, parse=_refusal, legal="nothing: the bill states it")


@dataclass(frozen=True, kw_only=True)
class BilledRow(InventoryRow):
    """A workload beside a bill that states its instance, purchase kind, region, hours and cost.

    The row selects usage of the bill by tag, by resource, or by current_instance, purchase_kind and
    region.
    """

    tag: tuple[tuple[str, str], ...] = declared(
        (), help="tags that select usage of the bill", each=Rule(parse=_pair, legal="KEY=VALUE")
    )
    resource: tuple[str, ...] = declared((), help="resource ids that select usage of the bill")
    current_instance: str = declared("", help="instance type that selects usage of the bill")
    usd_per_month: float = declared(
        0.0,
        help="cost of usage for which the bill has no cost, such as a capacity block",
        unit="USD/month",
        exclusive_minimum=0,
        maximum=MOST_USD,
    )
    gpu_hours: None = _empty_beside_bill("accelerator-hours")
    current_count: None = _empty_beside_bill("number of instances")
    as_of: None = _empty_beside_bill("last day of the bill")
