"""A row of an inventory: what it cannot be is refused with file, line, field and legal values."""

import re

import pytest
from inventories import EXAMPLES, OLD_HEADER, csv, one, put

from trnsim.decide.inventory import read
from trnsim.errors import BadInput

# What people write for eight thousand, and what else a number may be; None is refused.
WRITTEN = {
    "8000": 8000.0, "8000.5": 8000.5, "8e3": 8000.0, "8_000": 8000.0, " 8000 ": 8000.0,
    "+8000": 8000.0, '"8000"': 8000.0, "0.008": 0.008, "8.0": 8.0, "8000.000": 8000.0,
    "8,000": None, '"8,000"': None, "8.000": None, '"8.000,5"': None, "8.000,5": None,
    "8 000": None, "8'000": None, "8k": 8000.0, "8K": 8000.0, "8 k": 8000.0, "8m": None,
    "inf": None, "-inf": None, "nan": None, "1e999": None, "0": None, "-8000": None, "": None,
    "0x1f40": None, "8.000.000": None, '"8,000,000"': None, "1e30": None, "80%": None,
    "€8000": None, "-0": None, "NaN": None, "8000 EUR": None, "$8,000": None,
}  # fmt: skip


def refused(folder, line, **changes):
    """The error of an inventory whose second row has `changes`."""
    with pytest.raises(BadInput) as raised:
        read(csv(folder, {"workload": "ok"}, changes))
    place = f"{folder / 'inventory.csv'}:{line}: "
    assert raised.value.reason.startswith(place)
    assert raised.value.line == (str(folder / "inventory.csv"), line)
    return raised.value.reason.removeprefix(place)


@pytest.mark.parametrize("column", ["tokens_per_month", "usd_per_month"])
@pytest.mark.parametrize("written", WRITTEN)
def test_a_number_is_never_silently_another(tmp_path, column, written):
    cells = {"tokens_per_month": "1e9", "usd_per_month": "9", column: written}
    line = f"a,model.json,train,{cells['tokens_per_month']},p5.48xlarge,{cells['usd_per_month']}"
    path = put(tmp_path, f"{OLD_HEADER}\n{line}\n")
    if WRITTEN[written] is None:
        with pytest.raises(BadInput, match=re.escape(f"{path}:2: ")):
            read(path)
    else:
        (workload,) = read(path)
        found = workload.volume if column == "tokens_per_month" else workload.current.usd_per_month
        assert found == WRITTEN[written]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kind": "tune"}, "kind is 'tune'; legal: train, serve, infer"),
        ({"usd_per_month": "€8"}, "usd_per_month is '€8': no number [USD/month]; write it without"),
        (
            {"usd_per_month": "1e30"},
            "usd_per_month is '1e30'; legal: a number above 0 and at most 1e+10",
        ),
        ({"usd_per_month": "nan"}, "usd_per_month is 'nan'; legal: a number above 0"),
        ({"tokens_per_month": "0"}, "tokens_per_month is '0'; legal: a number above 0"),
        (
            {"tokens_per_month": "1e30"},
            "tokens_per_month is '1e30'; legal: a number above 0 and at most 1e+17",
        ),
        (
            {"tokens_per_month": ""},
            "no volume given; legal: exactly one of tokens_per_month and gpu_hours",
        ),
        (
            {"gpu_hours": "9"},
            "tokens_per_month and gpu_hours given; legal: exactly one of tokens_per_month and",
        ),
        (
            {"tokens_per_month": "", "items_per_month": "9"},
            "items_per_month is '9': not of kind serve; legal: tokens_per_month or gpu_hours",
        ),
        (
            {"kind": "infer"},
            "tokens_per_month is '6e9': not of kind infer; legal: items_per_month or gpu_hours",
        ),
        ({"current_instance": "p9"}, "current_instance is 'p9'; legal: inf1.xlarge, "),
        ({"current_count": "0"}, "current_count is '0'; legal: a whole number above 0"),
        ({"current_count": "1.5"}, "current_count is '1.5': no whole number"),
        ({"purchase_kind": "sport"}, "purchase_kind is 'sport'; legal: on_demand, "),
        ({"region": "Frankfurt"}, "region is 'Frankfurt'; legal: the code of an AWS"),
        ({"as_of": "31.10.2026"}, "as_of is '31.10.2026'; legal: a day as"),
        ({"as_of": "2026-02-30"}, "as_of is '2026-02-30'; legal: a day as"),
        ({"as_of": "2999-01-01"}, "as_of is '2999-01-01': a day in the future; legal: up to "),
        (
            {"percentile": "100"},
            "percentile is '100'; legal: a number above 0 and below 100",
        ),
        ({"ttft_s": "500 msec"}, "ttft_s is '500 msec': has the unit 'msec'; legal: ns, us, ms"),
        ({"latency_s": "-1"}, "latency_s is '-1'; legal: a number above 0"),
        (
            {"deadline_hours": "745"},
            "deadline_hours is '745'; legal: a number above 0 and at most 744",
        ),
        ({"peak_ratio": "0.9"}, "peak_ratio is '0.9'; legal: a number from 1 to 1,000"),
        ({"port_state": "slow"}, "port_state is 'slow'; legal: tuned, as-ported"),
        (
            {"port_state": "as-ported"},
            "port_state is 'as-ported': legal for servers of mixtures of experts, which were",
        ),
        ({"staff_weeks": "-1"}, "staff_weeks is '-1'; legal: a number from 0 to 10,000"),
        ({"framework": "torch"}, "framework is 'torch'; legal: pytorch, jax, "),
        ({"other_clouds": "azure;aws"}, "other_clouds[1] is 'aws'; legal: azure, "),
        ({"portability_needed": "ja"}, "portability_needed is 'ja'; legal: yes, no"),
        ({"committed_to_aws": "1"}, "committed_to_aws is '1'; legal: yes, no"),
        ({"workload": ""}, "workload is missing; legal: text"),
        ({"workload": "ok"}, "workload is 'ok': the name stands in line 2 too"),
        ({"model_config": "none.json"}, "model_config is 'none.json': no such file in "),
        ({"model_config": "../model.json"}, "model_config is '../model.json': it leads out of the"),
        ({"model_config": "/etc/passwd"}, "model_config is '/etc/passwd': it leads out of the"),
        ({"model_config": "a" * 5000}, "model_config is 'aaa"),
        ({"model_config": "bad.json"}, "model_config is 'bad.json': "),
        ({"sources": "model.json;../x.py"}, "sources is 'model.json;../x.py': it leads out of"),
        ({"sources": "none.py"}, "sources is 'none.py': no such file in "),
    ],
)
def test_a_bad_cell_is_named_with_what_is_legal(tmp_path, changes, what):
    (tmp_path / "bad.json").write_text("{}")
    assert refused(tmp_path, 3, **changes).startswith(what)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.py").write_text("pass\n")
    (inside / "link.py").symlink_to(tmp_path / "secret.py")
    assert refused(inside, 3, sources="link.py").startswith("sources is 'link.py': it leads out")


