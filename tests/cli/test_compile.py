import json
import re
import sys

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli import compile as command
from trnsim.device import device_core
from trnsim.errors import BadInput
from trnsim.profile import load

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec")

DECODER = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 500,
    "max_position_embeddings": 128,
}  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(app, ["compile", *map(str, arguments)])


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "model.pt2"
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU())
    torch.export.save(torch.export.export(model, (torch.randn(4, 8),)), path)
    return path


@pytest.mark.slow
def test_a_program_is_compiled_for_every_chip_that_is_named(program, tmp_path):
    done = run(program, "--on", "trn1,trn2", "--report", tmp_path / "out")
    assert done.exit_code == 0, done.output
    for chip, device in (("trn1", "trn1"), ("trn2", "trn2 (LNC=2)")):
        assert f"model.pt2 on {device}\n" in done.output
        assert (tmp_path / "out" / f"model-{chip}.txt").is_file()
        assert (tmp_path / "out" / f"model-{chip}.perfetto-trace").is_file()
    stored = load(tmp_path / "out" / "model.json")
    assert [profile["target"] for profile in stored["profiles"]] == ["trn1", "trn2"]
    assert all(profile["model"]["modules"] for profile in stored["profiles"])
    assert "Time by module" in (tmp_path / "out" / "model.html").read_text()


@pytest.mark.slow
def test_flags_reach_the_compiler_after_those_of_the_environment(program, monkeypatch):
    monkeypatch.setenv("NEURON_CC_FLAGS", "--auto-cast=all --no_cache")
    monkeypatch.setenv("COLUMNS", "200")
    plain = run(program, "--flags", "--auto-cast=none").output
    cast = run(program).output
    assert "convert" not in plain
    assert "convert" in cast
    for output in (plain, cast):
        assert (
            "neuronx-cc\n  --no-cache has no effect on a program: it is of the persistent cache"
            in output
        )


def test_a_flag_that_does_not_exist_is_refused_by_name(program, monkeypatch):
    caught = run(program, "--flags", "--autocast all").exception
    assert isinstance(caught, BadInput)
    assert "--flags: --autocast is no flag of neuronx-cc" in str(caught)
    monkeypatch.setenv("NEURON_CC_FLAGS", "--fast-math none")
    caught = run(program).exception
    assert "NEURON_CC_FLAGS: --fast-math is a flag of neuron-cc, the compiler for Inf1" in str(
        caught
    )


