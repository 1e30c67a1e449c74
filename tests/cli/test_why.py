import json
import os

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.why import _options
from trnsim.cli.why_document import _percent_text
from trnsim.errors import BadInput, OutOfMemory

CONFIG = {
    "model_type": "bert", "hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 512,
}  # fmt: skip
LLAMA = "examples/llama-3.1-8b.json"
SERVE = f"plan serve {LLAMA} --on trn2 --tensor-parallel-size 8 --max-num-seqs 4 --concurrency 4"


def run(*arguments, stdin=None):
    result = CliRunner().invoke(
        app, ["why", *map(str, arguments)], catch_exceptions=False, input=stdin
    )
    assert result.exit_code == 0
    return result.stdout


def refusal(*arguments, **settings):
    with pytest.raises(BadInput) as caught:
        run(*arguments, **settings)
    return caught.value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One plan at two batches, as a user keeps them."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for batch in (1, 8):
        asked = ["plan", "infer", str(folder / "config.json"), "--on", "inf2.xlarge", "--json"]
        done = CliRunner().invoke(app, [*asked, "--batch", str(batch)], catch_exceptions=False)
        (folder / f"{batch}.json").write_text(done.stdout)
    return folder


def infer(folder, *options):
    return " ".join(["plan infer", str(folder / "config.json"), "--on inf2.xlarge", *options])


def test_two_files_are_explained_term_by_term(folder):
    output = run(folder / "1.json", folder / "8.json")
    assert "\n\ninf2.xlarge: latency\nA " in output
    assert "\nsum " in output
    assert "\ninputs:\n  batch: 1 -> 8\n" in output
    assert "\ncost: price +0.0%, instances +0.0%, time -" in output


def test_a_change_too_small_to_show_has_no_minus():
    assert [_percent_text(ratio) for ratio in (1 - 1e-9, 0.5, None)] == ["+0.0%", "-50.0%", "-"]


def test_a_command_in_quotes_answers_as_its_file_does(folder):
    files = json.loads(run(folder / "1.json", folder / "8.json", "--json"))
    ran = json.loads(run(f"trnsim {infer(folder, '--json')}", infer(folder, "--batch=8"), "--json"))
    assert ran["whys"][0]["times"] == files["whys"][0]["times"]
    assert ran["whys"][0]["inputs"] == files["whys"][0]["inputs"]


def test_the_standard_input_is_an_answer_once(folder):
    given = (folder / "8.json").read_text()
    assert "latency" in run(folder / "1.json", "-", stdin=given)
    error = refusal("-", "-", stdin=given)
    assert error.reason == "A and B are both the standard input; legal: one of them"
    assert refusal("-", folder / "1.json", stdin="{").reason.startswith("A (-):1: not JSON")


def test_two_chips_are_compared_with_each_other(folder):
    output = run(infer(folder), f"plan infer {folder / 'config.json'} --on trn2")
    assert "\n\ninf2.xlarge and trn2: latency\n" in output
    assert "\n  platform: inf2.xlarge -> trn2\n" in output


def test_a_plan_stands_beside_a_measured_log(tmp_path):
    log = {
        "duration": 60.0, "completed": 200, "output_throughput": 700.0, "median_ttft_ms": 61.0,
        "median_tpot_ms": 9.0,
    }  # fmt: skip
    (tmp_path / "bench.json").write_text(json.dumps(log))
    (one,) = json.loads(run(SERVE, tmp_path / "bench.json", "--json"))["whys"]
    ttft, tpot = one["times"]
    assert (ttft["b"]["p50_s"], tpot["b"]["p50_s"]) == pytest.approx((0.061, 0.009))
    for time in one["times"]:
        term = time["terms"][0]
        assert (term["name"], time["b"]["is_measured"]) == ("unexplained", True)
        assert term["change_s"] == time["b"]["p50_s"] - time["a"]["p50_s"]
    assert json.loads(run("-", SERVE, "--json", stdin=json.dumps(log)))["kinds"][0] == "log (vllm)"


def test_a_table_of_steps_stands_beside_a_training_plan(tmp_path):
    rows = "\n".join(f"{number},2.5,60.0" for number in range(20))
    (tmp_path / "steps.csv").write_text(f"step,loss,step_s\n{rows}\n")
    titan = "\n".join(f"step: {n} loss: 2.5 memory: 1GiB tps: 1,000" for n in range(20))
    (tmp_path / "titan.log").write_text(titan)
    asked = f"plan train {LLAMA} --on trn2 --tokens 1e9 --tp 4 --pp 1 --cp 1 --zero 1 --budget 2"
    for log in ("steps.csv", "titan.log"):
        assert "\nunexplained " in run(asked, tmp_path / log)


def test_several_platforms_are_matched_by_name(folder):
    two = infer(folder).replace("inf2.xlarge", "trn2,inf2.xlarge")
    output = run(two, folder / "8.json")
    assert "\n\ninf2.xlarge: latency\n" in output
    assert output.endswith("\n\nonly A answers for: trn2\n")


