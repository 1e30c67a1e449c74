"""Whose an argument is, and what a script leaves however it ends."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import forked
import numpy as np
import pytest
from typer.testing import CliRunner

from trnsim.arch import TARGETS
from trnsim.cli import app, script
from trnsim.errors import BadInput
from trnsim.nki.kernel import TARGET_VARIABLE

KERNELS = """\
import sys
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
@nki.jit
def same(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
PROGRAM = KERNELS + "same(np.ones((8, 4), np.float32))\n"
FIRST = "same on trn2 (the default): 2 instructions\n"
"""The first line of the kernel's report."""


def trnsim(*arguments, cwd):
    return forked.trnsim("run", *arguments, cwd=cwd)


def reports(folder):
    return {path.name for path in (folder / "trnsim-report").iterdir()}


# Whose arguments


@pytest.mark.parametrize(
    ("source", "given", "ours", "theirs"),
    [
        ("", "p.py", "p.py", ""),
        ("", "p.py 4 x", "p.py", "4 x"),
        ("", "--on trn1 p.py 4", "--on trn1 p.py", "4"),
        ("", "p.py --on trn1 4", "--on trn1 p.py", "4"),
        ("", "p.py 4 --report=d", "--report=d p.py", "4"),
        ("", "p.py --epochs 3 -v", "p.py", "--epochs 3 -v"),
        # a kernel is called
        ("", "p.py --input a b --output o", "--input a --input b --output o p.py", ""),
        ("", "--input a --kernel k p.py", "--input a --kernel k p.py", ""),
        ("", "p.py --output o --input=a", "--output o --input=a p.py", ""),
        ("", "p.py --input a -v --json", "--input a -v --json p.py", ""),
        ("'-v'", "p.py --input a -v", "--input a p.py", "-v"),
        ("", "p.py --input a --kernel k", "--input a --kernel k p.py", ""),
        # a program has options of its own
        ("", "p.py --output d", "p.py", "--output d"),
        ("", "p.py --kernel k", "p.py", "--kernel k"),
        ("", "--output o p.py --output d", "--output o p.py", "--output d"),
        ("add_argument('--report')", "p.py --report d", "p.py", "--report d"),
        ('("-o", "--on/--off")', "p.py --on", "p.py", "--on"),
        ("'--input'", "p.py --input a --output b", "p.py", "--input a --output b"),
        ("'--only'", "p.py --on trn1", "--on trn1 p.py", ""),
        ("'--on-disk'", "p.py --on trn1", "--on trn1 p.py", ""),
        ("'--input'", "--input a p.py", "--input a p.py", ""),
        # what follows -- is the program's
        ("", "p.py -- --on trn1 --", "p.py", "--on trn1 --"),
        ("", "p.py --on trn1 -- --report d", "--on trn1 p.py", "--report d"),
        ("", "--on trn1 -- p.py --report d --", "--on trn1 p.py", "--report d --"),
        # help
        ("", "p.py --help", "--help p.py", ""),
        ('if __name__ == "__main__":', "p.py -h", "p.py", "-h"),
        ('if __name__ == "__main__":', "-h p.py", "-h p.py", ""),
    ],
)
def test_each_argument_has_its_owner(source, given, ours, theirs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("p.py").write_text(source)
    assert script.parser_arguments(given.split()) == [*ours.split(), "--", *theirs.split()]


@pytest.mark.parametrize("given", [["-h"], ["--on", "trn1"], []])
def test_without_a_script_everything_is_the_commands(given):
    assert script.parser_arguments(given) == given


def test_a_script_that_cannot_be_read_names_no_options():
    assert script.parser_arguments(["none.py", "--on", "trn1"]) == [
        "--on",
        "trn1",
        "none.py",
        "--",
    ]


def test_nothing_keeps_the_modules_of_a_script(tmp_path):
    """`multiprocessing` names what is `__main__` when it is imported: here, the script."""
    path = tmp_path / "s.py"
    path.write_text("import sys\nsys.modules['__mp_main__'] = sys.modules['__main__']\n")
    script.execute(path, [], TARGETS["trn2"])
    assert sys.modules["__mp_main__"] is sys.modules["__main__"]


@pytest.mark.slow_but("import options")
@pytest.mark.parametrize("library", ["import argparse", "import options"])
def test_a_programs_own_output_is_the_programs(library, tmp_path):
    parse = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--output')\n"
        "print('given', parser.parse_args().output)\n"
    )
    (tmp_path / "options.py").write_text(parse)
    body = parse if library == "import argparse" else library
    (tmp_path / "prog.py").write_text(PROGRAM + body)
    done = trnsim("prog.py", "--output", "d", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "given d"
    assert not (tmp_path / "d").exists()


def test_arguments_beside_an_input_are_refused(tmp_path):
    (tmp_path / "k.py").write_text(KERNELS)
    np.save(tmp_path / "a.npy", np.ones((8, 4), np.float32))
    done = trnsim("k.py", "--outptu", "--input", "a.npy", cwd=tmp_path)
    assert done.returncode == 2
    assert "a kernel is called, which takes no other arguments: ['--outptu']" in done.stderr


# What ran is reported


@pytest.mark.slow_but("sys.exit(3)-3-")
@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("sys.exit(0)", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no luck')", 1, "no luck\n"),
        ("raise ValueError('mine')", 1, "ValueError: mine\n"),
        ("assert 1 > 2, 'mine'", 1, "AssertionError: mine\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("same(np.ones((8, 4)))", 2, "trnsim: error: argument `a` is float64"),
    ],
)
def test_however_a_program_ends_its_kernels_are_reported(ending, status, said, tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM + ending + "\n")
    done = trnsim("prog.py", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert done.stdout.startswith(FIRST)
    assert reports(tmp_path) == {"same.html", "same.json"}
    assert (said in done.stderr) if said else (done.stderr == "")
    is_users = said.startswith(("Val", "Ass", "Key"))
    frames = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert frames == (['  File "prog.py", line 14, in <module>'] if is_users else [])


@pytest.mark.slow
def test_ctrl_c_ends_the_program_and_keeps_its_reports(tmp_path):
    sleep = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
    (tmp_path / "prog.py").write_text(PROGRAM + sleep)
    command = [sys.executable, "-m", "trnsim", "run", "prog.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        printed, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert printed.startswith("same on trn2")
    assert said.endswith("KeyboardInterrupt\n")
    assert reports(tmp_path) == {"same.html", "same.json"}


@pytest.mark.slow
def test_what_one_chip_refuses_another_reports(tmp_path):
    wide = f"np.float64 if os.environ[{TARGET_VARIABLE!r}] == 'trn1' else np.float32"
    call = f"import os\nsame(np.ones((8, 4), {wide}))\n"
    (tmp_path / "prog.py").write_text(KERNELS + call)
    done = trnsim("--output", "o.npy", "prog.py", "--on", "trn1,trn3", cwd=tmp_path)
    assert done.returncode == 2
    assert "same on trn3" in done.stdout
    assert np.load(tmp_path / "o.npy").shape == (8, 4)
    assert "trnsim: error: trn1: argument `a` is float64" in done.stderr


def test_a_program_that_launches_nothing_and_exits_keeps_its_status(tmp_path):
    (tmp_path / "prog.py").write_text("import sys\nsys.exit(0)\n")
    done = trnsim("prog.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "trnsim: prog.py launched no kernel\n")


@pytest.mark.slow
def test_a_file_that_exits_before_its_kernel_is_called_says_so(tmp_path):
    (tmp_path / "k.py").write_text(KERNELS + "sys.exit(0)\n")
    np.save(tmp_path / "a.npy", np.ones((8, 4), np.float32))
    done = trnsim("k.py", "--input", "a.npy", cwd=tmp_path)
    assert done.returncode == 2
    assert "k.py ended itself with sys.exit(0) before its kernel was called" in done.stderr


def test_a_kernels_own_error_has_the_users_frames_alone(tmp_path):
    (tmp_path / "k.py").write_text(KERNELS.replace("    return out", "    return 1 / 0"))
    np.save(tmp_path / "a.npy", np.ones((8, 4), np.float32))
    done = trnsim("k.py", "--input", "a.npy", cwd=tmp_path)
    assert done.returncode == 1
    (frame,) = [line for line in done.stderr.splitlines() if line.startswith("  File")]
    assert frame.endswith('k.py", line 12, in same')


def test_a_full_disk_keeps_what_is_printed_and_leaves_no_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("prog.py").write_text(PROGRAM)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    done = CliRunner().invoke(app, ["run", "--output", "o.npy", "prog.py"])
    assert done.exit_code == 2
    assert done.stdout.startswith(FIRST)
    assert "cannot write trnsim-report/same.json: No space left on device\n" in done.stderr
    assert np.load("o.npy").shape == (8, 4)
    assert list(Path("trnsim-report").iterdir()) == []


def test_an_output_is_refused_before_the_program_runs(tmp_path):
    (tmp_path / "prog.py").write_text("open('ran', 'w')\n")
    for given in (("--output", "."), ("--output", "none/o.npy"), ("--report", "prog.py")):
        done = trnsim(*given, "prog.py", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("trnsim: error: cannot write ")
    assert not (tmp_path / "ran").exists()


def test_an_output_without_a_kernel_is_an_error(tmp_path):
    (tmp_path / "prog.py").write_text("import sys\nsys.exit(0)\n")
    done = trnsim("--output", "o.npy", "prog.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "--output o.npy: no kernel ran" in done.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x7fELF\x02\x01\x01\x00", "is not valid Python: "),
        (b"a = 'caf\xe9'\n", "is not valid Python: "),
        (b"a = 1\nb = = 2\n", "is not valid Python: invalid syntax"),
        (b"(" * 300, "is not valid Python: "),
    ],
)
def test_what_is_no_python_is_refused(content, reason, tmp_path):
    (tmp_path / "p.py").write_bytes(content)
    with pytest.raises(BadInput, match=reason):
        script.checked_script(tmp_path / "p.py")


@pytest.mark.slow
def test_a_training_step_is_shown_though_its_report_cannot_be_written(tmp_path):
    pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    step = "import torch, torch_neuron\ny = torch.ones(3).to('neuron') + 1\n"
    (tmp_path / "prog.py").write_text(step + "raise RuntimeError('late')\n")
    full = (
        "import os, errno, pathlib, sys\n"
        "def full(*_): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "pathlib.Path.write_bytes = full\n"
        "sys.argv = ['trnsim', 'run', 'prog.py']\n"
        "from trnsim.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", full], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "  longest  add.Tensor 100 %" in done.stdout
    assert "RuntimeError: late\n" in done.stderr
    assert "cannot write trnsim-report/step.txt: No space left on device\n" in done.stderr