def test_without_a_report_nothing_is_written(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(program).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_help_says_how_to_export():
    assert "torch.export.save" in run("--help").output


def test_a_missing_file_is_named(tmp_path):
    assert isinstance(run(tmp_path / "none.pt2").exception, BadInput)


@pytest.mark.parametrize("ending", [".pt2", ".py"])
def test_without_pytorch_the_command_says_what_to_install(monkeypatch, tmp_path, ending):
    monkeypatch.setitem(sys.modules, "torch", None)
    model = tmp_path / f"net{ending}"
    with pytest.raises(BadInput, match=rf"cannot read .*{ending}: No such file"):
        command._torch_subjects(model)
    model.touch()
    with pytest.raises(BadInput, match="needs PyTorch"):
        command._torch_subjects(model)


def test_a_python_file_is_answered_in_a_dozen_items(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("import torch\nmodel = torch.nn.Linear(3, 2)\nargs = (torch.zeros(4, 3),)\n")
    done = run(path, "--on", "trn1,trn2", "--report", tmp_path / "out")
    assert done.exit_code == 0, done.output
    first, second, _ = done.output.strip().split("\n\n")
    items = [line for line in first.splitlines() if not line.startswith(" " * 14)]
    assert (len(items), second.splitlines()[0]) == (12, "net.py on trn2 (LNC=2)")
    assert (tmp_path / "out" / "net-trn1.txt").read_text().startswith(first)


SPELLED = """
import torch
class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return torch.softmax(q @ k.transpose(1, 2) / 4, -1) @ v
model, args = Attention(), tuple(torch.zeros(2, 200, 16) for _ in "qkv")
"""


@pytest.mark.slow
def test_patterns_are_explained_beside_the_program_without_each(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "net.py"
    path.write_text(SPELLED)
    told = run(path, "--lnc", "1", "--explain").output
    answer, patterns = told.strip().split("\n\n")
    assert answer == run(path, "--lnc", "1").output.strip()
    header, attention, last = patterns.splitlines()
    assert header.split() == ["pattern", "times", "without", "with", "what", "it", "does"]
    assert attention.startswith("attention  1 ")
    assert attention.endswith("products, a softmax and products are one operation")
    assert last.startswith("without, with: ")
    found = json.loads(run(path, "--lnc", "1", "--explain", "--json").output)
    (row,) = found["patterns"]
    assert (row["name"], row["times"], row["is_needed"]) == ("attention", 1, False)
    assert f"{row['instructions_without']:,}, " in attention
    without_us, with_us = map(float, re.findall(r"([\d.]+) us", attention))
    assert without_us == pytest.approx(row["device_time_without_s"] * 1e6, abs=0.05)
    assert with_us < without_us
    assert "patterns" not in json.loads(run(path, "--lnc", "1", "--json").output)


def test_a_configuration_without_transformers_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama"}')
    error = run(path).exception
    assert isinstance(error, BadInput)
    assert error.fix == "pip install 'trnsim[models]'"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pt2", "py"])
def test_a_graph_is_split_over_as_many_cores_as_asked(program, tmp_path, monkeypatch, kind):
    path = tmp_path / "net.py"
    path.write_text("import torch\nmodel = torch.nn.Linear(64, 64)\nargs = (torch.zeros(4, 64),)\n")
    given = program if kind == "pt2" else path
    assert "on trn2 (LNC=2)" in run(given, "--lnc", "2").output
    assert "on trn2 (LNC=2)" in run(given, "--flags", "--logical-nc-config=2").output
    assert "on trn2 (LNC=2)" not in run(given, "--lnc", "1").output
    assert "on trn2 (LNC=2)" in run(given).output
    caught = run(given, "--on", "trn1", "--lnc", "2").exception
    assert "lnc=2 on trn1; legal: 1, as only trn2 and trn3 join two" in str(caught)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    device_core.logical_config.cache_clear()
    try:
        assert "LNC" not in run(given).output
        caught = run(given, "--flags", "--lnc=2").exception
    finally:
        device_core.logical_config.cache_clear()
    assert "--logical-nc-config=2 and NEURON_LOGICAL_NC_CONFIG=1 on trn2" in str(caught)


def test_a_report_may_be_named_by_its_page(program, tmp_path):
    done = run(program, "--report", tmp_path / "new" / "large.html")
    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert {"large.html", "large.json", "large-trn2.txt", "large-trn2.trace.json"} <= names
    assert f"report  {tmp_path / 'new' / 'large.html'}" in done.output


def test_a_report_that_cannot_be_written_is_refused_before_the_work(program, tmp_path):
    (tmp_path / "file").write_text("")
    error = run(program, "--report", tmp_path / "file" / "large.html").exception
    assert isinstance(error, BadInput)


def test_flags_reach_a_python_file(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("import torch\nmodel = torch.nn.Linear(64, 64)\nargs = (torch.zeros(4, 64),)\n")
    plain, cast = (run(path, "--flags", f"--auto-cast={one}").output for one in ("none", "all"))
    assert "convert" not in plain
    assert "convert" in cast


@pytest.mark.slow
def test_json_is_an_object_for_each_chip_and_nothing_else(program, tmp_path):
    one = json.loads(run(program, "--on", "trn1", "--json", "--report", tmp_path / "out").stdout)
    assert (one["target"], one["subject"], "batch" in one) == ("trn1", "model.pt2", False)
    assert (tmp_path / "out" / "model.html").is_file()
    both = json.loads(run(program, "--on", "trn1,trn2", "--json").stdout)
    assert [each["target"] for each in both] == ["trn1", "trn2"]
    assert both[0] == one


def test_a_chip_that_cannot_is_named_beside_the_answers_of_the_others(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(DECODER))
    done = run(path, "--on", "trn1,trn2", "--lnc", "2", "--sequence", "8")
    assert done.output.startswith("trn1: no answer: lnc=2 on trn1; legal: 1, as only trn2 and trn3")
    assert "llama (net.json), prefill, batch 1, 8 tokens on trn2 (LNC=2)" in done.output
    (one,) = json.loads(
        run(path, "--on", "trn1,trn2", "--lnc", "2", "--sequence", "8", "--json").stdout
    )
    assert one["target"] == "trn2"
    assert [refused["platform"] for refused in one["refused"]] == ["trn1"]
    assert "lnc=2 on trn1" in str(run(path, "--on", "trn1", "--lnc", "2").exception)


def test_types_have_the_names_of_plans_too(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(DECODER))
    asked = ("--on", "trn1", "--sequence", "8", "--json", "--dtype")
    short, long = (run(path, *asked, name).stdout for name in ("fp32", "float32"))
    assert json.loads(short)["dtype"] == "float32"
    assert short == long


def test_json_has_the_sizes_of_a_configurations_model(tmp_path):
    path = tmp_path / "config.json"
    asked = command._pass_values(path, (8, 128, 0, 4), "prefill", "bfloat16")
    assert asked["phase"] == "prefill"
    assert (asked["batch"], asked["tokens"], asked["tensor_parallel_size"]) == (8, 128, 4)
    asked = command._pass_values(path, (8, 128, 2047, 4), "decode", "bfloat16")
    assert (asked["phase"], asked["tokens"], asked["past"]) == ("decode", 1, 2047)


@pytest.mark.parametrize(
    ("name", "option", "reason"),
    [
        ("program.mlir", ("--batch", "8"), "--batch has no effect on program.mlir: its graph has"),
        ("model.pt2", ("--past", "7", "--tp", "2"), "--past has no effect on model.pt2: its graph"),
        ("net.py", ("--phase", "train"), "--phase has no effect on net.py: its graph has"),
        ("net.py", ("--dtype", "fp32"), "--dtype has no effect on net.py: its graph has"),
        ("model.pt2", ("--weights", "w"), "--weights has no effect on model.pt2; legal: for a pro"),
        ("config.json", ("--weights", "w"), "--weights has no effect on config.json; legal: for a"),
    ],
)
def test_an_option_without_effect_on_a_model_is_refused(tmp_path, name, option, reason):
    (tmp_path / name).write_text("{}")
    assert reason in str(run(tmp_path / name, *option).exception)


@pytest.mark.parametrize("name", ["", ".relative", "no such module"])
def test_a_module_that_cannot_be_imported_is_refused(name):
    with pytest.raises(BadInput, match=f"--import {name}: "):
        command._import_all([name])
