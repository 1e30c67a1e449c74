"""The current context: which core a running kernel issues to."""

import threading

import pytest

from trnsim.errors import BadInput
from trnsim.program import CoreContext, current_core, has_current_core, issuing_to


def test_instructions_outside_a_kernel_have_no_core():
    assert not has_current_core()
    with pytest.raises(BadInput, match="outside a kernel"):
        current_core()


def test_a_context_is_current_within_its_block_and_contexts_nest(core_v2, core_v3):
    outer, inner = CoreContext(core_v2), CoreContext(core_v3)
    with issuing_to(outer) as entered:
        assert entered is current_core() is outer
        with issuing_to(inner):
            assert current_core() is inner
        assert current_core() is outer
    assert not has_current_core()


def test_an_exception_leaves_the_context(core_v3):
    with pytest.raises(KeyError), issuing_to(CoreContext(core_v3)):
        raise KeyError
    assert not has_current_core()


def test_each_thread_has_its_own_context(core_v3):
    found = []
    with issuing_to(CoreContext(core_v3)):
        thread = threading.Thread(target=lambda: found.append(has_current_core()))
        thread.start()
        thread.join()
    assert found == [False]
