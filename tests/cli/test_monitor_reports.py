import json
import os
import sys
from pathlib import Path

import pytest

from trnsim.cli import monitor_reports
from trnsim.errors import BadInput

REPORT = {
    "neuron_runtime_data": [], "system_data": {}, "instance_info": {}, "neuron_hardware_info": {},
}  # fmt: skip


def test_what_is_piped_in_is_repeated_and_what_is_no_report_is_named(monkeypatch, capsys):
    read, write = os.pipe()
    with os.fdopen(write, "w") as fed:
        fed.write(f"{json.dumps(REPORT)}\nno report\n")
    with os.fdopen(read) as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        assert list(monitor_reports.source()) == [REPORT]
    assert "trnsim: line 2 is no JSON" in capsys.readouterr().err


def test_without_a_pipe_the_users_programs_are_measured(monkeypatch, tmp_path):
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
        monkeypatch.setenv("TRNSIM_INSTANCE", "trn1.32xlarge")
        assert next(monitor_reports.source())["instance_info"]["instance_type"] == "trn1.32xlarge"
        monkeypatch.setenv("TRNSIM_STATE", "off")
        with pytest.raises(BadInput, match="no state is kept"):
            monitor_reports.source()
