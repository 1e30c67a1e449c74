import shutil
import time
from itertools import islice

import pytest

from trnsim.errors import BadInput
from trnsim.instance.state import folder, hardware, observers
from trnsim.tools.monitor.config import ALL_GROUPS
from trnsim.tools.monitor.user_monitor import user_monitor, user_reports


def test_everything_of_the_users_folder_is_measured_every_second(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.48xlarge")
    hardware.inject(folder.state_folder(), hardware.StoredFault("hbm-ecc", 3, 0, time.time(), 0.0))
    (report,) = islice(user_reports(), 1)
    counters = report["system_data"]["neuron_hw_counters"]
    assert counters["period"] == 1.0
    assert [one["mem_ecc_uncorrected"] for one in counters["neuron_devices"]] == [
        0, 0, 0, 1, *[0] * 12,
    ]  # fmt: skip
    assert folder.is_listening(tmp_path / "state")


def test_a_tool_that_cannot_be_listed_measures_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    (folder.state_folder() / observers.FOLDER).write_text("no folder")
    assert user_monitor(ALL_GROUPS).report()["neuron_runtime_data"] == []


def test_a_folder_that_cannot_be_used_is_refused_before_anything_is_measured(monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", "off")
    with pytest.raises(BadInput, match="no state is kept"):
        user_monitor(ALL_GROUPS)


def test_a_folder_that_is_removed_is_made_again(monkeypatch, tmp_path):
    """Processes that go on are asked anew, as the wish of before went with it."""
    state = tmp_path / "state"
    monkeypatch.setenv("TRNSIM_STATE", str(state))
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.3xlarge")
    monitor = user_monitor(ALL_GROUPS)
    monitor.report()
    shutil.rmtree(state)
    assert monitor.report()["neuron_runtime_data"] == []
    assert folder.is_listening(state)
