import os
import time

import pytest

from trnsim.tools.monitor import host

psutil = pytest.importorskip("psutil", reason="the extra platform is not installed")


def seconds(**given):
    names = ("user", "nice", "system", "idle", "io_wait", "irq", "soft_irq")
    return {name: float(given.get(name, 0)) for name in names}


def test_processors_are_shared_out_by_the_time_since():
    before = {"processors": [seconds(user=10, idle=10), seconds(idle=5)], "switches": 100}
    now = {"processors": [seconds(user=11, idle=13), seconds(idle=5, system=4)], "switches": 130}
    found = host.vcpu_usage(now, before)
    assert found["usage_data"]["0"]["user"] == 25
    assert found["usage_data"]["0"]["idle"] == 75
    assert found["usage_data"]["1"]["system"] == 100
    assert found["average_usage"]["user"] == 12.5
    assert found["context_switch_count"] == 30


def test_a_processor_that_is_new_or_stood_still_counts():
    before = {"processors": [seconds(idle=1)], "switches": 0}
    now = {"processors": [seconds(idle=1), seconds(user=2)], "switches": 0}
    found = host.vcpu_usage(now, before)["usage_data"]
    assert set(found["0"].values()) == {0.0}
    assert found["1"]["user"] == 100


def test_the_host_itself_is_measured():
    now = host.counters()
    assert len(now["processors"]) == psutil.cpu_count()
    usage = host.vcpu_usage(now, None)["average_usage"]
    assert 0 < sum(usage.values()) <= 100.1
    memory = host.memory_info()
    assert 0 < memory["memory_used_bytes"] < memory["memory_total_bytes"]


def test_a_process_is_measured_by_its_share_of_all_processors():
    before = host.process_seconds(os.getpid())
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    now = host.process_seconds(os.getpid())
    used = host.process_percent(now, before, 1.0)["vcpu_usage"]
    assert 0 < used["user"] + used["system"] <= 100
    same = host.process_percent(now, now, 1.0)["vcpu_usage"]
    assert same == {"user": 0.0, "system": 0.0}


def test_what_cannot_be_measured_says_why(monkeypatch):
    with pytest.raises(host.UnknownValue, match=r"."):
        host.process_seconds(2**22 + 1)
    monkeypatch.setitem(__import__("sys").modules, "psutil", None)
    with pytest.raises(host.UnknownValue, match=r"pip install 'trnsim\[platform\]'"):
        host.counters()
