import subprocess
import sys
import types

import pytest

from trnsim import errors, user_traceback
from trnsim.errors import BadInput, IllegalInstruction, InternalError, SourceLine
from trnsim.user_traceback import (
    FULL_TRACEBACK,
    explain,
    show_as_own,
    show_text_as_own,
    traceback_lines,
)

PROGRAM = """\
import trnsim
from trnsim.errors import BadInput, InternalError

def inner():
    import trnsim.reader
    trnsim.reader.load("/no/such/file")

def wrong():
    {wrong}

wrong()
"""


def printed(folder, wrong, **variables):
    """Standard error of a program of its own that ends by an error."""
    path = folder / "program.py"
    path.write_text(PROGRAM.replace("{wrong}", wrong))
    command = [sys.executable, str(path)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=variables or None
    )
    assert run.returncode == 1
    return run.stderr.splitlines()


def test_python_prints_the_users_frames(tmp_path):
    lines = printed(tmp_path, "inner()")
    frames = [line.rpartition(", ")[2] for line in lines if line.startswith("  File ")]
    assert frames == ["in <module>", "in wrong", "in inner"]
    assert lines[7].startswith("trnsim.errors.BadInput: ")
    assert lines[-1].endswith(f"left out; {FULL_TRACEBACK}=1 shows all)")


@pytest.mark.parametrize(
    ("wrong", "variables", "last"),
    [
        ("inner()", {FULL_TRACEBACK: "1"}, "at "),
        ("1 / 0", {}, "ZeroDivisionError: division by zero"),
        ("raise InternalError('x')", {}, "at "),
    ],
)
def test_other_errors_and_all_frames_stay_as_python_prints_them(tmp_path, wrong, variables, last):
    lines = printed(tmp_path, wrong, **variables)
    assert not any("left out" in line for line in lines)
    assert lines[-1].strip().startswith(last)


def raised(call):
    with pytest.raises(errors.EmulatorError) as caught:
        call()
    return caught.value


def cell(text, name):
    """A function that runs the code of a cell, whose file IPython calls `name`."""
    return lambda: exec(compile(text, name, "exec"), {"BadInput": BadInput})  # noqa: S102  as IPython does


def test_an_error_without_frames_of_a_user_has_all(monkeypatch):
    monkeypatch.setattr(errors, "is_users_file", lambda _: False)
    monkeypatch.setattr(errors, "_is_user_file", {})  # answers of this test are no other's
    lines = traceback_lines(raised(cell("raise BadInput('a')", "<string>")))
    assert any('"<string>"' in line for line in lines)
    assert "left out" not in lines[-1]


@pytest.fixture
def shell(monkeypatch):
    """IPython's names of cells, which it gives by their files."""
    names = {"/x/ipykernel_9/1.py": ("Cell", "In[3]"), "<ipython-input-4-ab>": ("Cell", "In[4]")}
    compiler = types.SimpleNamespace(format_code_name=names.get)
    module = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(compile=compiler))
    monkeypatch.setitem(sys.modules, "IPython", module)


@pytest.mark.parametrize(
    ("file", "name"), [("/x/ipykernel_9/1.py", "In[3]"), ("<ipython-input-4-ab>", "In[4]")]
)
@pytest.mark.usefixtures("shell")
def test_a_cell_is_named_by_its_number(file, name):
    error = raised(cell("\nraise BadInput('a', fix='b')", file))
    assert error.line == SourceLine(file, 2)
    lines = error._render_traceback_()
    assert f'  File "{name}", line 2, in <module>' in lines
    assert f"  at {name}:2" in lines
    assert file not in "".join(lines)


@pytest.mark.parametrize(
    ("file", "shown"),
    [("<ipython-input-5-x>", "<ipython-input-5-x>"), ("a/b.py", "a/b.py"), ("", "")],
)
@pytest.mark.usefixtures("shell")
def test_other_files_have_their_own_names(file, shown):
    assert errors.shown_file(file) == shown


def test_a_cell_without_ipython_has_the_name_of_its_file():
    assert errors.shown_file("<ipython-input-4-ab>") == "<ipython-input-4-ab>"


@pytest.mark.parametrize("error", [InternalError("a"), ValueError("a")])
def test_ipython_shows_other_errors_by_itself(error):
    assert traceback_lines(error) is None


def test_ipython_is_told_to_show_all_frames_where_the_user_wants_them(monkeypatch):
    monkeypatch.setenv(FULL_TRACEBACK, "1")
    with pytest.raises(LookupError):
        IllegalInstruction("a")._render_traceback_()
    monkeypatch.setenv(FULL_TRACEBACK, "0")
    assert IllegalInstruction("a")._render_traceback_()[0].startswith("trnsim.errors.Illegal")


def test_the_hook_is_installed_once(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    user_traceback.install()
    hook = sys.excepthook
    user_traceback.install()
    assert sys.excepthook is hook


def test_an_error_of_another_package_may_be_shown_as_own(monkeypatch):
    monkeypatch.delenv(FULL_TRACEBACK, raising=False)
    error = KeyError("a")
    assert traceback_lines(error) is None
    show_as_own(error)
    assert traceback_lines(error) == ["KeyError: 'a'"]
    explain(error, "a note")
    assert traceback_lines(error) == ["KeyError: 'a'", "a note"]
    monkeypatch.setenv(FULL_TRACEBACK, "1")
    assert traceback_lines(error) is None


def test_a_framework_that_raises_the_text_of_an_error_shows_nothing_else(monkeypatch):
    monkeypatch.delenv(FULL_TRACEBACK, raising=False)
    error = BadInput("reason", fix="advice")
    raised_again = RuntimeError(f"Traceback of C++\nRuntimeError: BadInput: {error}\n\nAt:\n  a.py")
    assert traceback_lines(raised_again) is None
    show_text_as_own(error)
    lines = traceback_lines(raised_again)
    assert lines[:2] == ["RuntimeError: BadInput: reason", "  fix: advice"]
    assert len(lines) == 3
    assert traceback_lines(RuntimeError("reason")) is None
    assert traceback_lines(ValueError(str(raised_again))) is None


@pytest.mark.parametrize(
    ("kind", "is_shown"), [(RuntimeError, True), (IndexError, True), (KeyError, False)]
)
def test_an_error_of_an_operator_on_the_device_has_the_users_frames(kind, is_shown, monkeypatch):
    monkeypatch.delenv(FULL_TRACEBACK, raising=False)
    kernels = user_traceback._OPERATORS + "kernels.py"
    names = {"error": kind("shapes")}
    exec(compile("def kernel():\n    raise error", kernels, "exec"), names)  # noqa: S102
    with pytest.raises(kind) as caught:
        names["kernel"]()
    lines = traceback_lines(caught.value)
    assert (lines is not None) is is_shown
    if lines is not None:
        assert not any("kernels.py" in line for line in lines)
