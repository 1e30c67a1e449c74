import importlib.util
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces.encoding import MalformedProgram
from trnsim.torch.traces.stored import StoredProgram, StoredTensor

HEAD = b"trnsim traced program\nversion 2, by trnsim 0.1.0\n"
CORPUS = Path(__file__).parents[2] / "test_hostile_files.py"


def refused(content, match):
    with pytest.raises(BadInput, match=match):
        StoredProgram.from_bytes(content)


def changed(program, **members):
    """The bytes of a program with other members."""
    head, _, body = program.to_bytes().partition(b"\n{")
    return head + b"\n" + json.dumps(json.loads(b"{" + body) | members).encode()


def test_a_program_is_read_as_it_was_written(scaled):
    content = scaled.to_bytes()
    assert StoredProgram.from_bytes(content) == scaled
    assert content.startswith(HEAD)


def test_another_version_is_named_with_the_one_that_is_read(scaled):
    for version in (b"version 3", b"version 0", b"version x"):
        content = scaled.to_bytes().replace(b"version 2", version, 1)
        refused(content, version.decode() + ", by trnsim 0.1.0.*reads version 1 and 2")


def test_a_program_of_version_1_is_read_and_has_no_kernels(scaled):
    members = json.loads(scaled.to_bytes().removeprefix(HEAD))
    del members["kernels"]
    first = HEAD.replace(b"version 2", b"version 1") + json.dumps(members).encode()
    assert StoredProgram.from_bytes(first) == scaled
    refused(HEAD + json.dumps(members).encode(), "a program of other members than")


def test_a_neff_and_other_bytes_are_named():
    refused(b"\x1f\x8b" + bytes(30), "a NEFF of AWS's compiler")
    header = b"".join(number.to_bytes(8, "little") for number in (2, 1024, 9, 2, 0))
    refused(header.ljust(2000, b"\0"), "a NEFF of AWS's compiler")
    refused(b"", "no program that trnsim traced")
    refused(pickle.dumps({}), "no program that trnsim traced")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b"{}", b"[" * 100_000, b'{"title": 1}', b"\xff"]
)
def test_other_content_than_a_program_is_refused(body):
    refused(HEAD + body, "which trnsim never writes")


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({"outputs": [9]}, "an output 9, of 3"),
        ({"outputs": [True]}, "an output True"),
        ({"aliases": [[0]]}, "a state of other"),
        ({"aliases": [[1, 0]]}, "a state's weight 1, of 1"),
        ({"cores": -1}, "cores"),
        ({"flags": [1]}, "a flag that is no text"),
        ({"weights": []}, "tensors without names"),
        ({"estimate": []}, "no figures"),
        ({"are_weights_apart": 1}, "no figures"),
        ({"places": [{"modules": [["a"]], "line": ""}]}, "a path and a class"),
        ({"places": []}, "a place 0, of 0|a place"),
        ({"more": 1}, "other members"),
        ({"inputs": {"x": {"shape": [2], "stride": [], "dtype": "int8", "offset": 0}}}, "a tensor"),
        ({"inputs": {"x": {"shape": [-2], "stride": [1], "dtype": "int8", "offset": 0}}}, "length"),
        (
            {"inputs": {"x": {"shape": [], "stride": [], "dtype": "Tensor", "offset": 0}}},
            "a tensor",
        ),
        (
            {"inputs": {"x": {"shape": [], "stride": [], "dtype": ["int8"], "offset": 0}}},
            "a dtype that is no text",
        ),
    ],
)
def test_a_member_of_another_form_is_refused(scaled, members, match):
    refused(changed(scaled, **members), match)


@pytest.mark.slow
def test_hostile_files_are_refused_and_run_nothing():
    spec = importlib.util.spec_from_file_location("hostile_files", CORPUS)
    corpus = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(corpus)
    for content in corpus.HOSTILE.values():
        made = content() if callable(content) else content
        body = made if isinstance(made, bytes) else str(made).encode()
        refused(body, "no program that trnsim traced|a NEFF")
        refused(HEAD + body, "which trnsim never writes")


def test_a_tensor_has_shape_strides_and_dtype():
    form = StoredTensor.of(torch.ones(2, 3).t())
    assert (form.shape, form.stride, str(form)) == ([3, 2], [1, 3], "float32[3, 2]")
    assert form.matches(torch.ones(3, 2))
    assert not form.matches(torch.ones(3, 2, dtype=torch.float64))
    assert not form.matches(torch.ones(3, 1))
    assert StoredTensor.of(torch.ones(())).shape == []
    with pytest.raises(MalformedProgram, match="sparse"):
        StoredTensor.of(torch.ones(2).to_sparse())


def test_where_a_program_was_traced_is_left_out_if_unknown(scaled):
    assert scaled.origin == "Scaled, traced at model.py:3"
    assert replace(scaled, traced_at="").origin == "Scaled"
