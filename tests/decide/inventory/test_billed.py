"""Workloads from a bill and the file beside it, which says which usage is which model's."""

import re
from datetime import date

import pytest
from bills import bill
from inventories import put

from trnsim.decide.inventory import read
from trnsim.decide.inventory.billed import models_path
from trnsim.errors import BadInput

CHAT = """\
- workload: chat
  model_config: model.json
  kind: serve
  tag: team=chat
"""


def company(folder, models, *lines):
    """A bill of `lines`, with a file of `models` beside it."""
    put(folder, models, "october.models.yaml")
    return bill(folder, *lines)


def refused(path):
    with pytest.raises(BadInput) as raised:
        read(path)
    return raised.value.reason.replace(f"{path.parent}/", "")


def test_the_bill_says_machine_hours_and_cost(tmp_path):
    (found,) = read(company(tmp_path, CHAT, {}, {"line_item_usage_amount": "9"}))
    assert (found.name, found.kind, found.model.name) == ("chat", "serve", "model")
    assert (found.volume, found.volume_unit) == (80, "gpu_hours")
    assert (found.current.instance, found.current.kind) == ("p5.48xlarge", "on_demand")
    assert found.current.region == "us-east-1"
    assert found.current.usd_per_month == pytest.approx(110.08)
    assert found.as_of == date(2026, 10, 1)
    assert found.line == (str(tmp_path / "october.models.yaml"), 1)
    assert found.assumptions == ()


def test_a_tag_is_named_as_it_is_set_or_as_the_report_spells_it(tmp_path):
    lines = [{"resource_tags": {"user_cost_center": "chat"}}]
    for key in ("CostCenter", "cost_center"):
        path = company(tmp_path, CHAT.replace("team=", f"{key}="), *lines)
        assert read(path)[0].volume == 8


def test_a_block_with_a_cost_on_the_bill_has_that_cost(tmp_path):
    block = {"capacity_reservation_capacity_reservation_type": "CapacityBlock"}
    (found,) = read(company(tmp_path, CHAT + "  usd_per_month: 9000\n", block))
    assert (found.current.kind, found.current.usd_per_month) == ("capacity_block", 55.04)
    assert found.assumptions == ("usd_per_month is that of the bill, not the one beside it",)


def test_a_volume_beside_the_bill_is_kept(tmp_path):
    (found,) = read(company(tmp_path, CHAT + "  tokens_per_month: 6e9\n  ttft_s: 1\n", {}))
    assert (found.volume, found.volume_unit, found.slo.ttft_s) == (6e9, "tokens_per_month", 1)


def test_usage_is_picked_by_resource_or_by_machine(tmp_path):
    models = CHAT.replace("tag: team=chat", "resource: [i-1, i-3]")
    lines = [{"line_item_resource_id": f"i-{n}"} for n in (1, 2, 3)]
    (found,) = read(company(tmp_path, models, *lines))
    assert found.volume == 16
    assert found.assumptions == ("55 USD of accelerators in october.csv are no workload's",)
    models = CHAT.replace("tag: team=chat", "current_instance: g5.xlarge\n  region: us-east-1")
    (found,) = read(company(tmp_path, models, {}, {"line_item_usage_type": "BoxUsage:g5.xlarge"}))
    assert (found.current.instance, found.volume) == ("g5.xlarge", 1)


def test_hours_paid_in_advance_need_their_part_of_the_fee(tmp_path):
    free = {"line_item_unblended_cost": "0"}
    assert refused(company(tmp_path, CHAT, free)) == (
        "october.models.yaml:1: 1 hours of p5.48xlarge have no cost: "
        "capacity blocks are paid in advance"
    )
    (found,) = read(company(tmp_path, CHAT + "  usd_per_month: 400\n", free))
    assert (found.current.kind, found.current.usd_per_month) == ("capacity_block", 400)
    assert "capacity block" in found.assumptions[-1]


def test_what_the_bill_says_of_the_cost_wins_and_is_said(tmp_path):
    (found,) = read(company(tmp_path, CHAT + "  usd_per_month: 400\n", {}))
    assert found.current.usd_per_month == 55.04
    assert found.assumptions == ("usd_per_month is that of the bill, not the one beside it",)


def test_sizes_that_the_catalogue_lacks_are_said(tmp_path):
    odd = {"line_item_usage_type": "BoxUsage:g5.4xlarge"}
    (found,) = read(company(tmp_path, CHAT, {}, odd))
    assert found.assumptions == ("not in the catalogue, and left out: g5.4xlarge (55 USD)",)


@pytest.mark.parametrize(
    ("models", "lines", "message"),
    [
        (CHAT.replace("  tag: team=chat\n", ""), [{}], "1: the row picks no usage"),
        (
            CHAT.replace("team=chat", "team=none"),
            [{}],
            "1: no usage in october.csv is picked; it has p5.48xlarge on_demand us-east-1",
        ),
        (CHAT.replace("team=chat", "chat"), [{}], "4: tag[0] is 'chat'; legal: KEY=VALUE"),
        (
            CHAT + CHAT.replace("workload: chat", "workload: other"),
            [{}],
            "5: line 2 of october.csv is also that of line 1",
        ),
        (
            CHAT,
            [{}, {"line_item_usage_type": "SpotUsage:p5.48xlarge"}],
            "1: its usage is of several machines: p5.48xlarge on_demand us-east-1, ",
        ),
        (
            CHAT + "  gpu_hours: 9\n",
            [{}],
            "5: gpu_hours is '9'; legal: nothing: the bill states it",
        ),
        (CHAT + "  batch: 0\n", [{}], "5: batch is '0'; legal: a whole number above 0"),
        (CHAT.replace("model.json", "../m.json"), [{}], "2: model_config is '../m.json': it leads"),
    ],
)
def test_a_row_that_does_not_fit_the_bill_is_refused(tmp_path, models, lines, message):
    path = company(tmp_path, models, *lines)
    assert refused(path).startswith(f"october.models.yaml:{message}")


def test_a_bill_needs_the_file_beside_it(tmp_path):
    path = bill(tmp_path, {})
    with pytest.raises(BadInput, match=r"a bill, which names no models: .*october\.models\.yaml"):
        read(path)


def test_a_bill_has_one_month(tmp_path):
    path = company(tmp_path, CHAT, {}, {"line_item_usage_start_date": "2026-09-01"})
    assert refused(path) == "october.csv:1: the months 2026-09, 2026-10; legal: one"


@pytest.mark.parametrize("name", ["october.csv", "october.csv.gz", "october.parquet", "october"])
def test_the_file_beside_a_bill_is_named_after_it(tmp_path, name):
    expected = "^" + re.escape(str(tmp_path / "october.models.yaml")) + "$"
    assert re.match(expected, str(models_path(tmp_path / name)))
