"""The page of public suites: what is explained has its document, what is not stands first."""

import pytest
from reasons import FAILURES, WARNINGS
from suites import NOT_YET, SUITES
from suites_page import Result, page, with_rows

NAMES = {suite.name: suite for suite in SUITES}
HEAD = {"suite": "any", "commit": "0a1b2c3d", "emulator": "4e5f6a7"}
END = {"finished": True}


def case(name, outcome="passed", reason="", warnings=()):
    return {"case": name, "outcome": outcome, "reason": reason, "warnings": list(warnings)}


def text_of(name, *entries, end=END, chosen=9):
    counts = {"population": 9, "chosen": chosen}
    result = Result(NAMES[name], [HEAD, counts, *entries, end])
    return page([result], [(group, clone, "sha", what) for group, clone, what in NOT_YET])


def test_a_failure_that_nothing_explains_stands_first():
    text = text_of(
        "D5-trn3-fast",
        case("f.py::test_quantize_mx_hw[float8_e4m3fn]", "failed", "Validation failed for ['x']"),
        case("f.py::test_other[1]", "failed", "Validation failed for ['x']"),
    )
    unexplained, _, explained = text.partition("## Failures that a document explains")
    assert "- D5-trn3-fast `f.py::test_other[1]`: Validation failed for ['x']\n" in unexplained
    assert "Source: aws-neuron-sdk release-notes/components/nki.rst, NKI 0.5.0" in explained
    assert "- D5-trn3-fast `f.py::test_quantize_mx_hw[float8_e4m3fn]`\n" in explained


def test_a_warning_is_counted_whether_or_not_the_case_passed():
    text = text_of(
        "D5-trn2-fast",
        case("f.py::test_a[1]", warnings=[["SpillWarning", "SBUF holds"]] * 2),
        case("f.py::test_a[2]", "failed", "why", warnings=[["SpillWarning", "SBUF holds"]]),
        case("f.py::test_b", warnings=[["RuntimeWarning", "overflow"]]),
    )
    assert "| 3 | 2 | 1 | 0 | 3 |\n" in text
    assert "Cases that passed: 2; of them 1 with RuntimeWarning, 1 with SpillWarning.\n" in text
    assert "- D5-trn2-fast `f.py::test_a`: 2 cases\n" in text
    assert "- D5-trn2-fast `f.py::test_b`: RuntimeWarning: overflow\n" in text


def test_a_row_says_how_much_of_a_suite_was_run():
    cases = [case(f"f.py::test[{x}]") for x in range(9)]
    assert "cases on trn2: a sample of 3 of 9 |" in text_of("D5-trn2-sweeps", *cases[:3], chosen=3)
    assert "cases on trn2: all |" in text_of("D5-trn2-sweeps", *cases)
    assert "cases on trn2 (stopped early) |" in text_of("D5-trn2-sweeps", *cases, end=cases[0])
    assert "nki/examples (not run) |" in text_of("D1")


def test_a_row_of_a_suite_that_only_passes_is_put_in_by_itself():
    warned = case("f.py::test_a[1]", warnings=[["SpillWarning", "SBUF holds"]])
    text = text_of("D5-trn2-fast", warned, case("f.py::test_b"))
    counts = {"population": 2, "chosen": 2}
    fine = Result(NAMES["D8"], [HEAD, counts, case("g.py::one"), case("g.py::two"), END])
    more = with_rows(text, [fine])
    (row,) = (
        line for line in more.splitlines() if line not in text.splitlines()[:9] and "D8" in line
    )
    assert row.startswith("| D8 | nki-library | 0a1b2c3d | collectives between ranks")
    assert row.endswith("| 2 | 2 | 0 | 0 | 0 |")
    without = more.replace(row + "\n", "").replace("passed: 4; of", "passed: 2; of")
    assert without == text
    assert with_rows(more, [fine]) == more
    with pytest.raises(SystemExit, match="D5-trn2-fast does not only pass"):
        with_rows(text, [Result(NAMES["D5-trn2-fast"], [HEAD, counts, warned, END])])


def test_a_file_that_cannot_be_imported_is_a_failure():
    text = text_of("D1", {"uncollected": "f.py", "reason": "ImportError: no"}, end={})
    assert "- D1 `f.py`: ImportError: no\n" in text


def test_skips_are_counted_by_their_reason():
    skips = [case(f"f.py::test[{x}]", "skipped", f"empty set for ({x})") for x in range(3)]
    assert "- D1: 3: empty set\n" in text_of("D1", *skips)


def test_a_case_that_its_authors_expected_to_fail_is_listed_with_its_outcome():
    name = "tests/test_trnsci.py::test_a_case[trnsparse::Test::test_non_trivial_threshold_parity]"
    assert f"- D6 `{name}`: passed\n" in text_of("D6", case(name))


def test_the_older_generation_is_listed_as_not_yet():
    assert "| D2 | aws-neuron-sdk | sha | nki/test |\n" in text_of("D1")


def test_every_reason_names_a_document():
    for reason in FAILURES + WARNINGS:
        assert reason.why.endswith(".")
        assert reason.source
        assert any(name.startswith(reason.suite) for name in NAMES)
