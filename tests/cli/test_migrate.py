"""Tests of `trnsim migrate`."""

import csv
import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput

OLD = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit(mode="jax")
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)  # the result
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer="sbuf")
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(out, tile, dge_mode=2)
    return out
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(OLD)
    return path


def run(*arguments):
    result = CliRunner(env={"COLUMNS": "100"}).invoke(
        app, ["migrate", *map(str, arguments)], catch_exceptions=False
    )
    assert result.exit_code == 0
    return result.output


def test_the_text_has_kernels_and_statements_with_reason_and_source(file):
    told = run(file)
    assert "doubled     7  NKI 0.2" in told
    assert "   9  0.3  refused    a buffer is an object: nl.sbuf, nl.psum" in told
    assert "    fix: write the object: buffer=nl.sbuf (--write does it)\n" in told
    assert "    source: nki/migration/index.rst, String buffer names no longer supported\n" in told


def test_nothing_changes_up_to_a_version_that_the_file_is_for(file):
    told = run(file, "--to", "0.2")
    assert "nothing changes until NKI 0.2." in " ".join(told.split())
    assert "What changes" not in told


def test_json_and_csv_have_a_row_for_each_statement(file, tmp_path):
    values = json.loads(run(file, "--json"))
    assert values["schema"] == "migrate/1"
    lines = [(each["line"], each["version"], each["behaviour"]) for each in values["statements"]]
    assert lines == [
        (6, "0.3", "jit-mode"),
        (8, "0.3", "output-in-any-hbm"),
        (9, "0.3", "string-buffers"),
        (12, "0.3", "integer-enums"),
    ]
    table = tmp_path / "answer.csv"
    run(file, "--output", table)
    with table.open() as stream:
        assert [row["behaviour"] for row in csv.DictReader(stream)] == [e[2] for e in lines]


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_is_none_is_named(content, tmp_path):
    path = tmp_path / "kernels.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=r"kernels\.py(: No such file| is not)"):
        run(path)


NEW = OLD.replace('(mode="jax")', "").replace("nl.hbm", "nl.shared_hbm")
NEW = NEW.replace('"sbuf"', "nl.sbuf").replace("dge_mode=2", "dge_mode=nisa.dge_mode.hwdge")


def test_write_rewrites_the_file(file):
    told = run(file, "--write")
    assert "4 places rewritten; no comment was needed." in told
    assert told.endswith(f"wrote {file}\n")
    assert file.read_text() == NEW
    assert "nothing changes until NKI 0.7" in " ".join(run(file).split())


@pytest.mark.parametrize("control", ["\r\n", "\n\x0c\n", "\n# \x85 \u2028 \x1b\n"])
def test_write_keeps_line_endings_and_control_characters(file, control):
    file.write_bytes(OLD.replace("\n", control).encode())
    run(file, "--write")
    assert file.read_bytes() == NEW.replace("\n", control).encode()


def test_a_file_that_begins_with_the_mark_of_utf_8_keeps_it(file):
    file.write_bytes(b"\xef\xbb\xbf" + OLD.encode())
    assert "4 places rewritten" in run(file, "--write")
    assert file.read_bytes() == b"\xef\xbb\xbf" + NEW.encode()


def test_a_rewritten_file_has_one_place(file, tmp_path):
    new_file = tmp_path / "new.py"
    with pytest.raises(BadInput, match=r"--write rewrites .*kernels\.py, and --output .*new\.py"):
        run(file, "--write", "--output", new_file)
    assert file.read_text() == OLD
    assert not new_file.exists()
    run(file, "--write", "--output", tmp_path / "answer.md")
    assert file.read_text() != OLD
    assert (tmp_path / "answer.md").exists()


@pytest.mark.parametrize("options", [("--write",), ("--output", "{}")])
def test_a_file_that_cannot_be_written_is_refused_before_the_versions_run(
    options, file, monkeypatch
):
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
    monkeypatch.setattr("trnsim.cli.migrate.rewritten_file", lambda _: pytest.fail("work"))
    with pytest.raises(BadInput, match=r"kernels\.py"):
        run(file, *(option.format(file) for option in options))
    assert file.read_text() == OLD


def test_output_of_python_leaves_the_old_file(file, tmp_path):
    new = tmp_path / "new.py"
    file.write_text(OLD + "\n@nki.jit\ndef k(x):\n    nisa.tensor_copy_dynamic_src(x, x)\n")
    values = json.loads(run(file, "--output", new, "--json"))
    assert values["written"] == {"file": str(new), "rewritten": 4, "comments": 1}
    assert new.read_text().startswith(NEW)
    assert "    # nki 0.7: nisa.tensor_copy_dynamic_src does not exist any more" in new.read_text()
    assert file.read_text().startswith(OLD)
    by_hand = {each["behaviour"] for each in values["statements"] if each["by_hand"]}
    assert by_hand == {"nisa.tensor_copy_dynamic_src"}


LOOP = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def doubled(x, y=1):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for i in nl.dynamic_range(2):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(out, tile)
    return out
"""


def test_both_versions_run_on_random_inputs_or_on_the_user_s(file, tmp_path):
    file.write_text(LOOP)
    assert "doubled  equal values  x 128x64:float32" in run(file, "--shape", "x=128x64")
    assert "doubled  not run  say --shape x=128x512:float32" in run(file)
    arrays = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for array in arrays:
        np.save(array, np.ones((4, 4), "float32"))
    assert "equal values" in run("--input", arrays[0], file)
    values = json.loads(run(file, "--input", *arrays, "--json", "--seed", "1"))
    assert [each["name"] for each in values["trials"][0]["inputs"]] == ["x", "y"]


def test_a_shape_of_no_argument_is_refused(file):
    file.write_text(LOOP)
    with pytest.raises(BadInput, match=r"--shape names z, which no kernel of .* legal: x, y\n"):
        run(file, "--shape", "z=128x64")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--kernel", "other"), "--kernel other, and .* has the kernels: doubled"),
        (("--to", "0.9"), "--to names NKI '0.9'"),
        (
            ("--output", "a.pdf"),
            r"legal endings: \.py for the rewritten file, and for the answer \.",
        ),
    ],
)
def test_an_option_that_is_wrong_is_named(file, options, words):
    with pytest.raises(BadInput, match=words):
        run(file, *options)


def test_arrays_for_several_kernels_need_a_name(file, tmp_path):
    file.write_text(LOOP + LOOP.replace("doubled", "second"))
    with pytest.raises(BadInput, match=r"no --kernel was given, and .* doubled, second"):
        run(file, "--input", tmp_path / "a.npy")


def test_a_seed_below_zero_is_refused(tmp_path):
    told = CliRunner().invoke(app, ["migrate", str(tmp_path / "k.py"), "--seed", "-1"])
    assert "'--seed': '-1' is below 0; legal: whole numbers from 0 on" in told.output
