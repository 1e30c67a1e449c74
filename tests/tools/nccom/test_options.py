"""Options of an operation, and a stream's in their place."""

from pathlib import Path

import pytest

from trnsim.errors import BadInput
from trnsim.reader import read
from trnsim.tools.nccom.options import OperationOptions, StreamFields


def options(**stated):
    return OperationOptions(operation="allr", **stated)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"check": "twos"}, r"--check twos; legal: random, all_ones, or nothing"),
        ({"seed": 3}, r"--seed 3 without --check random"),
        ({"seed": 0, "check": "all_ones"}, r"--seed 0 without --check random"),
        (
            {"custom_replica_groups": Path("g"), "data_parallel_dimension": 2},
            r"--custom-replica-groups and --data-parallel-dimension; legal: one",
        ),
        ({"input_shape": "[1,1][2,2]"}, r"--input-shape is of tensors in SBUF; legal: with --sb"),
        ({"output_shape": "[1,1][2,2]"}, r"--output-shape is of tensors in SBUF"),
        ({"cc_dim": 0}, r"--cc-dim is of tensors in SBUF"),
        ({"cc_dim": 2, "sb2sb": True}, r"--cc-dim 2; legal: 0 \(free\) or 1 \(partition\)"),
    ],
)
def test_options_that_do_not_go_together_are_refused(stated, reason):
    with pytest.raises(BadInput, match=reason):
        options(**stated).check_legal()


def test_options_that_go_together():
    options(check="random", seed=0).check_legal()
    options(sb2sb=True, cc_dim=0, input_shape="[1,1][2,2]").check_legal()


def test_a_ratio_splits_a_message():
    """nccom-test.rst, --coalesced-cc-size-ratio: 4 MB in 1, 2 and 1 MB."""
    split = options(coalesced_cc_size_ratio="[1,2,1]")
    assert split.parts(4 << 20, 4) == (1 << 20, 2 << 20, 1 << 20)
    assert options().parts(7, 1) == (7,)
    assert options(coalesced_cc_size_ratio="[2]").parts(8, 4) == (8,)


@pytest.mark.parametrize(
    ("ratio", "nbytes", "reason"),
    [
        ("1,2", 6, r"ratio '1,2'; legal: whole numbers from 1 on"),
        ("[]", 6, r"ratio '\[\]'; legal"),
        ("[0,1]", 6, r"ratio '\[0,1\]'; legal"),
        ("[-1]", 6, r"legal: whole numbers"),
        ("[1,2]", 8, r"ratio \[1,2\] of 8 bytes; legal: parts of whole elements of 4"),
        ("[1,2]", 6, r"of 6 bytes; legal: parts of whole elements"),
    ],
)
def test_a_ratio_that_splits_nothing_is_refused(ratio, nbytes, reason):
    with pytest.raises(BadInput, match=reason):
        options(coalesced_cc_size_ratio=ratio).parts(nbytes, 4)


def stream(tmp_path, text):
    path = tmp_path / "stream.json"
    path.write_text(text)
    return read(StreamFields, path)


def test_a_stream_overrides_what_it_states(tmp_path):
    base = options(datatype="bf16", stepbytes="8", data_parallel_dimension=2, check="random")
    over = stream(
        tmp_path,
        '{"operation": "allg", "minbytes": 8, "maxbytes": "1KB", "stepfactor": 2,\n'
        '"custom_replica_groups": "g.json", "check": false, "ops_per_iter": 3,\n'
        '"coalesced_cc_size_ratio": [1, 2, 1]}',
    ).with_defaults(base)
    assert over == OperationOptions(
        operation="allg",
        datatype="bf16",
        minbytes="8",
        maxbytes="1KB",
        stepfactor="2",
        custom_replica_groups=Path("g.json"),
        coalesced_cc_size_ratio="[1,2,1]",
        ops_per_iter=3,
    )
    assert stream(tmp_path, '{"check": true}').with_defaults(base).check == "random"
    assert stream(tmp_path, "{}").with_defaults(base) == base


def test_a_field_of_a_stream_that_is_not_known_is_refused_at_its_line(tmp_path):
    with pytest.raises(BadInput, match=r"stream\.json:2: the field 'datatyp' is not known") as e:
        stream(tmp_path, '{\n"datatyp": "fp32"}')
    assert "datatype" in e.value.fix
    with pytest.raises(BadInput, match=r"stream\.json:1: ops_per_iter is 0; legal"):
        stream(tmp_path, '{"ops_per_iter": 0}')
