# nki: 0.6
from dataclasses import replace

import pytest
import torch

from trnsim.errors import BadInput, EmulatorError
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.torch.traces.fx_program import graph_module
from trnsim.torch.traces.kernels.embedding import saved_kernel, with_kernels
from trnsim.torch.traces.stored import StoredProgram, StoredTensor

X = torch.arange(32.0).reshape(4, 8)


@jit
def sum_and_difference(a, b):
    outs = [nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm) for _ in range(2)]
    left, right = nl.load(a), nl.load(b)
    nl.store(outs[0], nl.add(left, right))
    nl.store(outs[1], nl.subtract(left, right))
    return {"sum": outs[0], "difference": outs[1]}


def function(x, y):
    first = sum_and_difference(x, b=y)
    second = sum_and_difference(first["sum"], b=x)
    return second["difference"], second["sum"] * 2


@pytest.fixture
def program(stored):
    return with_kernels(stored(function, (X, X + 1))[1])


def again(program):
    return StoredProgram.from_bytes(program.to_bytes())


def operators(program):
    return [call.operator for call in program.calls if "nki" in call.operator]


def test_a_program_has_each_kernel_of_its_calls_once(program):
    assert [kernel.title for kernel in program.kernels] == ["sum_and_difference"]
    assert operators(program) == ["trnsim_nki.0", "trnsim_nki.0"]
    assert again(program) == program
    assert with_kernels(program) == program


def test_a_program_that_was_read_computes_what_its_function_does(program):
    module = graph_module(again(program), "cpu")
    difference, double = module(X, X + 1)
    assert torch.equal(difference, X + 1)
    assert torch.equal(double, (3 * X + 1) * 2)


def test_a_kernel_without_results_is_called_for_none(program):
    first = replace(program.calls[0], result=None)
    silent = replace(program.kernels[0], results=())
    calling = replace(program, calls=[first], kernels=[silent], outputs=[0])
    assert torch.equal(graph_module(again(calling), "cpu")(X, X)[0], X)
    for wrong in ([None], program.calls[0].result):
        with pytest.raises(BadInput, match="with other results than it has"):
            graph_module(replace(calling, calls=[replace(first, result=wrong)]), "cpu")


def test_arguments_by_name_are_those_of_the_kernel(stored):
    traced = stored(lambda x, y: sum_and_difference(b=x, a=y)["difference"], (X, X + 1))[1]
    (difference,) = graph_module(again(with_kernels(traced)), "cpu")(X, 3 * X)
    assert torch.equal(difference, 2 * X)


def test_equal_kernels_are_one(program):
    (kernel,) = program.kernels
    assert saved_kernel(kernel) is saved_kernel(again(program).kernels[0])
    other = replace(kernel, may_spill=False)
    assert saved_kernel(other) is not saved_kernel(kernel)


def test_a_program_without_kernels_stays_as_it_is(scaled):
    assert with_kernels(scaled) == scaled


def test_a_kernel_that_another_process_had_is_named(program):
    strange = replace(
        program, calls=[replace(program.calls[0], operator="trnsim_nki.gone.default")]
    )
    assert with_kernels(strange) == strange
    with pytest.raises(BadInput, match=r"'trnsim_nki.gone.default', an operator of a library"):
        graph_module(strange, "cpu")


def call_of(program, **members):
    return replace(program, calls=[replace(program.calls[0], **members), *program.calls[1:]])


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"operator": "trnsim_nki.1"}, "trnsim_nki, a kernel 1, of 1"),
        ({"operator": "trnsim_nki.999999999"}, "trnsim_nki, a kernel 999999999, of 1"),
        ({"args": [{"%": 0}, 1.0]}, "a call of the kernel sum_and_difference with other than te"),
        ({"kwargs": {"x": {"%": 0}}}, "a call of the kernel sum_and_difference with other than te"),
        ({"result": None}, "a call of the kernel sum_and_difference with other results"),
        (
            {"result": [StoredTensor.of(X), StoredTensor.of(X[:2])]},
            "a call of the kernel sum_and_difference with other results",
        ),
    ],
)
def test_a_call_that_a_kernel_does_not_take_is_refused(program, members, text):
    with pytest.raises(BadInput, match=text):
        graph_module(again(call_of(program, **members)), "cpu")


def test_a_call_with_tensors_of_other_shapes_is_refused(program):
    inputs = {name: StoredTensor.of(X[:2]) for name in program.inputs}
    with pytest.raises(BadInput, match=r"sum_and_difference is given .*; legal: \[4, 8\] float32"):
        graph_module(replace(program, inputs=inputs), "cpu")


def test_an_instruction_that_the_chip_refuses_is_refused_when_the_program_is_built(program):
    (kernel,) = program.kernels
    (core,) = kernel.cores
    load, *others = core.instructions
    outside = replace(load.operands["dst"], offset_bytes=1 << 20)
    load = replace(load, operands=load.operands | {"dst": outside})
    core = replace(core, instructions=(load, *others))
    with pytest.raises(EmulatorError, match="reaches beyond its storage") as refused:
        graph_module(replace(program, kernels=[replace(kernel, cores=(core,))]), "cpu")
    assert refused.value.line.file == __file__
