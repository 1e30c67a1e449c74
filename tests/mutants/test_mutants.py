"""How faults are tried: in a copy, by tests that pass without them, with what is argued apart."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # scripts are no package
from draw import faults_of

import mutants
from mutants import argued_as, gone, mirror, named, names_of, verdict


def some_fault():
    return faults_of("hazards")["comparison"][0]


def test_the_failing_test_is_read_from_what_pytest_prints():
    text = "....F\nFAILED tests/a/test_b.py::test_c[x - y] - AssertionError: 1 - 2\n1 failed\n"
    assert named(1, text, ["tests/a"]) == "tests/a/test_b.py::test_c[x - y]"
    assert named(1, "ERROR tests/a/test_b.py - ImportError\n", ["tests/a"]) == "tests/a/test_b.py"
    assert named(-11, "", ["tests/a"]) == "tests/a: the process ended with -11"
    assert named(0, "", ["tests/a"]) is None
    assert named(5, "no tests ran", ["tests/a"]) is None


def test_tests_are_chosen_by_file_and_by_names():
    fault = replace(some_fault(), file="graph/ops/layout.py", function="TopK.types")
    assert mirror(fault.file) == "tests/graph/ops/test_layout.py"
    assert names_of(fault) == "top_k"
    assert names_of(replace(fault, function="_by_rows.build")) == "by_rows"
    assert names_of(replace(fault, function="")) == ""
    assert names_of(replace(fault, function="_not")) == ""


def test_a_drawn_fault_whose_statement_has_changed_is_named(monkeypatch):
    fault = replace(some_fault(), statement="return 0")
    monkeypatch.setattr(mutants, "drawn", lambda: {"hazards": [fault]})
    monkeypatch.setattr(mutants, "EQUIVALENT", {})
    assert gone() == [f"{fault.file}: return 0"]


def test_every_drawn_fault_is_one_of_the_source():
    assert gone() == []


def test_an_argument_is_about_a_fault_that_is_drawn(monkeypatch):
    monkeypatch.setattr(mutants, "drawn", lambda: {"hazards": [some_fault()]})
    argued = {argued_as(some_fault()): "it is", ("a.py", "x = 1", "1", "2"): "it is not"}
    monkeypatch.setattr(mutants, "EQUIVALENT", argued)
    assert gone() == ["argued, and not drawn: ('a.py', 'x = 1', '1', '2')"]


def test_what_is_argued_is_not_tried(monkeypatch):
    monkeypatch.setattr(mutants, "EQUIVALENT", {argued_as(some_fault()): "for it is so"})
    assert verdict(None, "hazards", some_fault(), {}) == "equivalent: for it is so"


def test_what_is_caught_is_kept_and_what_survives_is_not(monkeypatch, tmp_path):
    monkeypatch.setattr(mutants, "EQUIVALENT", {})
    monkeypatch.setattr(mutants, "KEPT", tmp_path / "found.jsonl")
    monkeypatch.setattr(mutants, "catcher", lambda *_: None)
    assert verdict(None, "hazards", some_fault(), mutants.kept()) is None
    assert mutants.kept() == {}
    monkeypatch.setattr(mutants, "catcher", lambda *_: "tests/a.py::test")
    assert verdict(None, "hazards", some_fault(), mutants.kept()) == "caught by tests/a.py::test"
    monkeypatch.setattr(mutants, "catcher", None)
    assert verdict(None, "hazards", some_fault(), mutants.kept()) == "caught by tests/a.py::test"


@pytest.mark.slow
def test_a_fault_is_put_in_a_copy_that_tests_import(tmp_path):
    test = tmp_path / "test_of_the_copy.py"
    test.write_text(
        "from trnsim import formatting\n\n\n"
        "def test_it():\n    assert not hasattr(formatting, 'FAULT')\n"
    )
    copy, source = mutants.Copy(tmp_path), mutants.source_of("formatting.py")
    assert copy.failing([str(test)]) is None
    copy.put("formatting.py", f"{source}FAULT = 1\n")
    assert copy.failing([str(test)]).endswith("test_of_the_copy.py::test_it")
    assert copy.failing([str(test)], "other") is None  # no test of that name
    copy.put("formatting.py", source)
    assert copy.failing([str(test)]) is None
    assert mutants.source_of("formatting.py") == source


@pytest.mark.slow
def test_a_test_that_never_ends_has_noticed(tmp_path, monkeypatch):
    test = tmp_path / "test_of_the_copy.py"
    test.write_text("import time\n\n\ndef test_it():\n    time.sleep(600)\n")
    monkeypatch.setattr(mutants, "LIMIT_S", 2)
    assert mutants.Copy(tmp_path).failing([str(test)]) == f"no end in 2 s of {test}"


def test_a_test_that_fails_without_the_fault_ends_the_run():
    class Failing:
        def put(self, *_): ...

        def failing(self, *_):
            return "tests/hazards/test_races.py::test_it"

    with pytest.raises(SystemExit, match="test_it without a fault"):
        mutants.catcher(Failing(), "hazards", some_fault())


def test_mirror_and_names_are_asked_before_the_rooms_others():
    asked = []

    class Passing:
        def put(self, *_): ...

        def failing(self, tests, names):
            asked.append((tests, names))

    assert mutants.catcher(Passing(), "hazards", some_fault()) is None
    own = (mirror(some_fault().file),)
    assert asked == [
        (own, names_of(some_fault())),
        (own, ""),
        (("tests/hazards", "tests/program", "tests/conformance"), ""),
    ]
