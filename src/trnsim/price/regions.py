"""AWS regions as codes, and the codes that a price's stated region covers.

Sources write regions in several ways: ``us-east-1, us-east-2``, ``us-east-2 az3``, ``US``,
``outside US``, ``Melbourne``, ``most``, ``not stated``. ``US`` and ``outside US`` count in the
regions that they name; any other price whose source names no single region counts in every region.
A price is shown with the source's words for its region.
"""

from __future__ import annotations

import re
from typing import Final

from trnsim.arch.prices import Price
from trnsim.errors import BadInput

LEGAL_REGION: Final = "the code of an AWS region, such as us-east-1"
"""The legal values of a region, in words."""

_CODE_PATTERN: Final = re.compile(r"(?:eusc|[a-z]{2})(?:-[a-z]+)+-\d+")
"""Codes of regions; those of the European Sovereign Cloud begin with eusc."""
_CODES_BY_NAME: Final = {"Melbourne": ("ap-southeast-4",), "Dallas Local Zone": ("us-east-1",)}
"""Names of places in sources, as codes: the local zone of Dallas belongs to us-east-1."""


def is_region(text: str) -> bool:
    """True if `text` has the form of a region's code."""
    return _CODE_PATTERN.fullmatch(text) is not None


def check_region(text: str) -> str:
    """`text`, if it has the form of a region's code.

    Raises:
        BadInput: it has another form.
    """
    if not is_region(text):
        raise BadInput(f"region is {text!r}; legal: {LEGAL_REGION}")
    return text


def codes(price: Price) -> tuple[str, ...]:
    """Codes of the regions that a price states; none where it states no single region."""
    return _CODES_BY_NAME.get(price.region) or tuple(_CODE_PATTERN.findall(price.region))


def covers(price: Price, region: str) -> bool:
    """True if `price` holds in `region`, as far as its source says."""
    is_us = region.startswith("us-")
    region_codes = codes(price)
    if price.region.startswith("US"):
        return is_us or region in region_codes
    if price.region == "outside US":
        return not is_us
    return region in region_codes if region_codes else True
