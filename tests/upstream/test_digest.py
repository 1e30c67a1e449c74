"""The digest of the development suites: what the hook notes, and what a comparison finds."""

import json
import subprocess
import sys
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import digest
import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from digest_hook import Notes, described, fingerprint, hook
from ledger import read

import trnsim
from trnsim.errors import IllegalInstruction, NotModelled

HERE = Path(__file__).parent
ROW = {"call": "k on trn2(float32[1])", "values": "a", "time": "1e-06", "instructions": 3}


@nki.jit
def double(a, factor=2.0):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def too_tall(a):
    tile = nl.ndarray((129, 4), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)  # 129 partitions
    return a


@pytest.fixture
def notes(tmp_path):
    """The notes of this process, for the time of a test."""
    made = Notes(tmp_path / "rows.jsonl", "suite", [str(HERE)])
    made.begin("test")
    undo = hook(made)
    yield made
    undo()


def rows(notes):
    return {entry["key"]: entry["row"] for entry in read(notes.path)}


def test_a_launch_is_a_row_with_its_call_values_time_and_instructions(notes):
    given = np.ones((3, 5), np.float32)
    run = trnsim.run(double, given, target="trn1")
    (key,) = rows(notes)
    row = rows(notes)[key]
    assert key == "suite | test | 1"
    assert row["call"] == "double on trn1(float32[3, 5])"
    assert row["time"] == repr(run.total_time_s)
    assert row["instructions"] == len(run.program) == 3
    assert row["warnings"] == []
    assert row["values"] == fingerprint((run.outputs, (given,), {}))


def test_launches_are_numbered_and_begin_anew_with_each_test(notes):
    for test in ("one", "two"):
        notes.begin(test)
        for _ in range(2):
            trnsim.run(double, np.ones((1, 1), np.float32))
    keys = [f"suite | {test} | {number}" for test in ("one", "two") for number in (1, 2)]
    assert [*rows(notes)] == keys


def test_a_kernel_called_as_a_function_is_noted_too(notes):
    double(np.ones((2, 2), np.float32))
    assert len(rows(notes)) == 1


def test_other_values_are_another_fingerprint_and_nothing_else(notes):
    for number in (1.0, 1.0, 3.0):
        trnsim.run(double, np.full((3, 5), number, np.float32))
    one, same, other = rows(notes).values()
    assert one == same
    assert {field for field in one if one[field] != other[field]} == {"values"}


def test_a_launch_without_values_has_a_time_and_no_fingerprint(notes):
    trnsim.run(double, np.ones((3, 5), np.float32), numerics=False)
    (row,) = rows(notes).values()
    assert not row["values"]
    assert float(row["time"]) > 0


def test_an_estimates_own_launches_are_no_rows(notes):
    notes.is_estimating = True
    trnsim.run(double, np.ones((3, 5), np.float32), numerics=False)
    assert not rows(notes)
    trnsim.run(double, np.ones((3, 5), np.float32))
    assert len(rows(notes)) == 1


def test_an_error_is_noted_with_its_line_and_raised(notes):
    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(too_tall, np.ones((129, 4), np.float32))
    (row,) = rows(notes).values()
    line = Path(__file__).read_text(encoding="utf-8").splitlines().index(
        "    tile = nl.ndarray((129, 4), dtype=a.dtype, buffer=nl.sbuf)"
    )  # fmt: skip
    assert row["call"] == "too_tall on trn2(float32[129, 4])"
    assert row["error"].startswith(f"IllegalInstruction: {caught.value.reason}")
    assert row["error"].endswith(f"at test_digest.py:{line + 1}")
    assert "values" not in row


def test_the_hook_is_nobodys_line(notes):
    # Without a kernel's line the error is at the program's call, not in the hook's frame.
    with pytest.raises(Exception, match="with 0 positional") as caught:
        trnsim.run(double)
    assert Path(caught.value.line.file) == Path(__file__)
    assert len(rows(notes)) == 1


def test_the_hook_can_be_undone(tmp_path):
    launch = sys.modules["trnsim.runs"].launch
    undo = hook(Notes(tmp_path / "rows.jsonl", "suite"))
    assert sys.modules["trnsim.runs"].launch is not launch
    undo()
    assert sys.modules["trnsim.runs"].launch is launch


