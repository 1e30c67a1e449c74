"""Prices at the command line: tables of 100 columns, refusals with the legal values, JSON."""

import json

import pytest
from typer.testing import CliRunner

from trnsim.arch.catalogue import catalogue
from trnsim.cli import app, prices
from trnsim.errors import BadInput
from trnsim.price.live import CurrentPrice, refresh

DAY = ("--as-of", "2026-11-20")


def run(*arguments):
    result = CliRunner().invoke(app, ["prices", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments):
    with pytest.raises(BadInput) as error:
        run(*arguments)
    return error.value


def test_the_overview_has_every_priced_instance_and_kind_in_100_columns():
    lines = run("show", *DAY).splitlines()
    pairs = {(price.instance, price.kind) for price in catalogue().prices}
    assert len([line for line in lines if line[0] not in " ("]) == 1 + len(pairs)
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("ml.p5en.48xlarge ") for line in lines)


def test_a_stale_price_says_so_beside_the_figure():
    lines = run("show", *DAY).splitlines()
    (inf2,) = [line for line in lines if line.startswith("inf2.xlarge ") and "on_demand" in line]
    assert " ".join(inf2.split()) == ("inf2.xlarge on_demand 0.7582 us-east-1 2026-07-20 123 d old")
    (p5,) = [line for line in lines if line.startswith("p5.48xlarge ") and "on_demand" in line]
    assert p5.endswith("2026-11-09")


def test_one_instance_has_its_history_sources_and_terms():
    output = run("show", "p5.48xlarge", *DAY, "--kind", "capacity_block")
    assert max(map(len, output.splitlines())) <= 100
    assert "capacity_block  31.4640  3.933   most" in output
    assert "2025-12-04..2026-03-01" in output
    assert "1 to 182 days, in days up to 14 and then in steps of 7; sizes 1, 2, 4," in output
    assert "hashicorp/terraform-provider-aws" in output


def test_an_earlier_day_knows_no_later_price():
    output = run("show", "p5.48xlarge", "--as-of", "2025-12-11")
    assert "2026-09-19" not in output
    assert "31.4640" in output
    assert "on_demand       98.3200" in output


def test_what_can_be_bought_says_what_is_paid_for():
    output = run("show", "trn2.48xlarge", *DAY, "--days", "15", "--instances", "3")
    assert "    can be bought: 4 for 21 days, 72,093.77 USD\n" in output
    assert "    cannot be bought: no public price (on_demand)\n" in output
    assert "can be bought: 3 for 15 days, 24,908.15 USD, and AWS may take it back" in output


def test_a_block_longer_than_sold_says_so():
    output = run("show", "trn2.48xlarge", *DAY, "--days", "183", "--kind", "capacity_block")
    assert "cannot be bought: capacity_block is sold for 182 days at most, not for 183 d" in output


def test_a_size_alone_is_asked_for_all_year_round():
    output = run("show", "trn1.32xlarge", *DAY, "--instances", "2", "--kind", "on_demand")
    assert "can be bought: 2 all year round\n" in output


def test_json_has_price_source_age_and_terms():
    (found,) = json.loads(run("show", "trn2.48xlarge", *DAY, "--kind", "capacity_block", "--json"))
    assert found["usd_per_hour"] == 35.7608
    assert (found["age_days"], found["is_stale"], found["is_own"]) == (42, False, False)
    assert found["evidence"] == "documented"
    assert found["terms"]["longest_days"] == 182
    none = json.loads(run("show", "trn2.48xlarge", *DAY, "--kind", "on_demand", "--json"))
    assert none[0]["usd_per_hour"] is None
    assert none[0]["said"] == "no public price (on_demand)"


