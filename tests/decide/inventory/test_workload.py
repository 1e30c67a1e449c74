"""What an inventory states, and what it leaves out."""

import dataclasses
from pathlib import Path
from typing import get_args

import pytest
from inventories import one

from trnsim.decide.inventory.workload import (
    KINDS,
    VOLUME_UNITS,
    CurrentDeployment,
    Kind,
    Shape,
    VolumeUnit,
)
from trnsim.system.serve.demand import Slo


def test_every_kind_and_unit_is_listed():
    assert get_args(Kind) == KINDS
    assert get_args(VolumeUnit) == VOLUME_UNITS


def test_what_is_not_stated_is_none_and_what_is_taken_for_granted_is_said(tmp_path):
    found = one(tmp_path)
    assert found.current == CurrentDeployment("p5.48xlarge", None, "on_demand", 80000, None)
    assert (found.volume, found.volume_unit) == (6e9, "tokens_per_month")
    assert (found.shape, found.slo) == (Shape(), Slo(percentile=99))
    assert found.model.name == "model"
    assert found.model_path == tmp_path / "model.json"
    assert found.line == (str(tmp_path / "inventory.csv"), 2)
    assert found.assumptions == ("bought on demand: the inventory names no purchase_kind",)
    assert not found.is_portability_needed
    unknown = ("deadline_hours", "staff_weeks", "framework", "is_committed_to_aws", "peak_ratio")
    assert [getattr(found, name) for name in unknown] == [None] * 5
    assert (found.sources, found.other_clouds, found.as_of) == ((), (), None)


def test_every_field_is_read(tmp_path):
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "kernels").mkdir()
    found = one(
        tmp_path,
        kind="infer",
        tokens_per_month=None,
        items_per_month="3e6",
        current_count="4",
        purchase_kind="ri_3y",
        region="eu-west-1",
        as_of="2026-10-31",
        sequence="512",
        input_len="8",
        output_len="9",
        batch="16",
        image="224",
        steps="50",
        ttft_s="0.5",
        tpot_s="0.05",
        latency_s="2",
        percentile="95",
        deadline_hours="700",
        peak_ratio="2.5",
        sources="train.py; kernels",
        framework="pytorch",
        staff_weeks="0",
        other_clouds="azure;gcp",
        portability_needed="yes",
        committed_to_aws="no",
    )
    assert (found.volume, found.volume_unit) == (3e6, "items_per_month")
    assert found.current == CurrentDeployment("p5.48xlarge", 4, "ri_3y", 80000, "eu-west-1")
    assert found.shape == Shape(512, 8, 9, 16, 224, 50)
    assert found.slo == Slo(0.5, 0.05, 2, 95)
    assert (found.deadline_hours, found.peak_ratio, found.staff_weeks) == (700, 2.5, 0)
    assert found.sources == (tmp_path / "train.py", tmp_path / "kernels")
    assert (found.framework, found.other_clouds) == ("pytorch", ("azure", "gcp"))
    assert (found.is_portability_needed, found.is_committed_to_aws) == (True, False)
    assert str(found.as_of) == "2026-10-31"
    assert found.assumptions == ()


def test_a_percentile_that_is_not_stated_is_an_assumption(tmp_path):
    assert one(tmp_path, ttft_s="1", purchase_kind="spot").assumptions == (
        "limits of latency hold for 99 % of requests: the inventory names no percentile",
    )


def test_a_workload_cannot_be_changed(tmp_path):
    with pytest.raises(dataclasses.FrozenInstanceError):
        one(tmp_path).name = "other"
    assert isinstance(one(tmp_path).model_path, Path)


@pytest.mark.parametrize(
    ("kind", "limits", "is_always_on"),
    [
        ("train", ["deadline_hours"], False),
        ("serve", ["ttft_s", "tpot_s", "latency_s"], True),
        ("infer", ["latency_s"], True),
    ],
)
def test_limits_of_other_kinds_do_not_count(kind, limits, is_always_on, tmp_path):
    stated = {"ttft_s": "1", "tpot_s": "0.1", "latency_s": "2", "deadline_hours": "100"}
    volume = {"tokens_per_month": None, "gpu_hours": "100"}
    found = one(tmp_path, kind=kind, **volume, **stated)
    assert list(found.limits) == limits
    assert found.is_always_on is is_always_on
    assert list(found.stated_limits) == list(stated)


def test_inference_without_a_latency_has_its_deadline(tmp_path):
    found = one(tmp_path, kind="infer", tokens_per_month=None, gpu_hours="9", deadline_hours="8")
    assert (found.limits, found.is_always_on) == ({"deadline_hours": 8}, False)
