"""Prepared exchanges: one slot, one trigger for each preparation. Values: tests/isa."""

import inspect

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction, SourceLine

GROUP = ncc.ReplicaGroup([[0, 1]])


def refused(body):
    """The refusal of a kernel whose `body` has (src, dst, metadata), on two ranks."""

    @nki.jit
    def kernel(x, counts):
        src = nl.ndarray((8,), dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray((16,), dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        metadata = nl.ndarray((3, 2), dtype=nl.uint32, buffer=nl.shared_hbm, name="metadata")
        nisa.dma_copy(dst=src, src=x)
        nisa.dma_copy(dst=metadata, src=counts)
        body(src, dst, metadata)
        return x

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(
            kernel,
            ranks=2,
            inputs=lambda _: (np.zeros(8, np.float32), np.zeros((3, 2), np.uint32)),
        )
    lines, first = inspect.getsourcelines(body)
    (here,) = [first + i for i, line in enumerate(lines) if "# here" in line]
    assert caught.value.line == SourceLine(__file__, here)
    return caught.value


def prepared(src, dst, metadata):
    return ncc.all_to_all_v_prepare([src], [dst], GROUP, metadata)


def test_one_exchange_is_prepared_at_a_time():
    def body(src, dst, metadata):
        first = prepared(src, dst, metadata)
        ncc.all_gather_v_prepare([src], [dst], GROUP, metadata)  # here
        ncc.all_to_all_v_trigger(first)

    error = refused(body)
    assert error.reason.startswith("all_gather_v_prepare while the exchange of ")
    assert error.reason.endswith("legal: one prepared exchange of any kind at a time")
    assert "all_to_all_v_prepare at " in error.reason
    assert error.fix == "call ncc.all_to_all_v_trigger for it before"


def test_a_trigger_names_a_preparation():
    def body(src, dst, metadata):
        del src, dst, metadata
        ncc.all_to_all_v_trigger(None)  # here

    error = refused(body)
    assert error.reason == (
        "all_to_all_v_trigger: `prepare_instr` is NoneType; legal: the last preparation of this "
        "core, before its trigger"
    )
    assert error.fix == "call it with the result of ncc.all_to_all_v_prepare, once for each"


def test_no_other_instruction_is_a_preparation():
    def body(src, dst, metadata):
        del metadata
        whole = ncc.all_gather([src], [dst], GROUP, 0)
        ncc.all_gather_v_trigger(whole)  # here

    reason = refused(body).reason
    assert "`prepare_instr` is " in reason
    assert "all_gather" in reason


def test_a_preparation_has_one_trigger():
    def body(src, dst, metadata):
        first = prepared(src, dst, metadata)
        ncc.all_to_all_v_trigger(first)
        ncc.all_to_all_v_trigger(first)  # here

    assert "`prepare_instr` was triggered at " in refused(body).reason


def test_an_earlier_preparation_is_over():
    def body(src, dst, metadata):
        first = prepared(src, dst, metadata)
        ncc.all_to_all_v_trigger(first)
        ncc.all_to_all_v_trigger(prepared(src, dst, metadata))
        prepared(src, dst, metadata)
        ncc.all_to_all_v_trigger(first)  # here

    reason = refused(body).reason
    assert "all_to_all_v_prepare" in reason
    assert reason.endswith("legal: the last preparation of this core, before its trigger")


def test_a_trigger_is_of_the_same_collective():
    def body(src, dst, metadata):
        ncc.all_gather_v_trigger(prepared(src, dst, metadata))  # here

    error = refused(body)
    assert error.reason == (
        "all_gather_v_trigger: `prepare_instr` is the result of all_to_all_v_prepare; legal: that "
        "of all_gather_v_prepare"
    )
    assert error.fix == "call ncc.all_to_all_v_trigger for it"


def test_a_kernel_triggers_what_it_prepares():
    def body(src, dst, metadata):
        ncc.all_to_all_v_prepare([src], [dst], GROUP, metadata)  # here

    error = refused(body)
    assert error.reason == (
        "all_to_all_v_prepare has no trigger before the end of the kernel; legal: one for each "
        "preparation"
    )


def test_both_calls_are_instructions_with_a_name():
    seen = []

    @nki.jit
    def kernel(x, counts):
        src = nl.ndarray((8,), dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray((16,), dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        metadata = nl.ndarray((3, 2), dtype=nl.uint32, buffer=nl.shared_hbm, name="metadata")
        nisa.dma_copy(dst=metadata, src=counts)
        first = ncc.all_to_all_v_prepare([src], [dst], GROUP, metadata, name="first")
        nisa.dma_copy(dst=src, src=x)
        seen.extend([first, ncc.all_to_all_v_trigger(first, name="second")])
        return x

    for _ in range(3):
        trnsim.run(
            kernel,
            ranks=2,
            inputs=lambda _: (np.zeros(8, np.float32), np.zeros((3, 2), np.uint32)),
        )
    assert [each.name for each in seen[:2]] == ["first", "second"]
