"""A user's own prices: they win, they end, and a fault has its file, line, field, legal values."""

from datetime import date

import pytest

from trnsim.errors import BadInput
from trnsim.facts import Evidence
from trnsim.price import quote, with_own_prices

DAY = date(2026, 11, 20)
HEADER = "instance,kind,usd_per_hour,region,as_of,until"


def own(tmp_path, text, name="own.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return with_own_prices(path)


def csv(tmp_path, *lines, header=HEADER):
    return own(tmp_path, "\n".join([header, *lines]) + "\n")


def test_an_own_price_wins_over_a_newer_list_price(tmp_path):
    rows = csv(tmp_path, "trn2.48xlarge,capacity_block,30,,2026-01-01,")
    found = quote("trn2.48xlarge", "capacity_block", as_of=DAY, rows=rows)
    assert found.usd_per_hour == 30
    assert found.usd_per_hour.provenance.source == f"{tmp_path}/own.csv:2"
    assert str(found) == (
        "30.00 USD/h capacity_block any region 2026-01-01 (warning: 323 days old) (own price)"
    )
    assert quote("p5.48xlarge", "on_demand", as_of=DAY, rows=rows).usd_per_hour == 55.04


def test_a_price_that_does_not_exist_publicly_can_be_given(tmp_path):
    rows = csv(tmp_path, "Trn3 Gen2 UltraServer,private,500,,2026-11-01,")
    assert quote("Trn3 Gen2 UltraServer", "private", as_of=DAY, rows=rows).usd_per_hour == 500


def test_an_own_price_holds_from_its_first_day_to_its_last(tmp_path):
    rows = csv(tmp_path, "p5.48xlarge,on_demand,40,,2026-01-01,2026-06-30")
    prices = {
        day: quote("p5.48xlarge", "on_demand", as_of=date.fromisoformat(day), rows=rows)
        for day in ("2025-12-31", "2026-01-01", "2026-06-30", "2026-07-21")
    }
    assert prices["2026-01-01"].usd_per_hour == prices["2026-06-30"].usd_per_hour == 40
    assert not prices["2026-06-30"].is_stale
    assert prices["2025-12-31"].usd_per_hour != 40
    assert prices["2026-07-21"].usd_per_hour == 55.04
    assert str(prices["2026-07-21"]).endswith(" (own price ended 2026-06-30)")
    assert prices["2026-06-30"].own_ended is None


def test_an_own_price_of_a_region_holds_there_alone(tmp_path):
    rows = csv(tmp_path, "p5.48xlarge,on_demand,70,eu-west-2,2026-11-01,")
    here = quote("p5.48xlarge", "on_demand", as_of=DAY, region="us-east-1", rows=rows)
    there = quote("p5.48xlarge", "on_demand", as_of=DAY, region="eu-west-2", rows=rows)
    assert (here.usd_per_hour, there.usd_per_hour) == (55.04, 70)


def test_an_own_price_of_the_region_comes_before_one_of_any(tmp_path):
    rows = csv(
        tmp_path,
        "p5.48xlarge,on_demand,70,eu-west-2,2026-10-01,",
        "p5.48xlarge,on_demand,60,,2026-11-01,",
    )

    def usd(region):
        return quote("p5.48xlarge", "on_demand", as_of=DAY, region=region, rows=rows).usd_per_hour

    assert (usd("eu-west-2"), usd("us-east-1"), usd(None)) == (70, 60, 60)


def test_a_savings_plan_is_a_discount_off_on_demand(tmp_path):
    rows = csv(
        tmp_path,
        "trn1.*,savings_plan_3y,50,2026-11-01",
        header="instance,kind,discount_percent,as_of",
    )
    found = quote("trn1.32xlarge", "savings_plan_3y", as_of=DAY, rows=rows)
    assert found.usd_per_hour == 21.5 / 2
    assert found.usd_per_hour.provenance.kind is Evidence.DERIVED
    assert found.usd_per_hour.provenance.source.startswith("50 % off 21.50 USD/h on_demand us-east")
    assert found.row.terms.shortest_days == 3 * 365
    assert quote("trn1.2xlarge", "savings_plan_3y", as_of=DAY, rows=rows).usd_per_hour
    assert quote("trn1n.32xlarge", "savings_plan_3y", as_of=DAY, rows=rows).row is None


def test_a_credit_is_kept_beside_the_prices(tmp_path):
    rows = csv(tmp_path, "100000,2027-06-30", ",", "5e3,", header="credit_usd,until")
    assert [(credit.usd, credit.until) for credit in rows.credits] == [
        (100_000, date(2027, 6, 30)),
        (5000, None),
    ]


def test_a_row_states_its_own_terms(tmp_path):
    rows = csv(
        tmp_path,
        "trn2.48xlarge,private,28,2026-11-01,7,90,8 4",
        header="instance,kind,usd_per_hour,as_of,shortest_days,longest_days,sizes",
    )
    terms = quote("trn2.48xlarge", "private", as_of=DAY, rows=rows).row.terms
    assert (terms.shortest_days, terms.longest_days, terms.sizes) == (7, 90, (4, 8))


def test_yaml_says_the_same_as_csv(tmp_path):
    text = """\
# negotiated in November
- instance: trn2.48xlarge
  kind: private
  usd_per_hour: 28
  as_of: 2026-11-01
  sizes: [4, 8]
  region:
- {credit_usd: 1000}
"""
    rows = own(tmp_path, text, "own.yaml")
    found = quote("trn2.48xlarge", "private", as_of=DAY, rows=rows)
    assert found.usd_per_hour == 28
    assert found.row.source.endswith("own.yaml:2")
    assert found.row.terms.sizes == (4, 8)
    assert rows.credits[0].usd == 1000


ROW = "trn2.48xlarge,on_demand,{},,2026-11-01,"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            ROW.format('"8,000"'),
            "usd_per_hour is '8,000': no number [USD/hour]; write it without separators",
        ),
        (
            ROW.format("8.000"),
            "usd_per_hour is '8.000': may have a separator of thousands; write 8000",
        ),
        (ROW.format("35 EUR"), "usd_per_hour is '35 EUR': has the unit 'EUR'; legal: k, M, B, USD"),
        (ROW.format("45%"), "usd_per_hour is '45%': has the unit '%'; legal: k, M, B, USD, /ns"),
        (
            ROW.format("nan"),
            "usd_per_hour is 'nan'; legal: a number above 0 and at most 100,000",
        ),
        (ROW.format("inf"), "usd_per_hour is 'inf'; legal: a number above 0"),
        (ROW.format("1e30"), "usd_per_hour is '1e30'; legal: a number above 0"),
        (ROW.format("0"), "usd_per_hour is '0'; legal: a number above 0"),
        (ROW.format("-1"), "usd_per_hour is '-1'; legal: a number above 0"),
        (
            "trn9.48xlarge,on_demand,1,,2026-11-01,",
            "instance is 'trn9.48xlarge'; legal: inf1",
        ),
        (",on_demand,1,,2026-11-01,", "instance is missing; legal: inf1"),
        ("trn2.48xlarge,cheap,1,,2026-11-01,", "kind is 'cheap'; legal: on_demand, cap"),
        ("trn2.48xlarge,on_demand,1,,,", "as_of is missing: this field is required"),
        (
            "trn2.48xlarge,on_demand,1,,2026-13-01,",
            "as_of is '2026-13-01'; legal: a day as",
        ),
        ("trn2.48xlarge,on_demand,1,,21.11.2026,", "as_of is '21.11.2026'; legal: a day as"),
        (
            "trn2.48xlarge,on_demand,1,,2999-01-01,",
            "as_of is '2999-01-01': a day in the future; legal",
        ),
        (
            "trn2.48xlarge,on_demand,1,,2026-11-01,2026-10-31",
            "until is '2026-10-31': before as_of; legal",
        ),
        (
            "trn2.48xlarge,on_demand,1,Mars,2026-11-01,",
            "region is 'Mars'; legal: any, or",
        ),
        (
            "trn2.48xlarge,on_demand,,,2026-11-01,",
            "the row has no amount; legal: one of usd_per_hour",
        ),
        ("trn2.48xlarge,on_demand,1", "3 cells, and the first line has 6 fields"),
        (ROW.format("8,000"), "7 cells, and the first line has 6 fields"),
        ('"trn2.48xlarge,on_demand,1', "no CSV: unexpected end of data"),
    ],
)
def test_a_bad_cell_is_refused_with_file_line_field_and_legal_values(tmp_path, line, message):
    with pytest.raises(BadInput) as refused:
        csv(tmp_path, line)
    assert refused.value.reason.startswith(f"{tmp_path}/own.csv:2: {message}")
    assert refused.value.line == (f"{tmp_path}/own.csv", 2)


