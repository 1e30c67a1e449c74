"""Today's prices from AWS's own interfaces, through boto3 and with the user's credentials.

On demand prices are from the Price List, spot prices from its history, capacity blocks from current
offers. Nothing is stored: the rows make a table that `with_own_prices` reads. Nothing is bought,
and no interface that changes anything is called.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, date, datetime
from importlib import import_module
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.foreign_text import table_row

Connect = Callable[[str, str | None], Any]
"""Function from a service ("ec2", "pricing") and a region to its client, as ``boto3.client``."""

PRICING_REGION: Final = "us-east-1"
"""Region of the Price List's endpoint. Source: AWS Billing user guide, price-changes: query API."""
BLOCK_HOURS: Final = 24
_LINUX_PRODUCT: Final = "Linux/UNIX"
_MOST_PAGES: Final = 100
_INSTANCE_PATTERN: Final = re.compile(r"[a-z0-9-]+\.[a-z0-9]+")
_NO_RIGHT: Final = (
    "AccessDenied", "AccessDeniedException", "AuthFailure", "ExpiredToken", "ExpiredTokenException",
    "InvalidClientTokenId", "UnauthorizedOperation", "UnrecognizedClientException",
)  # fmt: skip
_TOO_OFTEN: Final = ("RequestLimitExceeded", "Throttling", "ThrottlingException")
_NEEDED_RIGHTS: Final = (
    "pricing:GetProducts, ec2:DescribeSpotPriceHistory and ec2:DescribeCapacityBlockOfferings"
)


@dataclass(frozen=True)
class CurrentPrice:
    """A price of today from AWS; its fields are columns that `with_own_prices` reads."""

    instance: str
    kind: str
    usd_per_hour: float
    region: str
    as_of: date
    source: str
    note: str


def as_table(prices: Sequence[CurrentPrice]) -> str:
    """The rows as CSV, with a line of fields first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(CurrentPrice)])
    writer.writerows(table_row(astuple(row)) for row in prices)
    return text.getvalue()


def instance_types() -> tuple[str, ...]:
    """The EC2 instance types of the catalogue; UltraServers have no price of their own there."""
    return tuple(filter(_INSTANCE_PATTERN.fullmatch, catalogue().instances))


def refresh(
    region: str | None,
    instances: Sequence[str],
    *,
    connect: Connect | None = None,
    now: datetime | None = None,
) -> list[CurrentPrice]:
    """Prices of `instances` in `region` now; an instance that is not sold there has no row.

    Args:
        region: the code of a region; None for the one of the user's AWS configuration.
        instances: EC2 instance types.
        connect: function that makes clients; by default boto3's.
        now: the time of the prices; by default the present.

    Raises:
        BadInput: boto3 is missing, there are no credentials or no region, or AWS refuses.
    """
    now = now or datetime.now(tz=UTC)
    try:
        return list(_prices(connect or _boto3, region, instances, now))
    except BadInput:
        raise
    except Exception as error:
        if not type(error).__module__.startswith("botocore"):
            raise
        raise _refused(error) from error


def _prices(
    connect: Connect, region: str | None, instances: Sequence[str], now: datetime
) -> Iterator[CurrentPrice]:
    ec2 = connect("ec2", region)
    pricing = connect("pricing", PRICING_REGION)
    region_code = str(ec2.meta.region_name)
    block_instances = {row.instance for row in catalogue().prices if row.kind == "capacity_block"}
    for name in instances:
        yield from _on_demand(pricing, name, region_code, now)
    if instances:  # of an empty list AWS answers for all types
        yield from _spot(ec2, instances, region_code, now)
    for name in instances:
        if name in block_instances:
            yield from _block(ec2, name, region_code, now)


def _boto3(service: str, region: str | None) -> Any:
    try:
        boto3 = import_module("boto3")
    except ImportError as error:
        raise BadInput(
            "prices are read from AWS by boto3, which is not installed",
            fix="pip install 'trnsim[aws]'",
        ) from error
    return boto3.client(service, region_name=region)


def _refused(error: Exception) -> BadInput:
    name = type(error).__name__
    response: Mapping[str, Any] = getattr(error, "response", {})
    code = str(response.get("Error", {}).get("Code", ""))
    if "Credential" in name or name == "TokenRetrievalError":
        return BadInput(
            f"no AWS credentials: {error}",
            fix="aws configure, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    if name == "NoRegionError":
        return BadInput("no AWS region", fix="give --region us-east-1, or set AWS_DEFAULT_REGION")
    if code in _TOO_OFTEN:
        return BadInput(f"AWS answers no more for now: {error}", fix="try again in a minute")
    if code in _NO_RIGHT:
        return BadInput(f"AWS refuses: {error}", fix=f"ask for the rights {_NEEDED_RIGHTS}")
    return BadInput(f"no prices from AWS: {error}")


def _pages(call: Callable[..., Mapping[str, Any]], **request: Any) -> Iterator[Mapping[str, Any]]:
    """All pages of a response.

    Raises:
        BadInput: there are more than `_MOST_PAGES` of them.
    """
    token = ""
    for _ in range(_MOST_PAGES):
        page = call(**request, **({"NextToken": token} if token else {}))
        yield page
        token = str(page.get("NextToken") or "")
        if not token:
            return
    raise BadInput(
        f"AWS has more than {_MOST_PAGES} pages of prices for one request, and the lowest price "
        "may be on a later page",
        fix="name fewer instance types",
    )


def _on_demand(client: Any, name: str, region: str, now: datetime) -> Iterator[CurrentPrice]:
    """Linux, shared tenancy, nothing installed; the Price List's response is JSON within JSON."""
    criteria = {
        "instanceType": name,
        "regionCode": region,
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "tenancy": "Shared",
        "capacitystatus": "Used",
    }
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in criteria.items()
    ]
    for page in _pages(client.get_products, ServiceCode="AmazonEC2", Filters=filters):
        for text in page["PriceList"]:
            for usd in _hourly_usd(json.loads(text)):
                yield CurrentPrice(
                    name, "on_demand", usd, region, now.date(), "AWS pricing.GetProducts", ""
                )


