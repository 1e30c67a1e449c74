"""Scenarios from YAML."""

import pytest

from trnsim.errors import BadInput
from trnsim.system.fleet.reading import read


def test_a_scenario_is_read(scenario_of):
    found = scenario_of()
    assert (found.name, found.hours, found.blocks, found.block_chips) == ("small", 24, 20, 64)
    assert found.start.isoformat() == "2026-03-02T00:00:00+00:00"
    assert found.planning.demand == "p90"
    assert [one.name for one in found.services] == ["chat"]
    assert [one.name for one in found.jobs] == ["big"]


def test_a_name_is_by_default_that_of_the_file(scenario_of):
    assert scenario_of({"name: small\n": ""}).name == "a"


def test_planning_is_read(scenario_of):
    found = scenario_of(
        {"fleet:\n": "planning: {demand: p50, horizon_hours: 12, replan_hours: 6}\nfleet:\n"}
    ).planning
    assert (found.demand, found.horizon_hours, found.replan_hours) == ("p50", 12, 6)


def test_replicas_of_several_ultraservers_make_blocks(scenario_of):
    found = scenario_of(
        {
            "replica_chips: 64": "replica_chips: 192",
            "smallest_chips: 64": "smallest_chips: 192",
            "largest_chips: 640": "largest_chips: 576",
        }
    )
    assert found.block_ultraservers == 3
    assert found.blocks == 6  # three of each building; an UltraServer of each is left over
    assert [one.blocks for one in found.jobs[0].levels] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "timezone: UTC",
            "timezone: Mars/Here",
            "a.yaml:2: timezone is 'Mars/Here'; legal: a name",
        ),
        ("start: 2026-03-02", "start: 2.3.2026", "a.yaml:3: start is '2.3.2026'; legal: a day as"),
        ("start: 2026-03-02", "start: 0001-01-01", "a.yaml:3: start is '0001-01-01'; legal"),
        ("days: 1", "days: 0", "a.yaml:4: days is '0'; legal: a whole number from 1 to 366"),
        (
            "days: 1",
            "day: 1",
            "a.yaml:4: the field 'day' is not known; legal: name, timezone, start, days",
        ),
        ("days: 1\n", "", "a.yaml:1: days is missing; legal: a whole number"),
        (
            "fleet:\n",
            "planning: {replan_hours: 25}\nfleet:\n",
            "planning.replan_hours is '25'; legal: from 1 to 24",
        ),
        (
            "fleet:\n",
            "planning: {demand: p99}\nfleet:\n",
            "planning.demand is 'p99'; legal: p50, p90",
        ),
        (
            "replica_chips: 64",
            "replica_chips: 704",
            "services: whole replicas of all services take 11 UltraServers, which no building has",
        ),
        ("  big:", "  chat:", "jobs.chat: a service has this name already"),
    ],
)
def test_bad_scenarios_are_refused(yaml_of, old, new, said):
    with pytest.raises(BadInput) as error:
        read(yaml_of({old: new}))
    assert said in str(error.value)


def test_what_starts_for_more_than_an_hour_is_refused(yaml_of):
    chat, big = "replica_chips: 64\n", "checkpoint_s: 0\n"
    drained = {chat: f"{chat}    drain_s: 1800\n    weights_s: 1800\n"}
    assert read(yaml_of(drained)).services[0].start_s == 1800
    said = r"services\.chat: starts 3,601 s after it was given blocks, 1,800 s of which .* 3,600 s"
    with pytest.raises(BadInput, match=said):
        read(yaml_of({chat: f"{drained[chat]}    programs_s: 1\n"}))
    said = r"jobs\.big: starts 3,601 s after it was given blocks, 1,800 s of which .* 3,600 s"
    with pytest.raises(BadInput, match=said):
        read(yaml_of(drained | {big: f"{big}    restore_s: 1801\n"}))


def test_a_fleet_without_work_is_refused(yaml_of):
    text = yaml_of().read_text()
    with pytest.raises(BadInput, match="a fleet has work: give services, jobs or both"):
        read(yaml_of(None, text[: text.index("services:")]))


def test_jobs_alone_and_services_alone_are_scenarios(yaml_of):
    text = yaml_of().read_text()
    at, to = text.index("services:"), text.index("jobs:")
    assert read(yaml_of(None, text[:at] + text[to:])).services == ()
    assert read(yaml_of(None, text[:to])).jobs == ()
