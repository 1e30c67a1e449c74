"""Prices from AWS: recorded answers, given by botocore's own stub, and each way of failing."""

import json
from contextlib import ExitStack
from datetime import UTC, date, datetime
from types import SimpleNamespace

import pytest

from trnsim.errors import BadInput
from trnsim.price import quote, with_own_prices
from trnsim.price.live import as_table, instance_types, refresh

boto3 = pytest.importorskip("boto3", reason="the extra aws")
exceptions = pytest.importorskip("botocore.exceptions")
stub = pytest.importorskip("botocore.stub")

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EARLIER = datetime(2026, 11, 20, 9, tzinfo=UTC)


def product(usd, unit="Hrs"):
    """An entry of the Price List, as GetProducts documents it."""
    term = {"priceDimensions": {"A.B.C": {"unit": unit, "pricePerUnit": {"USD": usd}}}}
    return json.dumps({"product": {"sku": "A"}, "terms": {"OnDemand": {"A.B": term}}})


def spot(instance, zone, usd, at=NOW):
    return {
        "InstanceType": instance,
        "AvailabilityZone": zone,
        "SpotPrice": usd,
        "Timestamp": at,
        "ProductDescription": "Linux/UNIX",
    }


def offer(fee, hours=24, minutes=0, count=1, zone="us-east-2a"):
    return {
        "CapacityBlockOfferingId": "cb-1",
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": zone,
        "InstanceCount": count,
        "StartDate": datetime(2026, 11, 22, 11, 30, tzinfo=UTC),
        "EndDate": datetime(2026, 11, 23, 11, 30, tzinfo=UTC),
        "CapacityBlockDurationHours": hours,
        "CapacityBlockDurationMinutes": minutes,
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }


@pytest.fixture
def aws():
    """A maker of clients whose answers are recorded: ``aws["ec2"]`` and ``aws["pricing"]``."""
    clients = {
        service: boto3.client(
            service,
            region_name="us-east-2",
            aws_access_key_id="x",
            aws_secret_access_key="y",  # noqa: S106  the stub asks for no real one
        )
        for service in ("ec2", "pricing")
    }
    with ExitStack() as stack:
        yield {name: stack.enter_context(stub.Stubber(client)) for name, client in clients.items()}


def asked(aws, *names):
    def connect(service, region):
        assert service == "ec2" or region == "us-east-1"
        return aws[service].client

    found = refresh("us-east-2", names, connect=connect, now=NOW)
    for one in aws.values():
        one.assert_no_pending_responses()
    return found


def test_on_demand_spot_and_blocks_are_asked_for_one_instance(aws):
    aws["pricing"].add_response(
        "get_products",
        {"PriceList": [product("0.0000000000"), product("40.5"), product("1", "Quantity")]},
        {
            "ServiceCode": "AmazonEC2",
            "Filters": [
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in (
                    ("instanceType", "trn2.48xlarge"),
                    ("regionCode", "us-east-2"),
                    ("operatingSystem", "Linux"),
                    ("preInstalledSw", "NA"),
                    ("tenancy", "Shared"),
                    ("capacitystatus", "Used"),
                )
            ],
        },
    )
    aws["ec2"].add_response(
        "describe_spot_price_history",
        {
            "SpotPriceHistory": [
                spot("trn2.48xlarge", "us-east-2c", "15.0"),
                spot("trn2.48xlarge", "us-east-2c", "9.0", EARLIER),
            ],
            "NextToken": "more",
        },
        {
            "InstanceTypes": ["trn2.48xlarge"],
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": NOW,
            "EndTime": NOW,
        },
    )
    aws["ec2"].add_response(
        "describe_spot_price_history",
        {"SpotPriceHistory": [spot("trn2.48xlarge", "us-east-2a", "16.5")], "NextToken": ""},
        {
            "InstanceTypes": ["trn2.48xlarge"],
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": NOW,
            "EndTime": NOW,
            "NextToken": "more",
        },
    )
    aws["ec2"].add_response(
        "describe_capacity_block_offerings",
        {"CapacityBlockOfferings": [offer("900"), offer("846.0", hours=23, minutes=30)]},
        {"InstanceType": "trn2.48xlarge", "InstanceCount": 1, "CapacityDurationHours": 24},
    )
    found = asked(aws, "trn2.48xlarge")
    assert [(row.kind, row.usd_per_hour) for row in found] == [
        ("on_demand", 40.5),
        ("spot", 15.0),
        ("capacity_block", 36.0),
    ]
    assert found[1].note == "lowest of us-east-2a 16.5 us-east-2c 15"
    assert {row.as_of for row in found} == {date(2026, 11, 20)}


def empty(aws, blocks=False):
    aws["pricing"].add_response("get_products", {"PriceList": []})
    aws["ec2"].add_response("describe_spot_price_history", {"SpotPriceHistory": []})
    if blocks:
        aws["ec2"].add_response("describe_capacity_block_offerings", {"CapacityBlockOfferings": []})


