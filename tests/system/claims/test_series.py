"""Series of figures: which there are, and what stands where there is no price."""

import pytest

from trnsim.arch.catalogue import catalogue, parse
from trnsim.system.claims.published import yaml_data
from trnsim.system.claims.rates import stored_rates
from trnsim.system.claims.rows import RowReader
from trnsim.system.claims.series import COMPARISONS, SERIES, workload_names

PAIR = {"ours": "trn1.32xlarge", "theirs": "p4d.24xlarge"}


@pytest.fixture
def shipped():
    return RowReader(catalogue())


def test_workloads_are_all_those_of_a_kind_or_one():
    assert workload_names() == list(stored_rates())
    assert [len(workload_names(of)) for of in ("train", "serve", "infer")] == [4, 3, 3]
    assert workload_names("train GPT-3 6.7B") == ["train GPT-3 6.7B"]


def test_one_workload_has_no_mean(shipped):
    options = {**PAIR, "kind": "on_demand", "compare": "less_than"}
    (one,) = SERIES["workloads"](shipped, **options, of="train GPT-3 6.7B")
    first, *each = SERIES["workloads"](shipped, **options, of="train")
    assert one in each
    assert first.text.startswith("4 workloads, geometric mean")


def test_comparisons_are_of_usd_for_equal_work():
    """By hand: 2 USD against 5 for the same work."""
    found = {name: compare(2.0, 5.0) for name, compare in COMPARISONS.items()}
    assert found == {
        "gain": pytest.approx(150),
        "less_than": pytest.approx(60),
        "share": pytest.approx(40),
    }


def test_prices_begin_with_a_day(shipped):
    options = {"instance": "p5.48xlarge", "kinds": ["on_demand"], "or_missing": "none"}
    every = list(SERIES["prices"](shipped, **options))
    since = list(SERIES["prices"](shipped, **options, since="2025-06-01"))
    assert since
    assert len(since) < len(every)
    per_gpu = next(SERIES["prices"](shipped, **options, per_chip="per GPU"))
    assert per_gpu.value == pytest.approx(every[0].value / 8)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("workloads", {**PAIR, "kind": "spot", "compare": "gain"}, ["spot prices of"]),
        ("prices", {"instance": "p5.48xlarge", "kinds": ["spot"], "or_missing": "none"}, ["none"]),
        (
            "peak_prices",
            {**PAIR, "kinds": ["spot"], "dtypes": ["bf16", "bf16"], "text": "", "or_missing": "no"},
            ["no"],
        ),
        ("peaks", {**PAIR, "theirs": ["p5.48xlarge"], "kinds": ["spot"], "compare": "gain"}, []),
    ],
)
def test_without_a_price_it_is_named_or_there_is_no_figure(name, options, expected, rows):
    rows["prices"] = []
    found = list(SERIES[name](RowReader(parse(rows)), **options))
    assert len(found) == len(expected)
    assert all(one.startswith(said) for one, said in zip(found, expected, strict=True))


def test_every_sort_has_a_use():
    used = {
        next(iter(figure))
        for sentence in yaml_data("claims.yaml")
        for part in (*sentence["parts"], {"figures": sentence.get("besides", [])})
        for figure in part["figures"]
    }
    assert SERIES.keys() <= used
