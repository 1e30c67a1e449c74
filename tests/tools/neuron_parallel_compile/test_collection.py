import os
import sys

import pytest

from trnsim.errors import BadInput
from trnsim.tools.neuron_parallel_compile.collection import (
    check_command,
    collect,
    ignores_errors,
)

SHOW = (
    "import os, sys; names = ('NEURON_EXTRACT_GRAPHS_ONLY', 'NEURON_PARALLEL_COMPILE', "
    "'NEURON_COMPILE_CACHE_URL', 'NEURON_CC_FLAGS');"
    "open(sys.argv[1], 'w').write(repr([os.environ.get(name) for name in names]));"
    "sys.exit(int(sys.argv[2]))"
)


def shown(tmp_path, status=0, **variables):
    file = tmp_path / "shown"
    command = [sys.executable, "-c", SHOW, str(file), str(status)]
    environment = {key: value for key, value in os.environ.items() if key != "NEURON_CC_FLAGS"}
    assert collect(command, tmp_path / "cache", environment | variables) == status
    return eval(file.read_text())  # noqa: S307  what SHOW wrote


def test_the_program_runs_with_awss_variables(tmp_path):
    assert shown(tmp_path) == ["1", "1", str(tmp_path / "cache"), None]


def test_a_cache_that_flags_name_gives_way(tmp_path):
    flags = shown(tmp_path, NEURON_CC_FLAGS="-O1 --cache_dir=/elsewhere")[-1]
    assert flags == f"-O1 --cache_dir=/elsewhere --cache_dir={tmp_path / 'cache'}"
    assert shown(tmp_path, NEURON_CC_FLAGS="-O1")[-1] == "-O1"


def test_the_status_of_the_program_is_told(tmp_path):
    shown(tmp_path, status=3)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "no program is named to run"),
        (["no-such-program"], "no-such-program is no program: none of that name is on PATH"),
        (["XLA_USE_BF16=1", "torchrun", "x"], "XLA_USE_BF16=1 is a variable and no program"),
    ],
)
def test_what_is_no_program_is_named(command, message):
    with pytest.raises(BadInput, match=message) as refused:
        check_command(command)
    assert refused.value.fix


def test_the_place_of_a_variable_is_told():
    with pytest.raises(BadInput) as refused:
        check_command(["XLA_USE_BF16=1", "torchrun", "x"])
    assert refused.value.fix == "put it before: XLA_USE_BF16=1 neuron_parallel_compile torchrun x"


@pytest.mark.parametrize(("value", "expected"), [("", False), ("0", False), ("1", True)])
def test_errors_of_the_program_are_ignored_where_the_variable_says_so(monkeypatch, value, expected):
    monkeypatch.setenv("NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE", value)
    assert ignores_errors() is expected
