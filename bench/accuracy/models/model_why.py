"""Why a bound is far below a published time, in a sentence beside the row."""

import json
import re
from pathlib import Path

WHY = json.loads(Path(__file__).with_name("bounds.json").read_text(encoding="utf-8"))
"""By a pattern of row ids: a sentence, and the accounts of what the bound leaves out
(`model_gaps`); without accounts a row that is nearer to its bound. The first pattern that fits
counts."""
LEAST = 1 / 3
"""The share of a published time that a bound is, unless a sentence says why not."""


def pattern_of(row_id):
    """The pattern that a row's id fits; "" for none."""
    return next((pattern for pattern in WHY if re.fullmatch(pattern, row_id)), "")


def sentence(row_id, share):
    """Why the bound is so small a share of a row's time; "" where it is not, or nobody knows."""
    pattern = pattern_of(row_id)
    return WHY[pattern]["why"] if pattern and share < LEAST else ""
