"""Functions of commands: their words, and that their answers are those of the commands."""

import inspect
import json
from unittest import mock

import pytest
from typer.testing import CliRunner

from trnsim import api
from trnsim.api import answers
from trnsim.api.bounds import Answer, Bounds
from trnsim.cli import app
from trnsim.errors import BadInput

KERNEL = """\
import numpy as np
from nki import isa as nisa, jit, language as nl

@jit
def scaled(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out

def scaled_inputs():
    return (np.ones((128, 64), np.float32),)

def scaled_reference(x):
    return 2 * x
"""


@pytest.fixture
def bounds(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "x.npy").touch()
    return Bounds(folder=tmp_path)


@pytest.fixture
def words(monkeypatch):
    """The words of commands that functions ask."""
    asked = mock.Mock(return_value=Answer({}, 0, ""))
    monkeypatch.setattr(answers, "answer", asked)
    return lambda: asked.call_args[0][0]


@pytest.mark.parametrize(
    ("name", "args", "options", "expected"),
    [
        ("run", ("k.py",), {}, "run --json k.py --"),
        (
            *("run", ("k.py",)),
            {"on": ["trn1", "trn2"], "nki": "0.4", "arguments": ["--x", "1"]},
            "run --json --on=trn1,trn2 --nki=0.4 k.py -- --x 1",
        ),
        (
            *("run", ("k.py",)),
            {"inputs": ["x.npy", "x.npy"], "kernel": "a"},
            "run --json --kernel=a --input x.npy --input x.npy k.py --",
        ),
        ("check", ("k.py",), {}, "check k.py --json"),
        (
            *("check", ("k.py",)),
            {"max_us": 6.5, "baseline": "b.toml"},
            "check k.py --json --max-us=6.5 --baseline=b.toml",
        ),
        ("tune", ("k.py",), {"on": ["trn1"], "runs": 8}, "tune k.py --json --on=trn1 --runs=8"),
        ("explain", (), {}, "explain --json"),
        ("explain", ("trn2",), {}, "explain --json trn2"),
        ("profile", ("r.json",), {}, "profile summary r.json --json"),
        ("profile_diff", ("a.json", "b.json"), {}, "profile diff a.json b.json --json"),
        (
            *("plan_train", ("llama-3.1-8b",)),
            {"on": ["trn2"], "instances": 4, "tokens": 1e9, "tp": 8},
            "plan train --json --on=trn2 --instances=4 --tokens=1000000000.0 --tp=8 llama-3.1-8b",
        ),
        ("plan_infer", ("a/b.json",), {"batch": 8}, "plan infer --json --batch=8 a/b.json"),
        (
            *("plan_serve", ("meta/llama",)),
            {"request_rate": 4, "slo_tpot": 0.03},
            "plan serve --json --request-rate=4 --slo-tpot=0.03 meta/llama",
        ),
        (
            *("plan_collective", ("all_reduce", 1024)),
            {"ranks": 64},
            "plan collective --json --bytes=1024 --ranks=64 all_reduce",
        ),
    ],
)  # fmt: skip
def test_a_function_asks_the_command_of_its_name(bounds, words, name, args, options, expected):
    getattr(api, name)(*args, **options, bounds=bounds)
    assert " ".join(words()) == expected


@pytest.mark.parametrize(
    ("name", "args", "options"),
    [
        ("run", ("../a.py",), {}),
        ("run", ("k.py",), {"inputs": ["/etc/x.npy"]}),
        ("check", ("/a.py",), {}),
        ("check", ("k.py",), {"baseline": "../b.toml"}),
        ("tune", ("../a.py",), {}),
        ("profile", ("../r.json",), {}),
        ("profile_diff", ("a.json", "../b.json"), {}),
        *[(f"plan_{kind}", ("../config.json",), {}) for kind in ("train", "infer", "serve")],
        *[(f"plan_{kind}", ("../model",), {}) for kind in ("train", "infer", "serve")],
    ],
)
@pytest.mark.usefixtures("words")
def test_no_file_lies_outside_of_the_folder(bounds, name, args, options):
    with pytest.raises(BadInput, match="outside of"):
        getattr(api, name)(*args, **options, bounds=bounds)


