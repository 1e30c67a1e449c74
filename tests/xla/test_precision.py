"""XLA_USE_BF16 and XLA_DOWNCAST_BF16; tests/xla/oracle compares values with the real package."""

import os

import pytest
import torch

from trnsim.torch.narrowing import narrowed_dtypes
from trnsim.xla import precision

F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"XLA_USE_BF16": "0"}, {}),
        ({"XLA_USE_BF16": ""}, {}),
        ({"XLA_USE_BF16": "no"}, {}),
        ({"XLA_USE_BF16": "1"}, {F32: BF16, F64: BF16}),
        ({"XLA_USE_BF16": "-1"}, {F32: BF16, F64: BF16}),
        ({"XLA_USE_BF16": "true"}, {F32: BF16, F64: BF16}),
        ({"XLA_DOWNCAST_BF16": "1"}, {F32: BF16, F64: F32}),
        ({"XLA_DOWNCAST_BF16": "1", "XLA_USE_BF16": "1"}, {F32: BF16, F64: BF16}),
    ],
)
def test_the_variables_say_which_dtypes_are_narrower(variables, expected):
    precision.install(variables)
    assert narrowed_dtypes == expected


def test_the_import_reads_the_variables_and_neuron_does_not():
    os.environ["XLA_USE_BF16"] = "1"
    fine = torch.tensor([1 + 2**-12])
    assert fine.to("neuron").cpu().item() == fine.item()
    import torch_xla

    assert fine.to("xla").item() == 1
    assert fine.item() != 1


def test_bytes_and_times_are_those_of_the_narrower_dtype():
    from trnsim.torch.call_recording import recording

    def measured():
        before = torch.neuron.memory_allocated()
        tensor = torch.ones(512, 512).to("neuron")
        held = torch.neuron.memory_allocated() - before
        with recording() as calls:
            tensor @ tensor
        return held, calls

    held, calls = measured()
    assert held == 4 * 512 * 512
    wide = calls.events[0].call
    precision.install({"XLA_USE_BF16": "1"})
    held, calls = measured()
    assert held == 2 * 512 * 512
    narrow = calls.events[0].call
    assert {spec.dtype for spec in (*narrow.args, *narrow.results)} == {BF16}
    assert narrow.time("trn2").device_time_s < wide.time("trn2").device_time_s


@pytest.mark.parametrize("value", ["maybe", "yes", "1.0"])
def test_a_value_that_torch_xla_reads_as_off_is_said(value):
    with pytest.warns(precision.VariableIgnored, match=f"XLA_USE_BF16='{value}' is off") as warned:
        precision.install({"XLA_USE_BF16": value})
    assert warned[0].filename == __file__
    assert narrowed_dtypes == {}


@pytest.mark.parametrize("value", ["--1", "+-1", "1-", "\N{SUPERSCRIPT TWO}"])
def test_what_only_looks_like_a_number_is_off_with_a_warning(value):
    import torch

    from trnsim.torch.narrowing import narrowed_dtypes
    from trnsim.xla import precision

    before = dict(narrowed_dtypes)
    with pytest.warns(precision.VariableIgnored, match="legal: true, false, or a number"):
        precision.install({precision.USE: value})
    assert narrowed_dtypes == before
    assert torch.float32 not in narrowed_dtypes
