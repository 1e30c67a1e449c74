import sys
import traceback
from pathlib import Path

import pytest

from trnsim.cli import error_text
from trnsim.errors import BadInput, SourceLine
from trnsim.quantities import number


def raised(source, name="user.py", **given):
    """What a program of the user's raises, called through frames of ours."""
    try:
        exec(compile(source, name, "exec"), given)  # noqa: S102  that is the test
    except Exception as error:  # noqa: BLE001  whichever it is
        return error


def test_the_line_of_a_kernel_is_shown_and_the_launchers_is_not():
    user = BadInput("what", source="a page", line=SourceLine("kernel.py", 3))
    assert error_text.message(user) == "what\n  source: a page\n  at kernel.py:3"
    launcher = BadInput("what", line=SourceLine(sys.argv[0], 8))
    assert error_text.message(launcher) == "what"


@pytest.mark.parametrize(
    "file", ["/x/typer/main.py", "/x/click/core.py", error_text.__file__, "<x>"]
)
def test_machinery_is_no_line_of_the_users(file):
    assert error_text.message(BadInput("what", line=SourceLine(file, 8))) == "what"


@pytest.mark.parametrize("is_named", [False, True])
def test_a_line_of_a_file_of_any_name_is_shown_where_the_command_names_it(is_named, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["trnsim", "migrate", "kernels.txt"][: 2 + is_named])
    error = BadInput("no Python", fix="f", line=SourceLine("kernels.txt", 3))
    assert error_text.message(error) == "no Python\n  fix: f" + "\n  at kernels.txt:3" * is_named


def test_a_traceback_begins_at_the_script():
    error = raised("def f():\n    1/0\nf()")
    assert traceback.extract_tb(error.__traceback__)[0].filename == __file__
    text = error_text.users_traceback(error, Path("user.py"))
    assert text.splitlines()[0] == "Traceback (most recent call last):"
    assert [line for line in text.splitlines() if line.startswith("  File")] == [
        '  File "user.py", line 3, in <module>',
        '  File "user.py", line 2, in f',
    ]
    assert text.endswith("ZeroDivisionError: division by zero\n")


def test_our_frames_stay_where_they_raised():
    error = raised("number('many')", number=number)
    text = error_text.users_traceback(error, Path("user.py"))
    assert "user.py" in text
    assert "quantities.py" in text


def test_our_frames_between_the_users_go():
    ours = compile("def through(f): f()", number.__code__.co_filename, "exec")
    space = {}
    exec(ours, space)  # noqa: S102  a frame that lies in the package
    error = raised("def f():\n    1/0\nthrough(f)", through=space["through"])
    text = error_text.users_traceback(error, Path("user.py"))
    assert text.count("  File") == 2
    assert "formatting.py" not in text


def test_causes_are_cut_as_well():
    source = "try:\n    1/0\nexcept ArithmeticError as e:\n    raise KeyError('x') from e"
    text = error_text.users_traceback(raised(source), Path("user.py"))
    assert __file__ not in text
    assert text.count('File "user.py"') == 2
    assert "direct cause" in text


@pytest.mark.parametrize(
    ("error", "status", "start"),
    [
        (BadInput("what", line=SourceLine("<x>", 1)), 2, "trnsim: error: trn2: what\n"),
        (ValueError("mine"), 1, "ValueError: mine\n"),
        (KeyboardInterrupt(), 130, "KeyboardInterrupt\n"),
    ],
)
def test_each_error_has_its_status(error, status, start, capsys):
    assert error_text.show(error, Path("user.py"), "trn2: ") == status
    assert capsys.readouterr().err == start


def test_all_frames_of_an_error_are_shown_where_the_variable_says_so(monkeypatch, capsys):
    monkeypatch.setenv("TRNSIM_FULL_TRACEBACK", "1")
    error = raised("raise BadInput('what')", BadInput=BadInput)
    assert error_text.show(error, Path("user.py")) == 2
    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last):\n")
    assert told.splitlines()[-1].startswith(("trnsim: error: what", "  at user.py:1"))
