"""Errors: one hierarchy, and messages that end with the user's own line."""

import linecache
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from trnsim import errors
from trnsim.errors import (
    EmulatorError,
    IllegalInstruction,
    SourceLine,
    user_line,
    without_user_code,
)

CLASSES = [
    "IllegalInstruction",
    "OutOfMemory",
    "UndefinedBehavior",
    "UninitializedRead",
    "DataRace",
    "Deadlock",
    "BadInput",
    "NotModelled",
    "Unspecified",
    "InternalError",
]


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_is_an_emulator_error_that_the_hierarchy_draws(name):
    assert getattr(errors, name).__bases__ == (EmulatorError,)
    assert f" {name} " in errors.__doc__


def test_the_hierarchy_has_no_other_class():
    assert sorted(c.__name__ for c in EmulatorError.__subclasses__()) == sorted(CLASSES)


def test_a_message_has_reason_fix_source_and_line_in_this_order():
    error = IllegalInstruction("K is 129", fix="tile it", source="page", line=SourceLine("k.py", 7))
    assert str(error).split("\n  ") == ["K is 129", "fix: tile it", "source: page", "at k.py:7"]


def test_a_message_leaves_out_what_it_does_not_know():
    error = IllegalInstruction("K is 129", line=SourceLine("k.py", 7))
    assert str(error) == "K is 129\n  at k.py:7"
    assert (error.fix, error.source) == ("", "")


def test_an_error_carries_its_parts_as_attributes():
    error = IllegalInstruction("K", fix="F", source="S", line=SourceLine("k.py", 7))
    assert (error.reason, error.fix, error.source, str(error.line)) == ("K", "F", "S", "k.py:7")
    assert error.args == ("K",)


@pytest.mark.parametrize(("folder", "is_user"), [("examples", True), ("isa", False)])
def test_the_examples_of_a_wheel_are_programs_of_the_user(folder, is_user):
    file = str(Path(errors.__file__).parent / folder / "made_up.py")
    namespace = {"user_line": user_line}
    exec(compile("line = user_line()", file, "exec"), namespace)  # noqa: S102
    assert (namespace["line"].file == file) is is_user


def test_the_user_line_is_none_of_the_standard_library():
    found, stack = [], ExitStack()
    stack.callback(lambda: found.append(user_line(2)))  # without the lambda: contextlib calls it
    stack.close()
    assert found[0].file == __file__
    assert "stack.close()" in _source(found[0])


def test_the_user_line_is_the_innermost_line_outside_trnsim():
    line = user_line()
    assert line.file == __file__
    assert "user_line()" in _source(line)


def test_what_called_a_command_is_no_line_of_the_user():
    file = str(Path(errors.__file__).parent / "cli" / "made_up.py")
    namespace = {"user_line": user_line}
    exec(compile("def command(program):\n    return program()", file, "exec"), namespace)  # noqa: S102
    assert namespace["command"](user_line) is None
    assert namespace["command"](_line_here).file == __file__


def test_without_user_code_the_line_is_that_of_its_entry():
    with without_user_code():
        entry = user_line()
        with without_user_code():
            assert _line_here() == entry
        assert _line_here() == entry
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_line_here).result() != entry  # another thread's stack
    assert "with without_user_code()" in _source(entry)
    assert "return user_line()" in _source(_line_here())


def _line_here():
    return user_line()


def test_an_error_raised_without_a_line_finds_the_callers():
    error = EmulatorError("reason")
    assert error.line.file == __file__
    assert 'EmulatorError("reason")' in _source(error.line)


def test_a_package_whose_name_only_starts_like_trnsim_is_the_user(tmp_path, monkeypatch):
    package = tmp_path / "trnsim"
    monkeypatch.setattr(errors, "_PACKAGE", f"{package}{os.sep}")
    namespace = {"user_line": user_line}
    for folder, expected in (("trnsim_kernels", True), ("trnsim", False)):
        file = str(tmp_path / folder / "kernel.py")
        exec(compile("found = user_line()", file, "exec"), namespace)  # noqa: S102
        assert (namespace["found"].file == file) is expected


def test_the_package_that_is_skipped_ends_where_its_folder_does():
    assert errors._PACKAGE.endswith(("trnsim/", "trnsim\\"))


def test_code_without_a_file_has_no_line():
    program = "from trnsim.errors import user_line; print(user_line())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"None"


def _source(line):
    return linecache.getline(line.file, line.line)


@pytest.mark.parametrize("file", ["typing_extensions.py", "_trnsim_finder.py"])
def test_the_line_of_a_call_through_another_file_is_the_users(file):
    names = {"user_line": user_line}
    backport = os.path.join(os.sep, "site-packages", file)  # noqa: PTH118
    exec(compile("def wrapper():\n    return user_line()", backport, "exec"), names)  # noqa: S102
    assert names["wrapper"]().file == __file__
