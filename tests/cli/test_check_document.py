from pathlib import Path

from trnsim import arch
from trnsim.cli.check_document import CheckedFiles, check_document
from trnsim.document.markdown import markdown
from trnsim.document.spreadsheet import spreadsheet
from trnsim.document.text import text
from trnsim.errors import SourceLine
from trnsim.gate.baselines import Key
from trnsim.gate.checking import CheckLimits, GateFinding, KernelCheck

CHIPS = [arch.target("trn2")]


def document(*checks, unchecked=(), stale_keys=()):
    return check_document(
        CheckedFiles([Path("k.py")], CHIPS, CheckLimits(), checks, unchecked, stale_keys)
    )


def refused():
    check = KernelCheck(Key("k.py", "softmax", "trn2"))
    line = SourceLine("k.py", 7)
    check.findings.append(GateFinding("illegal", True, "too wide", "tile it", line, "a.rst"))
    return check


def test_a_kernel_without_a_run_has_its_reason():
    shown = text(document(refused()))
    assert "FAIL: illegal" in shown
    assert "FAIL illegal: too wide; fix: tile it; source: a.rst; at k.py:7" in shown
    assert shown.startswith("1 check, 1 failed\n")


def test_what_passes_without_a_finding_is_a_row_alone():
    shown = text(
        document(KernelCheck(Key("k.py", "softmax", "trn2")), stale_keys=[Key("k.py", "a", "b")])
    )
    assert shown.count("softmax") == 1
    assert "baselines of kernels that are gone (--update drops them): k.py a on b" in shown
    assert shown.startswith("1 check, none failed\n")


def test_names_of_others_give_no_markup():
    check = KernelCheck(Key("<img>.py", "k|k", "trn2"))
    shown = markdown(document(check, unchecked=["a.py: <b>"]))
    assert "<img>" not in shown
    assert "<b>" not in shown


def test_a_spreadsheet_has_a_row_for_each_check():
    lines = spreadsheet(document(refused(), refused())).splitlines()
    assert lines[0].startswith("kernel,file,chip,passed,time_s")
    assert len(lines) == 3
