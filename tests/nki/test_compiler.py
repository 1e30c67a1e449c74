"""`nki.compiler` and its frontends: compiling a kernel means running it."""

import nki
import nki.compiler
import nki.language as nl
import numpy as np
import pytest
from nki.compiler.frontend import NKIFrontend, ParserFrontend, TracerFrontend

from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.nki.kernel import TARGET_VARIABLE

A = np.arange(32, dtype=np.float32).reshape(4, 8)


def doubled(a, factor=2.0):
    out = nl.ndarray((nl.num_programs(0), *a.shape), dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out[nl.program_id(0)], nl.multiply(nl.load(a), factor))
    return out


@pytest.mark.parametrize("frontend", [NKIFrontend, ParserFrontend, TracerFrontend])
def test_every_frontend_runs_a_kernel(frontend):
    run = frontend().compile(nki.jit(doubled), {"a": A, "factor": 3.0}, target="trn2")
    np.testing.assert_array_equal(run.outputs, [3 * A])
    assert run.target.core.generation == 3


def test_a_plain_function_is_made_a_kernel():
    np.testing.assert_array_equal(ParserFrontend().compile(doubled, {"a": A}).outputs, [2 * A])


def test_lnc_is_the_number_of_cores():
    run = TracerFrontend().compile(doubled, {"a": A}, lnc=2, artifacts_dir="anywhere")
    np.testing.assert_array_equal(run.outputs, [2 * A] * 2)
    with pytest.raises(BadInput, match=r"doubled\[3\]"):
        TracerFrontend().compile(doubled, {"a": A}, lnc=3)


def test_without_a_target_the_environment_decides(monkeypatch):
    monkeypatch.setenv(TARGET_VARIABLE, "trn3")
    assert NKIFrontend().compile(doubled, {"a": A}).target.name == "trn3"


def test_what_the_compiler_refuses_is_refused():
    def kernel(a):
        nl.ndarray((129, 4), dtype=a.dtype, buffer=nl.sbuf)

    with pytest.raises(IllegalInstruction, match="129 partitions"):
        NKIFrontend().compile(kernel, {"a": A})


@pytest.mark.parametrize("name", ["kernel_builder", "enable_stack_allocator"])
def test_other_names_belong_to_the_vendors_compiler(name):
    with pytest.raises(NotModelled, match=rf"nki\.compiler\.{name} belongs to the vendor"):
        getattr(nki.compiler, name)


def test_pythons_own_attributes_are_simply_absent():
    assert not hasattr(nki.compiler, "__wrapped__")
    assert nki.compiler.frontend.NKIFrontend is NKIFrontend