@pytest.mark.slow
def test_a_compiled_program_stands_beside_itself_on_another_chip(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "net.py"
    path.write_text("import torch\nmodel = torch.nn.Linear(64, 64)\nargs = (torch.zeros(4, 64),)\n")
    output = run(f"compile {path} --on trn1", f"compile {path} --on trn2")
    assert "\n\ntrn1 and trn2: pass\n" in output
    assert "\n  target: trn1 -> trn2\n" in output


def test_a_layer_stands_beside_a_servers_step():
    asked = f"plan layer {LLAMA} --on trn2 --phase prefill"
    assert "layer of A, prefill step of B" in run(asked, SERVE)


@pytest.mark.parametrize(
    "asked", ["guard bill a.csv b.json", "plan fleet a.yaml", "trnsim why a b", "trnsim chips"]
)
def test_a_command_that_answers_with_no_time_is_refused(asked, folder):
    error = refusal(folder / "1.json", asked)
    assert error.reason == (
        f"B ({asked}) is no command that answers with a time; legal: compile, plan infer, plan "
        "serve, plan train, plan collective, plan layer, assess"
    )
    assert "quote a command" in error.fix


def test_a_command_that_fails_shows_its_own_error_and_whose_it_is(folder):
    file = folder / "1.json"
    assert refusal(file, "plan infer none.json").reason == (
        "B (plan infer none.json): cannot read none.json: No such file or directory"
    )
    error = refusal(infer(folder, "--bach 8"), file)
    assert error.reason.startswith("A (plan infer ")
    assert "No such option: --bach" in error.reason
    assert error.fix == "perhaps --batch; trnsim plan infer --help lists all options"
    asked = f"plan serve {LLAMA} --on trn1.2xlarge --tensor-parallel-size 1"
    with pytest.raises(OutOfMemory, match=r"^B \(plan serve examples"):
        run(file, asked)


def test_a_command_that_prints_no_answer_is_refused(folder):
    help_of = refusal(infer(folder, "--help"), folder / "1.json")
    assert help_of.reason.startswith("A (plan infer ")
    assert "not JSON" in help_of.reason
    path = folder / "ends.py"
    path.write_text("raise SystemExit(3)")
    if pytest.importorskip("torch"):
        ended = refusal(folder / "1.json", f"compile {path}")
        assert ended.reason.endswith("the command ended with status 3")


def test_quotes_that_do_not_close_are_refused(folder):
    assert "No closing quotation" in refusal('plan infer "a.json', folder / "1.json").reason


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("list.json", "[1, 2]", "list.json holds no answer of trnsim"),
        ("empty.json", "[]", "empty.json holds no answer of trnsim"),
        ("config.json", '{"name": "a"}', "config.json: no answer of a known command"),
        ("nothing.json", "", "nothing.json:1: the file is empty"),
        ("text.json", "text", "text.json:1: not JSON"),
        ("text.log", "text", "text.log:1: no log of a known kind; legal: vllm"),
        ("answer.txt", "{", "answer.txt:1: not JSON"),
    ],
)
def test_a_file_that_is_no_answer_is_refused(name, content, said, folder, tmp_path):
    (tmp_path / name).write_text(content)
    assert said in refusal(folder / "1.json", tmp_path / name).reason


def test_a_file_that_is_not_there_is_named_with_what_may_be_given(folder):
    error = refusal("none.json", folder / "1.json")
    assert error.reason == "cannot read none.json: No such file or directory"
    assert "quote a command" in error.fix
    assert "cannot read infer" in refusal("infer config.json", folder / "1.json").reason


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
@pytest.mark.parametrize("name", ["pipe", "pipe.json", "pipe.csv", "pipe.log"])
def test_a_pipe_is_refused_and_not_waited_for(name, folder, tmp_path):
    os.mkfifo(tmp_path / name)
    assert "it is a pipe, which may never end" in refusal(folder / "1.json", tmp_path / name).reason


def test_answers_without_a_common_figure_are_refused(folder):
    asked = "plan collective all_reduce --on trn2 --ranks 8 --bytes 1024"
    error = refusal(asked, folder / "1.json")
    assert error.reason.endswith("1.json) of trnsim plan infer (latency): no figure in common")


def test_names_of_others_command_no_terminal(folder, tmp_path):
    plain = json.loads((folder / "1.json").read_text())
    plain["estimate"]["parts_s"]["\x1b[2J"] = 1.0
    plain["platform"] = "\x1b]0;title\x07"
    (tmp_path / "a.json").write_text(json.dumps(plain))
    assert "\x1b" not in run(tmp_path / "a.json", folder / "1.json")


def test_options_are_named_and_arguments_numbered():
    asked = "collective all_reduce --bytes=8 --on trn2 --json --stride 2 --sp"
    words = ["plan", *asked.split()]
    assert _options(words) == {
        "argument 1": "all_reduce", "--bytes": "8", "--on": "trn2", "--stride": "2", "--sp": "yes",
    }  # fmt: skip
    assert _options(["compile", "a.py", "b.py"]) == {"argument 1": "a.py", "argument 2": "b.py"}


def test_the_help_teaches_with_three_examples():
    said = " ".join(run("--help").split())
    for one in (
        "Two batch sizes: ",
        "A compiled program beside a plan: ",
        "beside what was measured",
    ):
        assert one in said
    assert said.count("trnsim why ") >= 3