def test_a_region_narrows_what_is_shown():
    output = run("show", *DAY, "--region", "ap-southeast-4", "--kind", "capacity_block")
    assert "trn2.3xlarge" in output
    assert "trn2.48xlarge" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--as-of", "2026-13-01"], "--as-of is '2026-13-01'; legal: a day up to 20"),
        (["--as-of", "20261101"], "--as-of is '20261101'; legal: a day up to 20"),
        (["--as-of", "yesterday"], "--as-of is 'yesterday'; legal: a day up to 20"),
        (["--as-of", "2999-01-01"], "2999-01-01 is in the future; legal: up to 20"),
        (["--region", "Mars"], "region is 'Mars'; legal: the code of an AWS region"),
        (["--kind", "cheap"], "--kind is 'cheap'; legal: on_demand, capacity_block, "),
        (["trn9"], "'trn9' is no chip, family or instance type; legal: trn1, "),
        (["p4d.24xlarge", "--kind", "spot_paid"], "no price of p4d.24xlarge as spot_paid"),
        (["--days", "30"], "--days 30 is for one instance type, and none is named"),
        (["--instances", "4"], "--instances 4 is for one instance type, and none is named"),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments, message):
    assert refused("show", *arguments).reason.startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--days", "0"],
            "'0' is not above 0; legal: numbers above 0\n  fix: for example --days 30",
        ),
        (["--instances", "0"], "'0' is below 1; legal: whole numbers from 1 on"),
    ],
)
def test_a_number_that_is_none_is_refused_by_its_option(arguments, message):
    told = CliRunner().invoke(app, ["prices", "show", "trn2.48xlarge", *arguments]).stderr
    assert f"Invalid value for '{arguments[0]}': {message}" in told


def test_an_unknown_type_of_a_refresh_names_the_nearest():
    assert refused("refresh", "trn2.47xlarge").fix.startswith("perhaps trn2.48xlarge")
    assert refused("refresh", "none").fix == "trnsim instances lists them"


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "- {instance: trn2.48xlarge, kind: private, usd_per_hour: 28.5, as_of: 2026-11-01}\n"
        "- {credit_usd: 5e4, until: 2027-01-31, note: activate}\n"
    )
    return str(path)


def test_own_prices_and_credits_are_shown_as_own(own):
    output = run("show", "trn2.48xlarge", *DAY, "--prices", own)
    assert "private              28.5000  1.781   any" in output
    assert "now own\n" in output
    assert "\ncredit: 50,000.00 USD until 2027-01-31 (activate)\n" in output


