"""Parts of `make test`: what one prints and takes, what failures do, and that none is left out."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import fast
import nightly
import pytest


def part(name, program, **environment):
    return fast.Part(name, (sys.executable, "-c", program), environment)


def test_a_part_that_fails_stops_no_other_and_is_told(tmp_path, capfd):
    parts = [part("first", "raise SystemExit('no')"), part("second", "print('yes')")]
    rows = fast.run(parts, 1, tmp_path)
    assert [(row["part"], row["status"]) for row in rows] == [("first", 1), ("second", 0)]
    printed = capfd.readouterr().out.splitlines()
    assert printed[:2] == ["--- first", "no"]
    assert "--- second" in printed
    assert "yes" in printed
    assert fast.said(rows[0]).startswith("first: exit 1, ")
    assert fast.said(rows[1]).startswith("second: passed, ")


def test_seconds_of_a_part_stand_beside_those_of_its_tests(tmp_path):
    program = (
        "import os, pathlib, time\n"
        "folder = pathlib.Path(os.environ['TRNSIM_TEST_COSTS'])\n"
        "(folder / '1.jsonl').write_text(os.environ['OF_ITS'])\n"
        "end_s = time.process_time() + 0.05\n"
        "while time.process_time() < end_s: pass\n"
    )
    fast.run([part("one", program, OF_ITS="{}")], 2, tmp_path)
    assert (tmp_path / "one" / "1.jsonl").read_text() == "{}"
    row = json.loads((tmp_path / "one.jsonl").read_text())
    assert (row["kind"], row["part"]) == ("part", "one")
    assert row["cpu_s"] >= 0.05


def test_what_runs_ends_with_who_started_it(tmp_path, monkeypatch):
    begun = []
    begin = fast.begin
    monkeypatch.setattr(fast, "begin", lambda *given: begun.append(begin(*given)) or begun[-1])

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fast, "ended", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fast.run([part("long", "import time; time.sleep(60)")], 2, tmp_path)
    assert begun[0].process.returncode < 0


def test_a_file_that_a_test_leaves_in_the_checkout_is_a_failure(tmp_path, monkeypatch, capsys):
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is what knows the files of a checkout")
    subprocess.run([git, "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("build\n")
    (tmp_path / "mine.txt").touch()
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(fast, "ROOT", tmp_path)
    monkeypatch.setattr(fast, "COSTS", tmp_path / "build" / "costs")
    monkeypatch.setattr(fast, "PARTS", (part("clean", "open('build/ignored', 'w')"),))
    assert not fast.main()
    monkeypatch.setattr(fast, "PARTS", (part("leaving", "open('q.npy', 'w')"),))
    assert fast.main()
    assert capsys.readouterr().out.endswith("tests left files in the checkout:\nq.npy\n")


def test_without_a_checkout_of_git_no_file_is_untracked(tmp_path, monkeypatch):
    monkeypatch.setattr(fast, "ROOT", tmp_path)
    monkeypatch.setattr(fast.shutil, "which", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fast.untracked() == set()


def test_every_folder_of_tests_is_of_one_part():
    named = [folder for folders in fast.FOLDERS.values() for folder in folders]
    assert sorted(set(named)) == sorted(named)
    assert all((fast.ROOT / "tests" / folder).is_dir() for folder in named)
    rest = next(part for part in fast.PARTS if part.name == "rest")
    ignored = {one.removeprefix("--ignore=tests/") for one in rest.command if "=" in one}
    assert ignored == {*named, *fast.CHECKED}
    makefile = (fast.ROOT / "Makefile").read_text(encoding="utf-8")
    (checked,) = (line for line in makefile.splitlines() if "pytest -q" in line and "tiny" in line)
    assert {f"tests/{name}" for name in fast.CHECKED} < set(checked.split())
    run = {argument for part in fast.PARTS for argument in part.command}
    assert {f"tests/{folder}" for folder in named} < run


def test_every_check_is_a_part_by_day_or_by_night():
    makefile = (fast.ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = (line for line in makefile.splitlines() if "--jobs=2 build/checked" in line)
    checks = {word.split("/")[-1] for word in line.split() if word.startswith("build/checked/")}
    by_day = {part.name for part in fast.PARTS if "make" in Path(part.command[0]).name}
    assert checks - by_day == {"basedpyright"}
    assert any("basedpyright" in part.arguments for part in nightly.PARTS)
