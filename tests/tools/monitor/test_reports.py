import re
from functools import partial
from itertools import islice

from monitored import record

from trnsim.instance.model import instance_model
from trnsim.instance.state.hardware import COUNTERS, Injected, counters
from trnsim.tools.monitor import host
from trnsim.tools.monitor.config import EVERYTHING, Config, Group, Programs
from trnsim.tools.monitor.reports import Monitor

MODEL = instance_model("trn2.48xlarge", 2)
FAULTS = [Injected("hbm-ecc", 3, core, 0.0, None) for core in (0, 1)]


class World:
    """A clock that `sleep` moves, and programs whose records follow it."""

    def __init__(self, config=EVERYTHING, **programs):
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
    return Config((Programs(re.compile(tag), groups),), ())


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


def test_counts_are_those_of_a_period():
    first, second = World(programs(Group("execution_stats", 2.0))).reports(2)
    counts = [one["neuron_runtime_data"][0]["report"]["execution_stats"] for one in (first, second)]
    assert [one["execution_summary"]["completed"] for one in counts] == [10, 20]
    assert [one["period"] for one in counts] == [2.0, 2.0]


def test_each_group_is_measured_when_it_is_due_and_stands_in_every_report():
    world = World(programs(Group("execution_stats", 1.0), Group("neuroncore_counters", 1.5)))
    found = [one["neuron_runtime_data"][0]["report"] for one in world.reports(5)]
    # Reports at 0, 1, 1.5, 2 and 3 s: the second group is new at 0, 1.5 and 3.
    assert world.slept_s == [1.0, 0.5, 0.5, 1.0]
    assert [one["execution_stats"]["execution_summary"]["completed"] for one in found] == [
        10, 10, 10, 10, 10,
    ]  # fmt: skip
    same = [one["neuroncore_counters"] is found[0]["neuroncore_counters"] for one in found]
    assert same == [True, True, False, False, False]
    assert found[2]["neuroncore_counters"] is found[3]["neuroncore_counters"]


def test_programs_come_and_go():
    world = World(programs(Group("memory_used", 5.0)), early=(0.0, 4.0), late=(5.0, 1e9))
    tags = [
        [each["neuron_runtime_tag"] for each in one["neuron_runtime_data"]]
        for one in world.reports(3)
    ]
    assert tags == [["early"], ["late"], ["late"]]


def test_a_program_that_no_filter_finds_is_left_out():
    config = programs(Group("memory_used", 1.0), tag="^train")
    (report,) = World(config, train=(0.0, 9.0), serve=(0.0, 9.0)).reports(1)
    assert [one["neuron_runtime_tag"] for one in report["neuron_runtime_data"]] == ["train"]


def test_memory_errors_are_listed_by_device():
    (report,) = World(Config((), (Group("neuron_hw_counters"),))).reports(1)
    devices = report["system_data"]["neuron_hw_counters"]["neuron_devices"]
    assert len(devices) == 16
    none = dict.fromkeys(COUNTERS, 0)
    assert devices[3] == {"neuron_device_index": 3} | none | {"mem_ecc_uncorrected": 2}
    assert devices[2] == {"neuron_device_index": 2} | none


def test_a_group_that_cannot_be_measured_says_why_and_the_others_go_on(monkeypatch):
    def unknown(*_):
        raise host.Unknown("no such file")

    for name in ("counters", "memory_info", "process_seconds"):
        monkeypatch.setattr(host, name, unknown)
    first, second = World().reports(2)
    for report in (first, second):
        assert report["system_data"]["vcpu_usage"] == {"period": 5.0, "error": "no such file"}
        assert report["system_data"]["memory_info"]["error"] == "no such file"
        (program,) = report["neuron_runtime_data"]
        assert program["report"]["neuron_runtime_vcpu_usage"]["error"] == "no such file"
        assert program["report"]["memory_used"]["error"] == ""
