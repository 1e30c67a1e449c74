from monitored import record
from reported import World, full

from trnsim.tools.top.view import ALL, Tab, Vcpus, figures, instance, tabs


def test_a_tab_for_all_programs_and_one_for_each():
    report = World(full(), record(pid=8, tag="serve")).report()
    assert tabs(report) == [ALL, Tab("train", 7), Tab("serve", 8)]


def test_a_tag_commands_no_terminal():
    report = World(record(pid=8, tag="a\x1b[2J\nb")).report()
    assert tabs(report)[1] == Tab("a\\x1b[2J b", 8)


def test_the_instance_is_the_reports():
    found = instance(World().report())
    assert (found.name, found.core_version) == ("trn2.48xlarge", "v3d")
    assert (found.devices, found.cores_per_device) == (16, 4)


def test_memory_of_all_programs_is_the_sum_of_theirs():
    report = World(record(pid=7), record(pid=8)).report()
    one, both = figures(report, Tab("7", 8)), figures(report, ALL)
    assert one.host_bytes == {"application_memory": 2, "constants": 0, "dma_buffers": 0,
                              "tensors": 8}  # fmt: skip
    assert (one.host_total_bytes, both.host_total_bytes) == (10, 20)
    assert one.core_bytes[0]["tensors"] == 100
    assert both.core_bytes[0]["tensors"] == 200
    assert both.core_bytes[5]["tensors"] == 6
    assert both.device_total_bytes == 2 * 123
    assert both.device_bytes("tensors") == 206
    assert sum(sum(each.values()) for each in both.core_bytes.values()) == both.device_total_bytes


def test_of_several_programs_on_a_core_the_busiest_is_shown():
    idle = record(pid=8, busy_s={0: {"pe": 0.1}}, flop={0: 5e9})
    report = World(record(pid=7), idle).report()
    assert figures(report, ALL).percent == {0: 50.0, 5: 0.0}
    assert figures(report, ALL).flop_per_s[0] == 5e9
    assert figures(report, Tab("7", 8)).percent[0] == 10.0


def test_a_program_that_is_gone_shows_nothing():
    shown = figures(World(full()).report(), Tab("gone", 99))
    assert (shown.percent, shown.core_bytes, shown.host_total_bytes) == ({}, {}, 0)
    assert shown.runtime == Vcpus(0, 0)


def test_vcpus_that_are_not_known_say_why():
    report = World(record(pid=7), record(pid=8)).report()
    report["system_data"]["vcpu_usage"] = {"period": 1, "error": "no psutil"}
    first, second = (one["report"] for one in report["neuron_runtime_data"])
    first["neuron_runtime_vcpu_usage"] = {"period": 1, "error": "it has ended"}
    second["neuron_runtime_vcpu_usage"] = {
        "period": 1, "vcpu_usage": {"user": 3.0, "system": 1.0}, "error": "",
    }  # fmt: skip
    assert figures(report, ALL).system == Vcpus(error="no psutil")
    assert figures(report, ALL).runtime == Vcpus(3.0, 1.0)
    assert figures(report, Tab("7", 7)).runtime == Vcpus(error="it has ended")
