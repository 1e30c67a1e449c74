"""neuron-top at a terminal of its own: how it ends, and what it leaves behind."""

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from trnsim.cli import app, neuron_top
from trnsim.errors import BadInput


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
@pytest.mark.parametrize("ending", ["q", "SIGTERM"])
def test_it_ends_cleanly_and_leaves_the_terminal_as_it_was(ending, tmp_path):
    import pty  # noqa: PLC0415
    import termios  # noqa: PLC0415

    pytest.importorskip("textual", reason="extra platform not installed")
    keyboard, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    before = termios.tcgetattr(terminal)
    environment = os.environ | {
        "TRNSIM_STATE": str(tmp_path / "state"),
        "TRNSIM_INSTANCE": "trn2.48xlarge",
        "TERM": "xterm-256color",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "trnsim", "neuron-top"],
        stdin=terminal, stdout=terminal, stderr=terminal, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        drawn = _read_until(keyboard, b"ND15")
        assert b"\x1b[?1049h" in drawn  # the other screen, on which it draws
        assert termios.tcgetattr(terminal) != before
        if ending == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            os.write(keyboard, b"q")
        drawn += _read_until(keyboard, b"\x1b[?1049l")
        assert process.wait(timeout=30) == 0
        assert termios.tcgetattr(terminal) == before
        drawn += _read_until(keyboard, b"\x1b[?25h", is_needed=b"\x1b[?25h" not in drawn)
        assert b"Traceback" not in drawn
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)
        os.close(terminal)


def _read_until(keyboard, text, *, is_needed=True):
    """What is drawn until `text`; keeping the terminal empty lets the program go on."""
    os.set_blocking(keyboard, False)
    found, deadline = b"", time.monotonic() + 30
    while is_needed and text not in found:
        assert time.monotonic() < deadline, found[-500:]
        with suppress(BlockingIOError):
            found += os.read(keyboard, 1 << 16)
            continue
        time.sleep(0.01)
    return found


def test_without_a_terminal_it_says_what_prints_the_same():
    with pytest.raises(BadInput, match=r"(?s)neuron-top needs a terminal.*neuron-monitor prints"):
        CliRunner().invoke(app, ["neuron-top"], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell closes it")
@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
def test_without_an_open_stream_it_is_the_same_error(closed, tmp_path):
    command = f"{shlex.join([sys.executable, '-m', 'trnsim', 'neuron-top'])} {closed}"
    environment = os.environ | {"TRNSIM_STATE": str(tmp_path)}
    ran = subprocess.run(
        ["/bin/sh", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr == "" or ran.stderr.startswith("trnsim: error: neuron-top needs a terminal")


def test_without_textual_its_extra_is_named(monkeypatch):
    for name in [one for one in sys.modules if one.partition(".")[0] == "textual"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "trnsim.tools.top.screen", raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    with pytest.raises(BadInput, match=r"(?s)textual.* is not installed.*trnsim\[platform\]"):
        neuron_top._screen()
