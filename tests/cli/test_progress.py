import io
import sys

from trnsim.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_on_a_terminal_and_clears_it(monkeypatch):
    terminal = Terminal()
    times = iter([0.0, 1.0, 1.1, 2.0])
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("trnsim.cli.progress.time.monotonic", lambda: next(times))
    with progress() as tell:
        for message in ("one", "too soon", "two"):
            tell(message)
    assert terminal.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K"


def test_a_file_or_a_pipe_gets_nothing(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress() as tell:
        tell("one")
    assert pipe.getvalue() == ""


def test_a_message_fits_a_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "12")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("trnsim.cli.progress.time.monotonic", iter([0.0, 1.0]).__next__)
    with progress() as tell:
        tell("a message of more columns")
    assert terminal.getvalue() == "\r\x1b[Ka message o\r\x1b[K"