def test_near_names_of_an_instance_are_proposed(tmp_path):
    with pytest.raises(BadInput) as raised:
        one(tmp_path, current_instance="p5.48xlrge")
    assert raised.value.fix.startswith("perhaps 'p5.48xlarge'")


@pytest.mark.parametrize(
    ("short", "name"), [("p5", "p5.48xlarge"), ("trn1", "trn1.32xlarge"), ("inf1.xlarge",) * 2]
)
def test_short_names_stand_for_instances(tmp_path, short, name):
    assert one(tmp_path, current_instance=short).current.instance == name


def test_a_model_that_is_not_known_is_refused_with_its_line(tmp_path):
    (tmp_path / "new.json").write_text('{"model_type": "hyperbolic"}')
    assert refused(tmp_path, 3, model_config="new.json").startswith(
        f"model_config is 'new.json': {tmp_path}/new.json:1: model_type 'hyperbolic' is not"
    )


def test_a_file_without_rows_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"inventory\.csv:1: no workloads"):
        read(put(tmp_path, OLD_HEADER + "\n"))


def test_the_example_is_read():
    names = [one.name for one in read(EXAMPLES / "inventory.csv")]
    assert names == ["nightly-pretraining", "weekly-tuning", "chat", "summaries"]


def test_a_model_is_a_file_beside_the_inventory_or_a_name(tmp_path):
    (workload,) = read(csv(tmp_path, {"model_config": "meta-llama/Llama-3.1-8B"}))
    assert workload.model.name == workload.model_path.stem == "llama-3.1-8b"
    (tmp_path / "gpt2").write_text((tmp_path / "model.json").read_text())
    (workload,) = read(csv(tmp_path, {"model_config": "gpt2"}))
    assert workload.model_path == tmp_path / "gpt2"


def test_money_and_times_may_have_units(tmp_path):
    cells = {"usd_per_month": "$80k", "ttft_s": "500ms", "tpot_s": "30 ms", "input_len": "2Ki"}
    (workload,) = read(csv(tmp_path, cells))
    assert workload.current.usd_per_month == 80e3
    assert (workload.slo.ttft_s, workload.slo.tpot_s) == (0.5, 0.03)
    assert workload.shape.input_len == 2048