def test_what_is_not_sold_there_has_no_row(aws):
    empty(aws, blocks=True)
    assert asked(aws, "trn2.48xlarge") == []


def test_blocks_are_asked_for_what_is_sold_in_blocks_alone(aws):
    empty(aws)
    assert asked(aws, "g5.xlarge") == []


def test_a_block_of_several_instances_is_priced_by_the_instance(aws):
    aws["pricing"].add_response("get_products", {"PriceList": []})
    aws["ec2"].add_response("describe_spot_price_history", {"SpotPriceHistory": []})
    aws["ec2"].add_response(
        "describe_capacity_block_offerings", {"CapacityBlockOfferings": [offer("480", count=2)]}
    )
    (found,) = asked(aws, "trn2.48xlarge")
    assert found.usd_per_hour == 10


def test_the_rows_are_a_file_of_own_prices(aws, tmp_path):
    aws["pricing"].add_response("get_products", {"PriceList": [product("12.5")]})
    aws["ec2"].add_response(
        "describe_spot_price_history",
        {"SpotPriceHistory": [spot("inf2.48xlarge", "us-east-2b", "3.25")]},
    )
    path = tmp_path / "today.csv"
    path.write_text(as_table(asked(aws, "inf2.48xlarge")))
    rows = with_own_prices(path)
    price = quote("inf2.48xlarge", "spot", as_of=date(2026, 11, 21), region="us-east-2", rows=rows)
    assert price.usd_per_hour == 3.25
    assert "AWS ec2.DescribeSpotPriceHistory" in price.usd_per_hour.provenance.source
    assert quote("inf2.48xlarge", "on_demand", as_of=NOW.date(), rows=rows).usd_per_hour == 12.5


@pytest.mark.parametrize(
    ("code", "message", "fix"),
    [
        ("RequestLimitExceeded", "AWS answers no more for now: ", "try again in a minute"),
        ("UnauthorizedOperation", "AWS refuses: ", "ask for the rights pricing:GetProducts, ec2"),
        ("InvalidParameterValue", "no prices from AWS: ", ""),
    ],
)
def test_a_refusal_of_aws_says_what_to_do(aws, code, message, fix):
    aws["pricing"].add_response("get_products", {"PriceList": []})
    aws["ec2"].add_client_error("describe_spot_price_history", code, "no")
    with pytest.raises(BadInput) as refused:
        asked(aws, "g5.xlarge")
    assert refused.value.reason.startswith(message)
    assert code in refused.value.reason
    assert refused.value.fix.startswith(fix)
    assert bool(refused.value.fix) == bool(fix)


class EndlessHistory:
    """A client of EC2 whose history of spot prices has a next page after every page."""

    meta = SimpleNamespace(region_name="us-east-2")

    def describe_spot_price_history(self, **_):
        return {"SpotPriceHistory": [], "NextToken": "more"}


def test_pages_without_an_end_are_refused():
    prices = SimpleNamespace(get_products=lambda **_: {"PriceList": []})
    clients = {"ec2": EndlessHistory(), "pricing": prices}
    with pytest.raises(BadInput, match="AWS has more than 100 pages of prices for one request"):
        refresh("us-east-2", ["g5.xlarge"], connect=lambda service, _: clients[service], now=NOW)


def test_a_throttled_price_list_says_so(aws):
    aws["pricing"].add_client_error("get_products", "ThrottlingException", "slow down")
    with pytest.raises(BadInput, match=r"^AWS answers no more for now: .*slow down"):
        asked(aws, "g5.xlarge")


@pytest.mark.parametrize(
    ("error", "message", "fix"),
    [
        (exceptions.NoCredentialsError(), "no AWS credentials: ", "aws configure, or set AWS_ACC"),
        (exceptions.NoRegionError(), "no AWS region", "give --region us-east-1, or set AWS_DEF"),
        (
            exceptions.EndpointConnectionError(endpoint_url="https://x"),
            "no prices from AWS: Could not connect",
            "",
        ),
    ],
)
def test_what_is_missing_here_is_named(error, message, fix):
    def connect(_service, _region):
        raise error

    with pytest.raises(BadInput) as refused:
        refresh(None, ["g5.xlarge"], connect=connect, now=NOW)
    assert refused.value.reason.startswith(message)
    assert refused.value.fix.startswith(fix)


def test_an_error_of_our_own_is_not_hidden():
    def connect(service, _region):
        raise KeyError(service)

    with pytest.raises(KeyError):
        refresh(None, ["g5.xlarge"], connect=connect, now=NOW)


def test_without_boto3_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(BadInput, match=r"^prices are read from AWS by boto3, which is not") as no:
        refresh("us-east-1", ["g5.xlarge"])
    assert no.value.fix == "pip install 'trnsim[aws]'"


def test_only_instance_types_are_asked_for():
    names = instance_types()
    assert "trn2.48xlarge" in names
    assert "Trn2 UltraServer (u-trn2x64)" not in names
    assert "u-p6e-gb200x72" not in names
