import copy
import json
import os
import re
import sys
from functools import reduce
from pathlib import Path

import pytest

from trnsim.cli import monitor_reports
from trnsim.errors import BadInput
from trnsim.instance.state.folder import state_folder
from trnsim.instance.state.identity import own_identity
from trnsim.instance.state.record import ProcessRecord, to_json
from trnsim.tools.monitor.series import CollectedSeries

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


def damaged(report):
    """The report with each of its parts taken away, or of another kind."""
    places = [()]
    for place in places:
        part = reduce(lambda inside, key: inside[key], place, report)
        keys = (
            part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        )
        places += [(*place, key) for key in keys]
    for *place, key in places[1:]:
        for value in (None, 5, "x", [], {}, [1]):
            changed = copy.deepcopy(report)
            reduce(lambda inside, key: inside[key], place, changed)[key] = value
            yield changed


@pytest.mark.slow
def test_a_report_of_another_version_is_left_out_and_the_next_is_taken(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn2.3xlarge")
    pid, started = own_identity()
    one = ProcessRecord(pid, started, "c", "torch", "t", "trn2.3xlarge", 2, (0,), 1.0)
    (state_folder() / f"{pid}-{started}.json").write_text(to_json(one))
    report = next(monitor_reports.user_reports())
    assert report["neuron_runtime_data"]
    for changed in damaged(report):
        collected = CollectedSeries()
        list(monitor_reports.collect(iter([report, changed]), collected))
        assert collected.series
    said = capsys.readouterr().err.splitlines()
    assert "trnsim: a report is not understood (KeyError: 'user'); left out" in said
    assert all(
        re.fullmatch(r"trnsim: a report is not understood \(.*\); left out", line) for line in said
    )
