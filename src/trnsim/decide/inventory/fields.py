"""The fields of an inventory: what each means, its unit, and its legal values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.decide.inventory.workload import KINDS, VOLUME_UNITS
from trnsim.price.quotes import KINDS as PURCHASE_KINDS
from trnsim.price.regions import REGION

FRAMEWORKS: Final = ("pytorch", "jax", "tensorflow", "cuda", "other")
CLOUDS: Final = ("azure", "gcp", "oracle", "coreweave", "on_premises", "other")
YES_NO: Final = ("yes", "no")

MOST_USD: Final = 1e10
"""USD a month; more than any company's whole bill of AWS."""
MOST_VOLUME: Final = 1e17
"""Tokens or items a month: more than a million accelerators of 1e10 a day would do."""
MOST_GPU_HOURS: Final = 1e10
"""A month of 13 million accelerators."""
MOST_S: Final = 2.7e6
"""Seconds of the longest month."""
MOST_HOURS: Final = 744.0
"""Hours of the longest month."""
MOST_COUNT: Final = 1_000_000
MOST_TOKENS: Final = 100_000_000
MOST_PIXELS: Final = 100_000
MOST_WEEKS: Final = 10_000.0
MOST_RATIO: Final = 1_000.0
MOST_PERCENT: Final = 99.999


@dataclass(frozen=True)
class Field:
    """A field of an inventory.

    Attributes:
        unit: of a number; "" for text.
        legal: its legal values, in words.
        example: a legal value, or "" for a field that the example leaves out.
        is_required: whether every workload states it.
    """

    name: str
    meaning: str
    legal: str
    unit: str = ""
    is_required: bool = False
    example: str = ""


_NUMBER: Final = "a number above 0"
_WHOLE: Final = "a whole number above 0"

FIELDS: Final = (
    Field(
        "workload", "name of the workload", "text; no name twice", is_required=True, example="chat"
    ),
    Field(
        "model_config",
        "the model",
        "path of a Hugging Face config.json in or below the inventory's folder",
        is_required=True,
        example="config.json",
    ),
    Field(
        "kind", "what is done with the model", ", ".join(KINDS), is_required=True, example="serve"
    ),
    Field(
        VOLUME_UNITS[0],
        "tokens trained on, or written by a service",
        _NUMBER,
        "tokens/month",
        example="6e9",
    ),
    Field(VOLUME_UNITS[1], "sequences or images of kind infer", _NUMBER, "items/month"),
    Field(
        VOLUME_UNITS[2],
        "hours of accelerators of the current instance, in place of the two above",
        _NUMBER,
        "hours/month",
    ),
    Field(
        "current_instance",
        "the instance that it runs on today",
        "a name of trnsim instances, such as p5.48xlarge",
        is_required=True,
        example="p5.48xlarge",
    ),
    Field("current_count", "how many of them", _WHOLE, "instances", example="2"),
    Field(
        "purchase_kind",
        "how they are bought; on_demand if empty",
        ", ".join(PURCHASE_KINDS),
        example="on_demand",
    ),
    Field(
        "usd_per_month",
        "what they are billed",
        _NUMBER,
        "USD/month",
        is_required=True,
        example="80000",
    ),
    Field("region", "where they run", REGION, example="us-east-1"),
    Field(
        "as_of",
        "last day of that bill",
        "a day as 2026-11-21, not in the future",
        example="2026-10-31",
    ),
    Field("sequence", "length of a sequence that is trained on or passed", _WHOLE, "tokens"),
    Field("input_len", "length of a request", _WHOLE, "tokens", example="1000"),
    Field("output_len", "length of its answer", _WHOLE, "tokens", example="200"),
    Field("batch", "sequences or images of a step or a pass", _WHOLE, "items"),
    Field("image", "side of an image", _WHOLE, "pixels"),
    Field("steps", "passes that make one item, such as denoising steps", _WHOLE, "passes"),
    Field("ttft_s", "limit of the time to the first token", _NUMBER, "s", example="1"),
    Field("tpot_s", "limit of the time for each further token", _NUMBER, "s", example="0.05"),
    Field("latency_s", "limit of the time of a whole request or pass", _NUMBER, "s"),
    Field(
        "percentile",
        "share of requests that keep the limits; 99 if empty",
        "a number above 0 and below 100",
        "percent",
        example="99",
    ),
    Field("deadline_hours", "hours within which a month's training must end", _NUMBER, "hours"),
    Field(
        "peak_ratio",
        "demand of the busiest hour over the mean",
        "a number, 1 or more",
        "ratio",
        example="2",
    ),
    Field(
        "sources",
        "program files (.py, .cu, .pt2) and folders to scan",
        "paths in or below the inventory's folder; in CSV with semicolons between them",
    ),
    Field(
        "framework", "what the programs are written in", ", ".join(FRAMEWORKS), example="pytorch"
    ),
    Field(
        "staff_weeks",
        "engineer-weeks that can be given to a migration",
        "a number, 0 or more",
        "weeks",
        example="12",
    ),
    Field("other_clouds", "where else it runs", f"any of {', '.join(CLOUDS)}", example="gcp"),
    Field(
        "portability_needed",
        "whether it must run there unchanged; no if empty",
        "yes, no",
        example="no",
    ),
    Field(
        "committed_to_aws", "whether the company means to stay with AWS", "yes, no", example="yes"
    ),
)

NAMES: Final = tuple(field.name for field in FIELDS)
REQUIRED: Final = tuple(field.name for field in FIELDS if field.is_required)