def test_messages_are_kept_without_what_differs_from_run_to_run(tmp_path):
    notes = Notes(tmp_path / "rows.jsonl", "suite", ["/clones"])
    said = "<trnsim.graph.ir.Value at 0x7f0011223344> /clones/a/k.py:7 /x/src/trnsim/isa/b.py:12"
    assert notes.clean(said) == "<Value at 0x> a/k.py:7 trnsim"
    error = NotModelled("no such thing", fix="wait")
    assert notes.said(error) == notes.clean(f"NotModelled: {error}")


class Way(Enum):
    up = 1


def test_arguments_are_described_by_shapes_and_dtypes():
    given = (np.ones((1, 2), ml_dtypes.bfloat16), [np.zeros(3, np.int8), 1], Way.up, None, object())
    said = "(bfloat16[1, 2], [int8[3], 1], up, None, object, scale=0.5)"
    assert described(given, {"scale": 0.5}) == said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros(4, np.float32), -np.zeros(4, np.float32)),
        (np.zeros(4, np.float32), np.zeros(4, np.int32)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(1, ml_dtypes.bfloat16), np.zeros(1, np.float16)),
        ([np.zeros(1)], np.zeros(1)),
        ({"a": 1}, {"b": 1}),
        (1, 1.0),
        (0.1, np.nextafter(0.1, 1)),
        (None, ()),
    ],
)
def test_what_differs_in_bytes_dtype_shape_or_order_has_another_fingerprint(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


def test_an_array_that_is_not_contiguous_is_its_values():
    array = np.arange(12.0).reshape(3, 4)
    assert fingerprint(array.T) == fingerprint(array.T.copy())
    assert fingerprint(np.array(np.nan)) == fingerprint(np.array(np.nan))


def test_torchs_tensors_are_their_bytes():
    torch = pytest.importorskip("torch", reason="the tensors are PyTorch's")
    one = torch.tensor([[1.0, -0.0]], dtype=torch.bfloat16)
    assert fingerprint(one) == fingerprint(one.clone())
    assert fingerprint(one) != fingerprint(torch.tensor([[1.0, 0.0]], dtype=torch.bfloat16))
    assert described((one,), {}) == "(bfloat16[1, 2])"


@pytest.fixture
def compared(capsys):
    """Whether digests with these rows differ, and what is printed of it."""

    def compare(one, other, *, failed=None):
        head = {"clones": {}, "parts": ["s"], "failed": failed or {}}
        digests = [{**head, "commit": "c", "rows": rows} for rows in (one, other)]
        return digest.compare(*digests), capsys.readouterr().out

    return compare


def test_equal_digests_compare_equal(compared):
    differs, text = compared({"s | t | 1": ROW}, {"s | t | 1": ROW})
    assert not differs
    assert text.endswith("\n1 rows are equal\n")
    assert "differ" not in text


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("values", "b", "values"),
        ("time", "2e-06", "time"),
        ("instructions", 4, "time"),
        ("error", "NotModelled: no", "refusal"),
        ("warnings", ["a race"], "refusal"),
        ("call", "k on trn1(float32[1])", "call"),
    ],
)
def test_a_row_that_differs_is_shown_under_its_kind_alone(compared, field, value, kind):
    other = {**ROW, field: value}
    rows = {"s | t | 1": ROW, "s | t | 2": ROW}
    differs, text = compared(rows, {**rows, "s | t | 1": other})
    assert differs
    assert [line for line in text.splitlines() if "differ" in line] == [
        f"{kind}: 1 rows differ: 1 of s"
    ]
    assert f"s | t | 1\n    {field}: {ROW.get(field)} -> {value}" in text
    assert "\n1 rows are equal" in text


@pytest.mark.parametrize(("at", "said"), [(0, "only in the second"), (1, "only in the first")])
def test_a_row_that_only_one_has_is_missing(compared, at, said):
    rows = [{"s | t | 1": ROW, "s | t | 2": ROW} for _ in range(2)]
    del rows[at]["s | t | 2"]
    differs, text = compared(*rows)
    assert differs
    assert "missing: 1 rows differ" in text
    assert f"  s | t | 2\n    {said}\n" in text


