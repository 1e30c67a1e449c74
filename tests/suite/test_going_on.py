"""Which tests a run that goes on leaves out, and which it notes."""

from types import SimpleNamespace

import pytest
from going_on import GoingOn


def items(*names):
    return [SimpleNamespace(nodeid=name) for name in names]


def left_after(file, *names):
    """The tests that a run would still make."""
    collected, deselected = items(*names), []
    hook = SimpleNamespace(pytest_deselected=lambda **call: deselected.extend(call["items"]))
    GoingOn(file).pytest_collection_modifyitems(SimpleNamespace(hook=hook), collected)
    assert len(collected) + len(deselected) == len(names)
    return [item.nodeid for item in collected]


def report(plugin, name, **failed):
    for when in ("setup", "call", "teardown"):
        phase = SimpleNamespace(nodeid=name, when=when, failed=failed.get(when, False))
        plugin.pytest_runtest_logreport(phase)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return tmp_path / "passed"


def test_without_a_file_all_tests_run(file):
    assert left_after(file, "a", "b") == ["a", "b"]


@pytest.mark.parametrize("phase", ["setup", "call", "teardown"])
def test_what_passed_is_left_out_and_what_failed_in_any_phase_runs_again(file, phase):
    plugin = GoingOn(file)
    report(plugin, "good")
    report(plugin, "bad", **{phase: True})
    assert left_after(file, "bad", "good", "new") == ["bad", "new"]


def test_a_worker_notes_nothing_as_its_reports_reach_the_process_above_it(file, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    report(GoingOn(file), "good")
    assert left_after(file, "good") == ["good"]


def test_nothing_left_to_run_is_a_success_only_where_tests_passed_before(file):
    nothing = pytest.ExitCode.NO_TESTS_COLLECTED
    session = SimpleNamespace(exitstatus=nothing)
    GoingOn(file).pytest_sessionfinish(session, nothing)
    assert session.exitstatus == nothing
    report(GoingOn(file), "good")
    GoingOn(file).pytest_sessionfinish(session, nothing)
    assert session.exitstatus == pytest.ExitCode.OK