def test_a_fault_of_the_file_is_refused(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("instance;kind;usd_per_hour\n")
    assert refused("show", "--prices", str(path)).reason.endswith("divided by semicolons")


def test_a_comparison_has_one_kind():
    output = run("compare", "trn2.48xlarge", "p5en.48xlarge", *DAY)
    assert (
        "p5en.48xlarge  capacity_block  63.16  7.895   7.98       2.38      2026-10-09\n" in output
    )
    assert "mixed" not in output
    assert max(map(len, output.splitlines())) <= 100


def test_without_a_kind_the_first_that_all_have_is_compared():
    """Capacity blocks are sold of neither; `inf2` has reserved instances too."""
    lines = run("compare", "inf2", "g5", *DAY).splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [
        ["inf2.48xlarge", "on_demand"],
        ["g5.48xlarge", "on_demand"],
    ]
    assert " has no price" not in "".join(lines)


@pytest.mark.parametrize(
    ("names", "notes"),
    [
        (
            ("inf2", "g5", "--kind", "capacity_block"),
            [
                "inf2.48xlarge has no price as capacity_block, but as on_demand, ri_effective",
                "g5.48xlarge has no price as capacity_block, but as on_demand",
                "all have prices as on_demand: --kind on_demand",
            ],
        ),
        (
            ("trn2", "inf2"),
            [
                "inf2.48xlarge has no price as capacity_block, but as on_demand, ri_effective",
                "no kind has prices of all: NAME:KIND and --mixed-prices set kinds together",
            ],
        ),
        (("trn2u.48xlarge", "p5"), ["trn2u.48xlarge has no public price of any kind"]),
    ],
)
def test_what_has_no_price_of_a_kind_says_which_kinds_have(names, notes):
    output = run("compare", *names, *DAY)
    assert output.splitlines()[-len(notes) :] == notes


def test_two_kinds_are_refused_or_said_on_every_line():
    pair = ("compare", "trn2.48xlarge", "p5.48xlarge:on_demand", *DAY)
    error = refused(*pair)
    assert error.reason == (
        "trn2.48xlarge capacity_block against p5.48xlarge on_demand: "
        "different purchase kinds do not compare"
    )
    assert error.fix == "name one kind, or add --mixed-prices"
    output = run(*pair, "--mixed-prices")
    assert output.count("    mixed prices: capacity_block, on_demand\n") == 2
    lines = json.loads(run(*pair, "--mixed-prices", "--json"))
    assert all(line["caveats"] == ["mixed prices: capacity_block, on_demand"] for line in lines)


def test_a_kind_that_no_instance_takes_is_refused():
    own_kind = "p5.48xlarge:on_demand"
    error = refused("compare", own_kind, own_kind, "--kind", "spot", *DAY)
    assert error.reason == "--kind spot has no effect: each instance names its own kind"
    told = run("compare", "trn2.48xlarge:capacity_block", "inf2", "--kind", "capacity_block", *DAY)
    assert "no price as capacity_block" in told


def test_days_far_apart_are_said_on_every_line():
    output = run("compare", "trn1.32xlarge", "inf2.48xlarge", "--kind", "ri_effective", *DAY)
    assert "apart" not in output
    output = run("compare", "trn1n.32xlarge", "p5.48xlarge", "--kind", "spot", *DAY)
    said = (
        "    prices of 2026-01-01 (trn1n.32xlarge) and 2026-09-19 (p5.48xlarge), 261 days apart\n"
    )
    assert output.count(said) == 2


def test_what_has_no_price_or_no_bf16_is_compared_as_far_as_it_goes():
    output = run("compare", "Trn3 Gen2 UltraServer", "trn2.48xlarge", *DAY)
    assert "none public" in output
    output = run("compare", "g5.xlarge", "g4dn.xlarge", "--kind", "on_demand", *DAY)
    (t4,) = [line for line in output.splitlines() if line.startswith("g4dn.xlarge")]
    assert t4.split()[3:6] == ["0.526", "-", "-"]


@pytest.fixture
def aws(monkeypatch):
    """AWS's answer, without AWS; `refresh` itself is tested in tests/price/test_live.py."""
    asked = []

    def answer(region, names):
        asked.append((region, names))
        day = catalogue().generated
        return [CurrentPrice(names[0], "spot", 1.25, region or "us-east-1", day, "AWS", "")]

    assert callable(refresh)
    monkeypatch.setattr(prices, "read_from_aws", answer)
    return asked


def test_refreshed_prices_are_printed_or_written(aws, tmp_path):
    printed = run("refresh", "trn1.32xlarge", "--region", "us-east-2")
    assert (
        printed.splitlines()[1] == f"trn1.32xlarge,spot,1.25,us-east-2,{catalogue().generated},AWS,"
    )
    path = tmp_path / "today.csv"
    assert run("refresh", "--out", str(path)) == f"wrote {path}: 1 prices\n"
    assert len(aws[1][1]) > 30
    assert "inf1.xlarge" in run("show", "inf1.xlarge", "--prices", str(path))


def test_only_known_instances_and_writable_files_are_refreshed(aws, tmp_path):
    assert refused("refresh", "trn9").reason.startswith("'trn9' is no instance type; legal: inf1")
    assert refused("refresh", "--region", "x").reason.startswith("region is 'x'; legal: ")
    assert "cannot write" in refused("refresh", "--out", str(tmp_path / "no" / "x.csv")).reason
    assert aws == []


def test_a_comparison_and_a_file_of_prices_refuse_what_they_cannot_read(monkeypatch, tmp_path):
    assert refused("compare", "trn1.32xlarge", "--region", "Mars").reason.startswith(
        "region is 'Mars'; legal: "
    )
    monkeypatch.setattr(prices, "read_from_aws", None)
    error = refused("refresh", "--output", str(tmp_path / "p.yaml"))
    assert error.reason.endswith("p.yaml; legal ending: .csv")