def _hourly_usd(product: Mapping[str, Any]) -> Iterator[float]:
    """USD per hour of each on-demand term; a term of zero is for reserved capacity."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            usd = float(dimension["pricePerUnit"].get("USD", 0))
            if dimension["unit"] == "Hrs" and usd > 0:
                yield usd


def _spot(client: Any, names: Sequence[str], region: str, now: datetime) -> Iterator[CurrentPrice]:
    """The lowest price of each instance over zones; the note has all zones."""
    zones: dict[str, dict[str, tuple[datetime, float]]] = {}
    request = {
        "InstanceTypes": list(names),
        "ProductDescriptions": [_LINUX_PRODUCT],
        "StartTime": now,
        "EndTime": now,
    }
    for page in _pages(client.describe_spot_price_history, **request):
        for row in page["SpotPriceHistory"]:
            prices_by_zone = zones.setdefault(row["InstanceType"], {})
            dated_price = (row["Timestamp"], float(row["SpotPrice"]))
            prices_by_zone[row["AvailabilityZone"]] = max(
                dated_price, prices_by_zone.get(row["AvailabilityZone"], dated_price)
            )
    for name, prices_by_zone in zones.items():
        usd = {zone: price for zone, (_, price) in sorted(prices_by_zone.items())}
        note = "lowest of " + " ".join(f"{zone} {price:g}" for zone, price in usd.items())
        source = "AWS ec2.DescribeSpotPriceHistory"
        yield CurrentPrice(name, "spot", min(usd.values()), region, now.date(), source, note)


def _block(client: Any, name: str, region: str, now: datetime) -> Iterator[CurrentPrice]:
    """The cheapest offer of a block of one instance for a day."""
    request = {"InstanceType": name, "InstanceCount": 1, "CapacityDurationHours": BLOCK_HOURS}
    offers: list[tuple[float, str]] = []
    for page in _pages(client.describe_capacity_block_offerings, **request):
        for offer in page["CapacityBlockOfferings"]:
            hours = offer["CapacityBlockDurationHours"]
            hours += offer.get("CapacityBlockDurationMinutes", 0) / 60
            usd = float(offer["UpfrontFee"]) / hours / offer["InstanceCount"]
            offers.append((usd, f"{offer['AvailabilityZone']} from {offer['StartDate']:%Y-%m-%d}"))
    if offers:
        usd, note = min(offers)
        source = "AWS ec2.DescribeCapacityBlockOfferings"
        yield CurrentPrice(name, "capacity_block", usd, region, now.date(), source, note)
