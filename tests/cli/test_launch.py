import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli import launch as command
from trnsim.errors import BadInput


@pytest.fixture(autouse=True)
def without_torch(monkeypatch):
    """Ranks as plain processes, which start at once."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)


def launched(*arguments):
    with pytest.raises(SystemExit) as ended:
        app(args=["launch", *map(str, arguments)], standalone_mode=False)
    return ended.value.code


WORLD = ("--on", "trn2.48xlarge", "--nodes", "2", "--ranks-per-node", "1")
SAYS = "import os, sys; print(sys.argv[1:], os.environ['RANK'], os.environ['TRNSIM_INSTANCE'])"


def test_what_follows_the_program_is_the_programs(tmp_path, capsys):
    program = (sys.executable, "-c", SAYS, "--nodes", "7", "--", "-h")
    for between in ((), ("--",)):
        assert launched(*WORLD, "--report", tmp_path / "made", *between, *program) == 0
        out = capsys.readouterr().out
        assert out.startswith(
            "2 ranks on 2 x trn2.48xlarge, 1 on each\n['--nodes', '7', '--', '-h'"
        )
        assert "] 0 trn2.48xlarge\n" in out
        assert f"  logs    {tmp_path / 'made' / 'logs'}" in out
    assert {path.name for path in (tmp_path / "made").iterdir()} == {
        *("logs", "ranks", "world.txt", "world.json", "world.html"),
    }
    assert (tmp_path / "made" / "logs" / "rank-1.log").read_text().endswith("1 trn2.48xlarge\n")


def test_the_status_is_that_of_the_lost_rank_and_it_is_named(tmp_path, capsys):
    program = (sys.executable, "-c", "import os, sys; sys.exit(5 * int(os.environ['RANK']))")
    assert launched(*WORLD, "--report", tmp_path, "--", *program) == 5
    found = capsys.readouterr()
    assert "trnsim: rank 1 (node 1, local rank 0) ended with status 5\n" in found.err
    assert "lost: rank 1 (node 1, local rank 0) ended with status 5" in found.out or (
        "nothing to time" in found.out
    )


def test_what_an_earlier_launch_left_is_removed(tmp_path):
    (tmp_path / "ranks").mkdir()
    (tmp_path / "ranks" / "rank-0.json").write_text("{}")
    (tmp_path / "logs").mkdir()
    for name in ("rank-7.log", "node-1.log", "my training.log"):
        (tmp_path / "logs" / name).write_text("")
    assert launched(*WORLD, "--report", tmp_path, sys.executable, "-c", "") == 0
    assert list((tmp_path / "ranks").iterdir()) == []
    logs = {path.name for path in (tmp_path / "logs").iterdir()}
    assert logs == {"rank-0.log", "rank-1.log", "my training.log"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("python", "x.py"), "--on names nothing; legal: one platform"),
        (WORLD, "no program to launch"),
        ((*WORLD, "--fault", "rank=9,step=1", "python"), "a fault of rank 9"),
        ((*WORLD, "--report", "file/below", "python"), "cannot write to the folder file/below"),
    ],
)
def test_what_cannot_be_is_refused_before_a_rank_starts(arguments, reason, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    with pytest.raises(BadInput, match=reason):
        app(args=["launch", *arguments], standalone_mode=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_refused(tmp_path, monkeypatch):
    def full(path, *_):
        raise BadInput(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(command.files, "write", full)
    with pytest.raises(BadInput, match="No space left on device"):
        app(args=["launch", *WORLD, "--report", str(tmp_path), "python"], standalone_mode=False)


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [("--max-restarts", "-1", 0), ("--ranks-per-node", "-1", 0), ("--cores-per-rank", "0", 1)],
)
def test_a_number_out_of_range_names_its_option(option, value, least):
    told = CliRunner().invoke(app, ["launch", *WORLD, option, value, "python"])
    assert f"'{option}': '{value}' is below {least}; legal: whole numbers from" in told.output
