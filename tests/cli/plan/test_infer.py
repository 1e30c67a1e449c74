"""`trnsim plan infer`."""

import json
import re

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.document.figure import value_at
from trnsim.errors import BadInput, EmulatorError
from trnsim.system.infer.estimate import estimate
from trnsim.system.infer.parts import InputSizes

BERT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
}


@pytest.fixture
def bert(tmp_path):
    path = tmp_path / "bert.json"
    path.write_text(json.dumps(BERT), encoding="utf-8")
    return path


def run(*arguments):
    result = CliRunner().invoke(app, ["plan", "infer", *map(str, arguments)])
    if isinstance(result.exception, EmulatorError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_one_platform_is_one_object(bert):
    found = json.loads(run(bert, "--on", "inf2.xlarge", "--batch", 8, "--sequence", 128, "--json"))
    told = estimate(bert, "inf2.xlarge", InputSizes(8, 128))
    for key, interval in (("latency_p50_s", told.latency_s), ("items_per_s", told.items_per_s)):
        assert found[key] == {"p10": interval.p10, "p50": interval.p50, "p90": interval.p90}
    assert (found["copies"], found["cores"], found["batch"], found["item"]) == (2, 2, 8, "sequence")
    assert sum(found["estimate"]["parts_s"].values()) == pytest.approx(told.latency_s.p50)
    assert found["usd_per_million_items"]["p50"] == pytest.approx(told.usd_per_million.p50)


def test_several_are_a_list(bert):
    found = json.loads(run(bert, "--on", "trn2,g4dn.xlarge", "--json"))
    assert [row["platform"] for row in found] == ["trn2", "g4dn.xlarge"]
    assert found[0]["usd_per_million_items"] is None


def test_a_table_says_where_the_time_goes_and_where_it_comes_from(bert):
    printed = run(bert, "--on", "inf1.xlarge,g5.xlarge", "--batch", 2, "--cores", 1)
    title, table, *_ = printed.split("\n\n")
    assert " ".join(title.split()).startswith("bert: batches of 2 sequences on each copy")
    assert max(map(len, printed.splitlines())) <= 100
    (line,) = [line for line in table.splitlines() if line.startswith("inf1.xlarge")]
    assert line.split()[:5] == ["inf1.xlarge", "inf1.xlarge", "1", "on", "1"]
    assert "extrapolated" in printed
    assert "tiles on 80 SMs" in printed
    assert "Inferentia1: from its documents" in printed
    assert "weights" in printed


@pytest.mark.parametrize("given", ["nan", "1e400", "eight", "0", "-4", "2.5"])
@pytest.mark.parametrize("option", ["--batch", "--sequence", "--image", "--steps", "--cores"])
def test_no_number_but_whole_ones(bert, option, given):
    result = CliRunner().invoke(app, ["plan", "infer", str(bert), option, given])
    assert result.exit_code != 0
    told = f"{result.output}{result.exception}"
    assert "Traceback" not in told
    assert option in told or option.lstrip("-") in told


def test_options_move_the_answer(bert):
    def items(*arguments):
        return json.loads(run(bert, "--on", "trn1", "--json", *arguments))["items_per_s"]["p50"]

    base = items()
    for other in (("--batch", 8), ("--sequence", 384), ("--cores", 4), ("--dtype", "fp32")):
        assert items(*other) != base


def test_measured_layers_are_named_and_decide(bert, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("phase,batch,tokens,time_us\nencode,8,128,40000\n", encoding="utf-8")
    asked = (bert, "--on", "trn1", "--batch", 8, "--measured", file)
    found = json.loads(run(*asked, "--json"))
    assert found["latency_p50_s"]["p50"] == pytest.approx(12 * 0.04, rel=0.05)
    assert found["estimate"]["sources"]["model"].endswith(f"measured: {file} (layer)")
    assert f"measured: {file} (layer)" in " ".join(run(*asked).split())
    with pytest.raises(BadInput, match=r"is met: this plan asks for encode of 4 x 128 tokens; "):
        run(bert, "--on", "trn1", "--batch", 4, "--measured", file)
    resnet = tmp_path / "resnet.json"
    resnet.write_text(json.dumps({"model_type": "resnet"}), encoding="utf-8")
    with pytest.raises(BadInput, match=r"is read from its graph, which has no layers that rows"):
        run(resnet, "--on", "trn1", "--measured", file)


def test_own_prices_win_and_two_kinds_are_marked(bert, tmp_path):
    own = tmp_path / "own.csv"
    own.write_text(
        "instance,kind,usd_per_hour,credit_usd,as_of\n"
        "inf2.xlarge,on_demand,0.25,,2026-11-01\n,,,1000,\n",
        encoding="utf-8",
    )
    found = json.loads(run(bert, "--on", "inf2.xlarge", "--prices", own, "--json"))
    assert found["price"].endswith("(own price)")
    assert found["credits"] == ["credit: 1,000.00 USD"]
    listed = json.loads(run(bert, "--on", "inf2.xlarge", "--json"))["usd_per_million_items"]["p50"]
    assert found["usd_per_million_items"]["p50"] < listed
    two = (bert, "--on", "inf2.xlarge,g5.xlarge:spot")
    with pytest.raises(BadInput, match="different purchase kinds do not compare"):
        run(*two)
    printed = run(*two, "--mixed-prices")
    assert printed.count("(mixed prices)") == 2
    assert "prices: mixed prices: on_demand, spot" in printed


def test_the_page_has_a_bar_of_the_parts_of_each_platform(bert, tmp_path):
    run(bert, "--on", "inf2.xlarge,trn1.2xlarge", "--report", tmp_path)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    values = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    drawn = re.findall(r'data-of="([^"]*)" data-value="([^"]*)"', page)
    assert {place.split("/")[1] for place, _ in drawn} == {"0", "1"}
    for place, value in drawn:
        assert value_at(values, place) == float(value)


def test_a_title_is_the_models_name(bert):
    folder = bert.parent / "my-encoder"
    folder.mkdir()
    (folder / "config.json").write_text(bert.read_text())
    for config in (folder, folder / "config.json"):
        assert run(config, "--on", "trn1").startswith(
            "my-encoder: batches of 1 sequence on each copy\n"
        )