def test_a_model_that_is_a_link_out_of_the_folder_is_no_name(bounds, words, tmp_path_factory):
    (bounds.folder / "outer").symlink_to(tmp_path_factory.mktemp("outer"))
    (bounds.folder / "own").mkdir()
    for plan in (api.plan_train, api.plan_infer, api.plan_serve):
        with pytest.raises(BadInput, match="outside of"):
            plan("outer", bounds=bounds)
        plan("own", bounds=bounds)
        assert words()[-1] == "own"
        plan("", bounds=bounds)
        assert words()[-1] == "--json"


@pytest.mark.usefixtures("words")
@pytest.mark.parametrize("given", [True, None, 3])
def test_what_is_no_text_is_no_name_and_no_path(bounds, given):
    for call in (api.explain, api.plan_train, api.plan_infer, api.plan_serve):
        with pytest.raises(BadInput, match=f"{given}; legal: text\n  fix: "):
            call(given, bounds=bounds)
    for call in (api.run, api.check, api.tune, api.profile):
        with pytest.raises(BadInput, match=f"{given}; legal: a path of a file\n  fix: "):
            call(given, bounds=bounds)


def test_arguments_of_a_program_are_a_list_of_texts_or_numbers(bounds, words):
    api.run("a.py", arguments=["--steps", 3], bounds=bounds)
    assert words()[-2:] == ["--steps", "3"]
    for option in ({"arguments": "--steps 3"}, {"inputs": "x.npy"}, {"inputs": None}):
        with pytest.raises(BadInput, match=r"(arguments|inputs)=.*; legal: a list"):
            api.run("a.py", **option, bounds=bounds)


@pytest.mark.usefixtures("words")
def test_a_name_is_no_option(bounds):
    for call in (api.explain, api.plan_train):
        with pytest.raises(BadInput, match="begins with a dash"):
            call("--output=/x", bounds=bounds)


def test_every_parameter_is_told():
    for name in api.__all__:
        if name[0].islower():
            function = getattr(api, name)
            for parameter in inspect.signature(function).parameters:
                assert f"\n        {parameter}: " in function.__doc__, (name, parameter)


def test_every_option_is_one_of_the_command():
    options = {"plan_train": "plan train", "plan_infer": "plan infer", "plan_serve": "plan serve"}
    options |= {
        "plan_collective": "plan collective",
        "check": "check",
        "run": "run",
        "tune": "tune",
    }
    for name, command in options.items():
        shown = CliRunner().invoke(app, [*command.split(), "--help"]).output
        for parameter in inspect.signature(getattr(api, name)).parameters:
            if parameter not in ("bounds", "file", "model", "kind", "arguments"):
                option = {"size_bytes": "bytes", "inputs": "input"}.get(parameter, parameter)
                assert f"--{option.replace('_', '-')} " in shown, (name, parameter)


@pytest.mark.slow
def test_answers_are_those_of_the_command(bounds, monkeypatch):
    found = api.check("k.py", on=["trn2"], max_us=60, bounds=bounds)
    monkeypatch.chdir(bounds.folder)
    command = ["check", "k.py", "--on", "trn2", "--max-us", "60", "--json"]
    printed = CliRunner().invoke(app, command)
    assert (found.values, found.status) == (json.loads(printed.stdout), 0)


@pytest.mark.slow
def test_a_kernel_is_checked_run_and_profiled(bounds):
    failed = api.check("k.py", max_us=1, bounds=bounds)
    assert failed.status == 1
    (bounds.folder / "k.py").write_text(KERNEL + "import trnsim\nscaled(*scaled_inputs())\n")
    found = api.run("k.py", bounds=bounds)
    (stored,) = [file for file in found.values["files"] if file.endswith("scaled.json")]
    summary = api.profile(stored, bounds=bounds)
    (profile,) = found.values["kernels"][0]["profiles"]
    assert summary.values[0]["summary"] == profile["summary"]
    assert api.profile_diff(stored, stored, bounds=bounds).status == 0


@pytest.mark.slow
def test_a_kernel_is_tuned(bounds):
    text = KERNEL.replace("2.0)", "factor)").replace("scaled(x):", "scaled(x, factor=2.0):")
    (bounds.folder / "k.py").write_text(f'{text}\nscaled_parameters = {{"factor": [2.0, 3.0]}}\n')
    assert api.tune("k.py", bounds=bounds).status == 0
