import json
import math
import time
from datetime import date
from statistics import fmean, median

import planner_worlds
import pytest
from row_cases import drawn_rows, row

from trnsim.calibrate.calibration import LogFile, calibrate
from trnsim.document.values import json_text
from trnsim.site import OTHER
from trnsim.site.site_file import digest, read

DAY = date(2026, 11, 20)


def values(rows):
    return calibrate(rows, [LogFile("log.csv", "questions", len(rows))], DAY).values()


def test_its_json_is_the_file_of_a_site(tmp_path):
    rows = drawn_rows(20)
    told = {"schema": "calibrate/1", **values(rows)}
    (tmp_path / "site.json").write_text(json_text(told))
    site = read(tmp_path / "site.json")
    own = site.correction("trainium1", "decode")
    assert site.provenance(own) == f"yours, 2026-11-20, {own.rows} rows"
    assert own.rows == sum(one.group == ("trainium1", "decode") for one in rows)
    assert told["check"] == digest(told)


def test_it_has_a_correction_for_every_chip_and_family_and_for_others():
    told = values(drawn_rows(20))["corrections"]
    keys = [(each["chip"], each["family"]) for each in told]
    chips, families = ("trainium1", "trainium2", OTHER), ("decode", "encode", OTHER)
    assert sorted(keys) == sorted((chip, family) for chip in chips for family in families)
    of = dict(zip(keys, told, strict=True))
    assert of[OTHER, OTHER]["rows"] == 0
    assert of[OTHER, OTHER]["sigma"] > of["trainium1", "decode"]["sigma"]
    assert abs(math.log(of[OTHER, OTHER]["parts"][""])) < math.log(1.6)


def test_a_group_has_its_errors_before_and_of_rows_left_out():
    told = {
        (each["chip"], each["family"]): each
        for each in values(drawn_rows(60, slower=3.0))["groups"]
    }
    assert sum(each["rows"] for each in told.values()) == 60
    for each in told.values():
        assert each["new_error"] < 0.1
        assert each["new_error"] <= each["old_error"]
        assert 0.5 <= each["new_inside"] <= 1
    assert max(each["old_error"] for each in told.values()) > 0.3


def test_a_single_row_has_no_rows_left_out():
    (group,) = values([row(0.02)])["groups"]
    assert group["new_error"] is None
    assert group["new_inside"] is None


def test_the_same_rows_give_the_same_file():
    assert json.dumps(values(drawn_rows(30))) == json.dumps(values(drawn_rows(30)))


@pytest.mark.slow
def test_ten_thousand_rows_take_less_than_a_minute():
    started_s = time.process_time()
    calibrate(drawn_rows(10_000), [], DAY)
    assert time.process_time() - started_s < 40


@pytest.mark.slow
def test_thirty_planners_worlds_are_learned_from_twenty_rows(monkeypatch):
    monkeypatch.chdir(planner_worlds.ROOT)
    worlds = [planner_worlds.learned(seed) for seed in range(30)]
    assert 0.55 <= median(each.before for each in worlds) <= 0.65
    assert max(each.after for each in worlds) <= 0.12
    assert 0.75 <= fmean(each.inside for each in worlds) <= 0.9


def test_a_planners_world_is_learned_from_twenty_rows(monkeypatch):
    monkeypatch.chdir(planner_worlds.ROOT)
    world = planner_worlds.learned(0)
    assert world.before > 0.5
    assert world.after <= 0.12
