"""The record of a nightly run: what passed is not run again, what failed is, and the table."""

import nightly
import pytest
from nightly import PARTS, Part, Record


@pytest.fixture
def ran(monkeypatch):
    """The commands that a record starts, each of which exits with `ran.status`."""

    class Ran(list):
        status = 0

        def run(self, command, **options):
            self.append((command[1:], options["env"]))
            return self

        @property
        def returncode(self):
            return self.status

    started = Ran()
    monkeypatch.setattr(nightly.subprocess, "run", started.run)
    return started


def test_what_passed_is_not_run_again_and_what_failed_is(ran, tmp_path):
    part = Part("a part", ("program.py", "--option"))
    ran.status = 1
    Record(tmp_path).run(part)
    ran.status = 0
    Record(tmp_path).run(part)
    Record(tmp_path).run(part)
    assert [command for command, _ in ran] == [["program.py", "--option"]] * 2
    assert Record(tmp_path).outcomes["a part"].status == 0


def test_an_interrupted_part_is_run_again(ran, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    part = Part("a part", ("program.py",))
    with monkeypatch.context() as patch:
        patch.setattr(nightly.subprocess, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Record(tmp_path).run(part)
    Record(tmp_path).run(part)
    assert len(ran) == 1


def test_parts_of_tests_go_on_by_a_file_of_their_own(ran, tmp_path):
    record = Record(tmp_path)
    for part in PARTS[:3]:
        record.run(part)
    files = [environment["TRNSIM_TESTS_PASSED"] for _, environment in ran]
    assert len(set(files)) == 3
    assert ran[1][1]["JAX_PLATFORMS"] == "cpu"


def test_the_table_has_a_line_for_each_part(ran, tmp_path):
    record = Record(tmp_path)
    ran.status = 2
    record.run(PARTS[0])
    head, first, second, *_, total = record.table()
    assert first.endswith("tests: exit 2")
    assert second.endswith(": not run")
    assert total.endswith("all")
    assert "minutes" in head


def test_another_source_has_another_digest(monkeypatch):
    changes = {"rev-parse": b"a", "diff": b"", "ls-files": b""}
    monkeypatch.setattr(nightly, "git", lambda name, *_: changes[name])
    before = nightly.source_digest()
    changes["diff"] = b"+1"
    assert nightly.source_digest() != before


def test_a_part_may_have_an_environment_of_its_own():
    pythons = {part.name: part.python for part in PARTS}
    assert pythons["published rows"] == str(nightly.ROOT / ".venv-clients/bin/python")
    assert pythons["tests"] == nightly.sys.executable
    makefile = (nightly.ROOT / "Makefile").read_text(encoding="utf-8")
    (needed,) = (line for line in makefile.splitlines() if line.startswith("nightly:"))
    assert all(f".venv-{part.venv}/.made" in needed for part in PARTS if part.venv)