@pytest.mark.parametrize(
    ("header", "line", "message"),
    [
        (
            "instance,kind,discount_percent,as_of",
            "p5.48xlarge,savings_plan_1y,100,2026-11-01",
            "disc",
        ),
        (
            "instance,kind,discount_percent,as_of",
            "p5.48xlarge,savings_plan_1y,0,2026-11-01",
            "disc",
        ),
        (
            "instance,kind,discount_percent,as_of",
            "trn2.*,savings_plan_1y,30,2026-11-01",
            "instance",
        ),
        ("instance,kind,discount_percent,as_of", "zzz*,savings_plan_1y,30,2026-11-01", "instance"),
        (
            "instance,credit_usd",
            "p5.48xlarge,100",
            "instance is 'p5.48xlarge': a credit has credit",
        ),
        ("usd_per_hour,credit_usd", "1,100", "the row has usd_per_hour and credit_usd; legal: one"),
        ("credit_usd,until", "100,tomorrow", "until is 'tomorrow'; legal: a day as"),
        (f"{HEADER},sizes", f"{ROW.format(1)},0", "sizes[0] is '0'; legal: a whole number above 0"),
        (f"{HEADER},sizes", f"{ROW.format(1)},4;8", "sizes[0] is '4;8': no number"),
        (f"{HEADER},longest_days", f"{ROW.format(1)},1.5", "longest_days is '1.5': no whole"),
        (
            f"{HEADER},shortest_days,longest_days",
            f"{ROW.format(1)},30,7",
            "longest_days is '7'; legal: 30 or more",
        ),
        (
            "instance,kind,usd_per_hour,as_of,shortest_days",
            "trn2.48xlarge,capacity_block,28,2026-11-01,400",
            "shortest_days is '400'; legal: 182 or less",
        ),
    ],
)
def test_a_bad_cell_of_another_column_is_refused(tmp_path, header, line, message):
    with pytest.raises(BadInput) as refused:
        csv(tmp_path, line, header=header)
    assert refused.value.reason.startswith(f"{tmp_path}/own.csv:2: {message}")


def test_a_price_is_given_once(tmp_path):
    line = ROW.format(1)
    with pytest.raises(
        BadInput, match=r"own\.csv:3: instance is 'trn2\.48xlarge': .* 2026-11-01 is priced twice"
    ):
        csv(tmp_path, line, line)


def test_the_fields_are_listed_where_one_is_not_known(tmp_path):
    with pytest.raises(BadInput, match=r"own\.csv:1: the field 'usd' is not known; legal: inst"):
        csv(tmp_path, header="instance,kind,usd,as_of")
