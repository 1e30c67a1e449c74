import re
from functools import partial
from itertools import islice

import pytest
from monitored import record

from trnsim.instance.model import instance_model
from trnsim.instance.state.hardware import COUNTERS, StoredFault, counters
from trnsim.tools.monitor import host
from trnsim.tools.monitor.config import ALL_GROUPS, Config, MetricGroup, ProgramRule
from trnsim.tools.monitor.reports import Monitor

MODEL = instance_model("trn2.48xlarge", 2)
FAULTS = [StoredFault("hbm-ecc", 3, core, 0.0, None) for core in (0, 1)]


class World:
    """A clock that `sleep` moves, and programs whose records follow it."""

    def __init__(self, config=ALL_GROUPS, **programs):
        self.now_s = 0.0
        self.slept_s = []
        self.programs = programs or {"7": (0.0, 1e9)}
        self.monitor = Monitor(
            config, self.records, lambda _: MODEL, partial(counters, FAULTS),
            clock=lambda: self.now_s,
        )  # fmt: skip

    def records(self):
        return [
            record(1 + self.now_s, pid=index, tag=tag)
            for index, (tag, (begin, end)) in enumerate(self.programs.items(), 7)
            if begin <= self.now_s < end
        ]

    def sleep(self, time_s):
        self.slept_s.append(time_s)
        self.now_s += time_s

    def reports(self, count):
        return list(islice(self.monitor.stream(self.sleep), count))


def programs(*groups, tag=""):
    return Config((ProgramRule(re.compile(tag), groups),), ())


def test_every_report_has_the_fields_of_the_page():
    (report,) = World().reports(1)
    assert list(report) == [
        "neuron_runtime_data", "system_data", "instance_info", "neuron_hardware_info",
    ]  # fmt: skip
    (program,) = report["neuron_runtime_data"]
    assert list(program) == ["pid", "address", "neuron_runtime_tag", "error", "report"]
    assert set(program["report"]) == {
        "neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage", "execution_stats",
    }  # fmt: skip
    assert set(report["system_data"]) == {"vcpu_usage", "memory_info", "neuron_hw_counters"}
    for group in [*program["report"].values(), *report["system_data"].values()]:
        assert next(iter(group)) == "period"
        assert list(group)[-1] == "error"


def completed(report, index=0):
    group = report["neuron_runtime_data"][index]["report"]["execution_stats"]
    return group["execution_summary"]["completed"]


def test_counts_are_those_of_a_period():
    """The page: the actual captured period. Of what was before, no report counts anything."""
    world = World(programs(MetricGroup("execution_stats", 2.0)))
    world.now_s = 1000.0
    found = world.reports(3)
    assert [completed(one) for one in found] == [1, 20, 20]
    groups = [one["neuron_runtime_data"][0]["report"]["execution_stats"] for one in found]
    assert [one["period"] for one in groups] == [0.1, 2.0, 2.0]


def test_an_exporter_counts_what_programs_did_before_it():
    world = World(programs(MetricGroup("execution_stats", 2.0)))
    world.now_s = 1000.0
    first, second = islice(world.monitor.stream(world.sleep, is_whole=True), 2)
    assert [completed(one) for one in (first, second)] == [10010, 20]


def test_a_program_that_begins_is_counted_from_its_beginning():
    world = World(programs(MetricGroup("execution_stats", 2.0)), early=(0.0, 1e9), late=(3.0, 1e9))
    found = world.reports(4)
    # Looked for at 0.1, 2.1 and 4.1 s: the record of `monitored` has 51 then.
    assert [len(one["neuron_runtime_data"]) for one in found] == [1, 1, 2, 2]
    assert (completed(found[2], 1), completed(found[3], 1)) == (51, 20)
    (_, late) = found[2]["neuron_runtime_data"]
    assert late["report"]["execution_stats"]["period"] == 2.0


def test_each_group_is_measured_when_it_is_due_and_stands_in_every_report():
    world = World(
        programs(MetricGroup("execution_stats", 1.0), MetricGroup("neuroncore_counters", 1.5))
    )
    found = [one["neuron_runtime_data"][0]["report"] for one in world.reports(5)]
    # Reports 0, 1, 1.5, 2 and 3 s after the first: the second group is new at 0, 1.5 and 3.
    assert [round(one, 9) for one in world.slept_s] == [0.1, 1.0, 0.5, 0.5, 1.0]
    assert [one["execution_stats"]["execution_summary"]["completed"] for one in found] == [
        1, 10, 10, 10, 10,
    ]  # fmt: skip
    same = [one["neuroncore_counters"] is found[0]["neuroncore_counters"] for one in found]
    assert same == [True, True, False, False, False]
    assert found[2]["neuroncore_counters"] is found[3]["neuroncore_counters"]


def test_the_reports_of_the_pages_configuration_add_up_to_what_a_program_did():
    """Its groups of 1 s and of 2 s are measured together, however long a look takes."""
    config = Config(
        programs(MetricGroup("execution_stats", 1.0)).programs,
        (MetricGroup("neuron_hw_counters", 2.0),),
    )
    world = World(config)

    def slow():
        world.now_s += 0.003
        return [record(1 + world.now_s, executions={"completed": int(10 * world.now_s)})]

    world.monitor.records = slow
    found = world.reports(21)
    assert world.now_s == pytest.approx(20.1, abs=0.02)
    assert sum(map(completed, found)) == int(10 * world.now_s)


def test_programs_come_and_go():
    world = World(programs(MetricGroup("memory_used", 5.0)), early=(0.0, 4.0), late=(5.0, 1e9))
    tags = [
        [each["neuron_runtime_tag"] for each in one["neuron_runtime_data"]]
        for one in world.reports(3)
    ]
    assert tags == [["early"], ["late"], ["late"]]


def test_a_program_that_no_filter_finds_is_left_out():
    config = programs(MetricGroup("memory_used", 1.0), tag="^train")
    (report,) = World(config, train=(0.0, 9.0), serve=(0.0, 9.0)).reports(1)
    assert [one["neuron_runtime_tag"] for one in report["neuron_runtime_data"]] == ["train"]


def test_memory_errors_are_listed_by_device():
    (report,) = World(Config((), (MetricGroup("neuron_hw_counters"),))).reports(1)
    devices = report["system_data"]["neuron_hw_counters"]["neuron_devices"]
    assert len(devices) == 16
    none = dict.fromkeys(COUNTERS, 0)
    assert devices[3] == {"neuron_device_index": 3} | none | {"mem_ecc_uncorrected": 2}
    assert devices[2] == {"neuron_device_index": 2} | none


def test_a_group_that_cannot_be_measured_says_why_and_the_others_go_on(monkeypatch):
    def unknown(*_):
        raise host.UnknownValue("no such file")

    for name in ("counters", "memory_info", "process_seconds"):
        monkeypatch.setattr(host, name, unknown)
    for report, period_s in zip(World().reports(2), (0.1, 5.0), strict=True):
        unmeasured = {"period": period_s, "error": "no such file"}
        assert report["system_data"]["vcpu_usage"] == unmeasured
        assert report["system_data"]["memory_info"]["error"] == "no such file"
        (program,) = report["neuron_runtime_data"]
        assert program["report"]["neuron_runtime_vcpu_usage"]["error"] == "no such file"
        assert program["report"]["memory_used"]["error"] == ""