def test_a_part_that_did_not_end_is_a_difference(compared):
    differs, text = compared({}, {}, failed={"s": "status 2: no such file"})
    assert differs
    assert "{'s': 'status 2: no such file'}" in text


def test_a_row_that_is_refused_now_is_a_refusal_alone(compared):
    refused = {"call": ROW["call"], "error": "NotModelled: no"}
    differs, text = compared({"s | t | 1": ROW}, {"s | t | 1": refused})
    assert differs
    assert "refusal: 1 rows differ" in text
    assert "values:" not in text
    assert "error: None -> NotModelled: no" in text


def test_of_long_texts_the_lines_that_differ_are_shown(compared):
    one, other = {"text": "a\nb\nc"}, {"text": "a\nB\nc\nd"}
    assert "text: b -> B\n" in compared({"s | t | output": one}, {"s | t | output": other})[1]
    longer = {"text": "a\nb\nc\nd"}
    assert "text: None -> d\n" in compared({"s | t | output": one}, {"s | t | output": longer})[1]


def test_a_key_that_comes_again_is_a_row_of_its_own():
    entries = [{"key": key, "row": {"time": key + str(n)}} for n, key in enumerate("aba")]
    assert digest.keyed(entries) == {
        "a": {"time": "a0"}, "b": {"time": "b1"}, "a again 2": {"time": "a2"}
    }  # fmt: skip


def test_a_part_of_one_alone_is_named_and_not_compared(capsys):
    one = {"clones": {}, "parts": ["s"], "failed": {}, "commit": "c", "rows": {"s | t | 1": ROW}}
    other = {**one, "parts": ["s", "r"], "rows": {**one["rows"], "r | t | 1": ROW}}
    assert not digest.compare(one, other)
    assert "left out, as one of them has it alone: r" in capsys.readouterr().out


def test_many_differences_are_counted_and_a_few_shown(capsys):
    rows = {f"s | t | {number}": ROW for number in range(5)}
    one = {"clones": {}, "parts": ["s"], "failed": {}, "commit": "c", "rows": rows}
    slower = {**one, "rows": {key: {**ROW, "time": "1.0"} for key in rows}}
    assert digest.compare(one, slower, most=2)
    text = capsys.readouterr().out
    assert "time: 5 rows differ" in text
    assert text.count("1e-06 -> 1.0") == 2
    assert "and 3 more" in text


@pytest.mark.slow
def test_the_exit_status_says_whether_they_differ(tmp_path):
    head = {"clones": {}, "parts": ["s"], "failed": {}, "commit": "c"}
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps({**head, "rows": {"s | t | 1": ROW}}), encoding="utf-8")
    other.write_text(json.dumps({**head, "rows": {}}), encoding="utf-8")
    command = [sys.executable, str(HERE / "digest.py"), "--compare", str(one)]
    for second, status in ((one, 0), (other, 1)):
        done = subprocess.run([*command, str(second)], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (status, b"")


@pytest.mark.slow
def test_a_part_that_breaks_is_said_to_have_failed(tmp_path):
    variables = digest.environment(tmp_path, tmp_path / "rows.jsonl")
    assert digest.run_part("nothing", tmp_path, variables) == "status 1: KeyError: 'nothing'"
    assert not digest.run_part("peaks", tmp_path, variables)
    assert len(read(tmp_path / "rows.jsonl")) > 20


def test_every_suite_is_a_part_and_sweeps_only_where_they_are_asked_for():
    def names(**given):
        return {*digest.jobs(Path(), SimpleNamespace(**given))}

    fast = {"D1", "D5-trn2-fast", "D5-trn3-fast", "D6-trnfft", "D6-trnsparse", "D7", "D8"}
    others = {"accuracy", "peaks", "examples", "plans", "torch"}
    assert names(cases=60, sweeps=0) == fast | others
    assert names(cases=60, sweeps=5) == fast | others | {"D5-trn2-sweeps", "D5-trn3-sweeps"}
