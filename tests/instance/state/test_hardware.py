import json
import re
import time
from dataclasses import replace

import pytest

from trnsim.errors import BadInput
from trnsim.instance.state import folder, hardware
from trnsim.instance.state.hardware import KINDS, StoredFault

PATTERN = r".* NEURON_HW_ERR={} .*"
"""aws-neuron-sdk src/k8/neuron-problem-detector, the rules' patterns."""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_STATE", str(tmp_path / "state"))
    return folder.state_folder()


def fault(kind="hbm-ecc", device=3, core=1, for_s=None, ago_s=0.0):
    return StoredFault(kind, device, core, time.time() - ago_s, for_s)


def test_faults_are_kept_in_order_and_counted_by_device(place):
    assert hardware.injected_faults(place) == []
    first = hardware.inject(place, fault())
    second = hardware.inject(place, fault("dma", 0, None, 30.0))
    assert hardware.injected_faults(place) == [first, second]
    counts = hardware.counters(hardware.injected_faults(place), 16)
    assert counts[3] == dict.fromkeys(hardware.COUNTERS, 0) | {"mem_ecc_uncorrected": 1}
    assert all(not any(row.values()) for at, row in enumerate(counts) if at != 3)
    assert hardware.counters([fault(device=16)], 16) == hardware.counters([], 16)


@pytest.mark.parametrize("kind", list(KINDS))
def test_each_has_a_line_that_a_problem_detector_finds(place, kind):
    hardware.inject(place, fault(kind))
    hardware.inject(place, fault(kind, core=None))
    first, second = (place / hardware.LOG).read_text().splitlines()
    assert re.fullmatch(PATTERN.format(KINDS[kind].log_name), first)
    assert "emulated" in first
    assert " nd-id=3 nc-id=1 " in first
    assert " nd-id=3 serial-num=" in second


def test_a_fault_lasts_until_its_end_or_until_it_is_cleared(place):
    assert fault().is_active()
    assert fault(for_s=30.0).is_active()
    assert not fault(for_s=30.0, ago_s=31.0).is_active()
    assert not fault(for_s=0.0).is_active()
    assert not fault(for_s=30.0, ago_s=-60.0).is_active()  # the clock went back
    hardware.inject(place, fault())
    hardware.inject(place, fault(device=4))
    assert hardware.clear(place, 3) == 1
    assert [one.is_active() for one in hardware.injected_faults(place)] == [False, True]
    assert hardware.clear(place) == 1
    assert hardware.clear(place) == 0
    assert hardware.counters(hardware.injected_faults(place), 16)[3]["mem_ecc_uncorrected"] == 1


def test_a_reset_forgets_faults_counts_and_lines(place):
    assert hardware.reset(place) == 0
    assert not (place / hardware.LOG).exists()
    hardware.inject(place, fault())
    hardware.inject(place, fault(device=4, for_s=0.0))
    (place / hardware.FOLDER / "1.json").write_text("{")
    before = hardware.changed_ns(place)
    assert hardware.reset(place) == 2
    assert hardware.injected_faults(place) == []
    assert (place / hardware.LOG).read_text() == ""
    assert not list((place / hardware.FOLDER).iterdir())
    assert hardware.changed_ns(place) != before  # programs read anew
    hardware.inject(place, fault())
    assert hardware.counters(hardware.injected_faults(place), 16)[3]["mem_ecc_uncorrected"] == 1
    assert len((place / hardware.LOG).read_text().splitlines()) == 1


def test_a_reset_of_what_cannot_be_removed_says_so(place):
    (place / hardware.FOLDER / "1.json").mkdir(parents=True)
    with pytest.raises(BadInput, match=r"cannot remove .*1\.json: "):
        hardware.reset(place)


def test_a_fault_strikes_its_core_or_all_of_its_device():
    assert fault().strikes(1, 3)
    assert not fault().strikes(0, 3)
    assert not fault().strikes(1, 2)
    assert replace(fault(), core=None).strikes(0, 3)


def test_what_is_no_fault_is_skipped(place):
    hardware.inject(place, fault())
    (good,) = (place / hardware.FOLDER).glob("*.json")
    whole = json.loads(good.read_text())
    wrong = {
        "at": ["now", None, float("nan"), 10**400],
        "for_s": ["30s", float("inf")],
        "device": ["3", -1, 3.5],
        "core": ["1", -1],
        "kind": [["hang"], "fire"],
        "another": [1],
    }
    changed = [whole | {name: value} for name, values in wrong.items() for value in values]
    texts = ["", "{", "[]", "3", "[" * 100_000, '{"kind": 3}', good.read_text()[:40]]
    for number, text in enumerate([*texts, *map(json.dumps, changed)]):
        (place / hardware.FOLDER / f"{number}.json").write_text(text)
    assert len(hardware.injected_faults(place)) == 1


def test_a_fault_is_cleared_in_its_own_file(place):
    """Also one that was copied to another name by hand."""
    made = hardware.inject(place, fault())
    (place / hardware.FOLDER / made.name).rename(place / hardware.FOLDER / "copied.json")
    assert hardware.clear(place) == 1
    assert [path.name for path in (place / hardware.FOLDER).iterdir()] == ["copied.json"]


def test_another_fault_is_seen_by_one_number(place):
    assert hardware.changed_ns(place) == 0
    hardware.inject(place, fault())
    assert hardware.changed_ns(place) > 0


def test_an_unknown_kind_is_refused():
    hardware.check_kind("dma")
    with pytest.raises(BadInput, match="fault 'fire' is not known; legal: hbm-ecc, hang, dma, the"):
        hardware.check_kind("fire")
