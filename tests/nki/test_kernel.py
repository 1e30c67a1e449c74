"""`@nki.jit`: calls, launch grids, and arrays on the way in and out."""

import contextlib
import copy
import functools
import inspect
import sys
from types import ModuleType
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim.behaviours.chosen import pinned
from trnsim.errors import BadInput, IllegalInstruction, NotModelled
from trnsim.nki import Kernel, jit, simulate
from trnsim.nki import isa as nisa
from trnsim.nki import kernel as kernels
from trnsim.nki import language as nl
from trnsim.nki.notices import SimulatorOnlyWarning


@jit
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.multiply(nl.load(x), 2.0))
    return out


@pytest.fixture(autouse=True)
def _target(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")


def test_a_kernel_is_called_with_arrays_and_gives_arrays(random):
    x = random((4, 8))
    result = doubled(x)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, 2 * x)


@pytest.mark.parametrize(
    ("cores", "error", "use"),
    [
        (1, IllegalInstruction, lambda: nl.ndarray((256, 4), nl.float32, buffer=nl.sbuf)),
        (2, IllegalInstruction, lambda: nl.ndarray((256, 4), nl.float32, buffer=nl.sbuf)),
        (1, BadInput, lambda: nl.ndarray((4, 4), nl.float32, buffer=7)),
    ],
)
def test_a_refusal_that_a_kernel_handles_is_raised_at_its_end(cores, error, use, random):
    @jit
    def kernel(x, handles):
        with contextlib.suppress(handles):
            use()
        return doubled(x)

    with pytest.raises(error) as caught:
        trnsim.run(kernel[cores], random((4, 8)), Exception)
    assert caught.value.line.file == __file__
    assert caught.value.__notes__ == [
        "kernel handled this error and went on, as it could not on a chip"
    ]
    with pytest.raises(error) as unhandled:
        trnsim.run(kernel[cores], random((4, 8)), ZeroDivisionError)
    assert unhandled.value.reason == caught.value.reason


def test_a_kernel_may_look_for_names_and_handle_errors_of_its_own(random):
    @jit
    def kernel(x):
        try:
            nl.no_such_name  # noqa: B018  a name of another version
        except AttributeError:
            with contextlib.suppress(ZeroDivisionError):
                1 / 0  # noqa: B018  an error of Python
        return doubled(x)

    x = random((4, 8))
    np.testing.assert_array_equal(kernel(x), 2 * x)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.int32, np.uint8]
)
def test_outputs_have_the_dtype_of_the_tensor(dtype, random):
    x = np.abs(random((4, 8))).astype(dtype)
    result = doubled(x)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.float32), 2 * x.astype(np.float32))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e5m2", "float8_e4m3fn", "int32"])
def test_torch_tensors_give_torch_tensors(name, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    x = torch.arange(32).reshape(4, 8).to(torch.float32).to(getattr(torch, name))
    result = doubled(x)
    assert isinstance(result, torch.Tensor)
    assert result.dtype == x.dtype
    exact = doubled(x.to(torch.float32)).to(x.dtype)
    assert result.to(torch.float32).tolist() == exact.to(torch.float32).tolist()


def test_a_kernel_keeps_the_name_and_words_of_its_function():
    assert isinstance(doubled, Kernel)
    assert doubled.title == doubled.__name__ == "doubled"


def test_a_kernel_may_be_copied(random):
    x = random((4, 8))
    for made in (copy.copy(doubled), copy.deepcopy(doubled)):
        for _ in range(4):
            np.testing.assert_array_equal(made(x), 2 * x)


def test_jit_takes_options_and_takes_a_kernel_as_it_is():
    made = jit(mode="auto")(lambda x: x)
    assert isinstance(made, Kernel)
    assert jit(made) is made


def test_a_kernel_called_from_a_kernel_is_a_plain_function(random):
    @jit
    def inner(tile, factor):
        return nl.multiply(tile, factor)

    @jit
    def outer(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, inner(nl.load(x), 3.0))
        return out

    x = random((4, 8))
    np.testing.assert_array_equal(outer(x), np.float32(3) * x)


def test_other_arguments_and_defaults_arrive_as_they_are(random):
    @jit
    def kernel(x, factor, *, offset=1.0, names=()):
        assert names == ("a", "b")
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.multiply(nl.load(x), factor), offset))
        return out

    x = random((4, 8))
    np.testing.assert_allclose(kernel(x, 2, names=("a", "b")), 2 * x + 1, rtol=1e-6)


class Pair(NamedTuple):
    left: object
    right: object


def test_containers_are_entered_and_left_element_by_element(random):
    seen = []

    @jit
    def kernel(pair, parts, *rest, **options):
        seen.extend([type(pair), type(parts), len(rest), options["flag"]])
        return Pair(doubled(pair.left), 7), [doubled(parts["a"][0])], None, doubled(rest[0])

    x = random((4, 8))
    pair, parts, nothing, rest = kernel(Pair(x, 1), {"a": (x,)}, x, flag=True)
    assert seen == [Pair, dict, 1, True]
    assert isinstance(pair, Pair)
    assert (pair.right, nothing) == (7, None)
    for found in (pair.left, parts[0], rest):
        np.testing.assert_array_equal(found, 2 * x)


@jit
def zero_first_row(x):
    zeros = nl.zeros((1, x.shape[1]), dtype=x.dtype)
    nl.store(x[0:1], zeros)
    return x


def test_an_input_that_is_written_is_written_in_place(random):
    x = random((4, 8))
    result = zero_first_row(x)
    assert not x[0].any()
    assert x[1:].all()
    assert np.shares_memory(result, x)


def test_an_input_that_is_not_contiguous_is_written_in_place_too(random):
    x = random((8, 4)).T
    result = zero_first_row(x)
    assert not x[0].any()
    np.testing.assert_array_equal(result, x)


def test_an_input_that_is_read_only_is_copied(random):
    x = random((4, 8))
    x.flags.writeable = False
    result = zero_first_row(x)
    assert x[0].all()
    assert not result[0].any()


def test_a_number_of_no_dimensions_becomes_one_element():
    @jit
    def shape_of(x):
        return x.shape

    assert shape_of(np.array(3.0, np.float32)) == (1,)


def test_an_argument_that_the_core_cannot_hold_is_refused_by_its_name():
    for dtype in (np.float64, np.uint64, np.complex64):
        message = rf"argument `x` is {np.dtype(dtype)}, which no NeuronCore has"
        with pytest.raises(IllegalInstruction, match=message) as caught:
            doubled(np.zeros((4, 8), dtype))
        assert f"x.astype('{'int32' if dtype is np.uint64 else 'float32'}')" in caught.value.fix


def test_a_call_that_does_not_fit_the_signature_is_refused_with_it():
    with pytest.raises(BadInput, match=r"doubled\(x\) was called with 0 positional and \['y'\]"):
        doubled(y=1)


def test_a_decorated_method_is_not_bound_to_its_object(random):
    class Scaled:
        factor = 3.0

        def plain(self, x):
            tile = nl.load(x)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=self.factor)
            out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
            nisa.dma_copy(dst=out, src=tile)
            return out

        decorated = jit(plain)

    x, scaled = random((4, 8)), Scaled()
    message = r"plain\(self, x\) was called with 1 positional and no keyword arguments: missing"
    with pytest.raises(BadInput, match=message) as caught:
        scaled.decorated(x)
    assert "nki.jit(object.plain)(...)" in caught.value.fix
    np.testing.assert_array_equal(jit(scaled.plain)(x), x * np.float32(3))


BAD_OUTPUTS = {
    "is on chip": nl.load,
    "in private_hbm": lambda x: nl.ndarray(x.shape, x.dtype, buffer=nl.hbm),
    "some elements were never written": lambda x: nl.ndarray(x.shape, x.dtype, nl.shared_hbm),
}


@pytest.mark.parametrize("what", BAD_OUTPUTS)
def test_an_output_that_the_caller_cannot_have_is_refused(what, random):
    with pytest.raises(IllegalInstruction, match=f"the kernel returned .*{what}") as caught:
        jit(BAD_OUTPUTS[what])(random((4, 8)))
    assert caught.value.fix
    assert caught.value.source


@jit
def giving_back(x, what):
    on_chip = nl.load(x)
    private = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
    unwritten = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    return (
        {"on chip": on_chip, "private": private[0:1], "unwritten": [unwritten], "set": {1}}[what],
    )


@pytest.mark.parametrize("run", [giving_back, functools.partial(trnsim.run, giving_back)])
@pytest.mark.parametrize(
    ("what", "below"), [("set", 0), ("on chip", 2), ("private", 3), ("unwritten", 4)]
)
def test_a_refused_output_names_the_line_of_the_kernel_that_made_it(run, what, below, random):
    with pytest.raises(IllegalInstruction, match="the kernel returned") as caught:
        run(random((4, 8)), what)
    first = giving_back.__wrapped__.__code__.co_firstlineno
    assert caught.value.line == (__file__, first + below)


def test_awss_simulator_warns_of_an_unwritten_output_at_the_kernels_line(random):
    with pytest.warns(SimulatorOnlyWarning, match="some elements were never written") as caught:
        simulate(giving_back)(random((4, 8)), "unwritten")
    first = giving_back.__wrapped__.__code__.co_firstlineno
    assert (caught[0].filename, caught[0].lineno) == (__file__, first + 4)


def test_one_core_is_the_default_grid(random):
    x = random((4, 8))
    for grid in (1, (1,)):
        np.testing.assert_array_equal(doubled[grid](x), 2 * x)
    for grid in (3, (2, 2), "x", 0, True, 1.0, None, np.array([1, 2]), np.float64(1)):
        with pytest.raises(BadInput, match=r"doubled\[.*\]; legal: kernel\[1\] or kernel\[2\]"):
            doubled[grid]


def test_the_target_is_awss_environment_variable_or_the_default(monkeypatch, random):
    @jit
    def generation(x):
        del x
        return nisa.get_nc_version().name

    for value, expected in (("trn1", "gen2"), ("gen3", "gen3"), ("trn3", "gen4")):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", value)
        assert generation(random((1, 1))) == expected
        assert simulate(generation)(random((1, 1))) == expected
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE")
    assert generation(random((1, 1))) == "gen3"  # trn2
    assert simulate(generation)(random((1, 1))) == "gen4"  # trn3, as AWS's simulator
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    assert generation(random((1, 1))) == "gen4"


def test_simulate_takes_a_plain_function(random):
    x = random((4, 8))
    np.testing.assert_array_equal(simulate(doubled.__wrapped__)(x), 2 * x)
    np.testing.assert_array_equal(simulate(doubled)(x), 2 * x)


def test_without_values_an_output_is_none(random):
    assert trnsim.run(doubled, random((4, 8)), numerics=False).outputs is None


def test_an_error_in_the_kernels_own_python_is_not_touched():
    @jit
    def kernel(x):
        raise KeyError(x.shape)

    with pytest.raises(KeyError):
        kernel(np.zeros((4, 8), np.float32))


@pytest.mark.parametrize("value", [None, 3, "x.npy", (1, 2), 2.5])
def test_an_argument_that_is_no_array_is_named_where_the_kernel_reads_it_as_one(value):
    with pytest.raises(
        AttributeError, match=r"^doubled reads \.shape of its argument `x`, which is"
    ) as caught:
        trnsim.run(doubled, value)
    assert isinstance(caught.value, IllegalInstruction)
    assert caught.value.fix == "pass an array of numpy, torch or jax"


def test_an_attribute_of_no_argument_is_the_kernels_own_error():
    @jit
    def kernel(x, missing=None):
        del x
        found = missing
        return found.shape

    @jit
    def other(x, missing=None):
        del x
        return missing.shapes

    def length(tensor):
        return tensor.shape

    @jit
    def helped(x, missing=None):
        del x
        return length(None), missing

    @jit
    def nested(x, missing=None):
        holder = {"bias": missing}
        return holder["bias"].shape, x

    for wrong in (kernel, other, helped, nested):
        with pytest.raises(AttributeError, match=r"^'NoneType' object has no attribute"):
            wrong(np.zeros((4, 8), np.float32), None)


def test_an_argument_is_named_where_an_inner_function_uses_it_too():
    @jit
    def kernel(x):
        def rows():
            return x.shape[0]

        return x.reshape((rows(), -1))

    with pytest.raises(AttributeError, match=r"^kernel reads \.reshape of its argument `x`, which"):
        trnsim.run(kernel, None)


def test_the_options_seen_in_the_wild_are_kept_and_change_nothing(random):
    options = {"mode": "trace", "debug_kernel": True, "experimental_flags": "x", "enable_cache": 0}
    made = jit(**options)(doubled.__wrapped__)
    assert made.options == made[1].options == options
    x = random((4, 8))
    np.testing.assert_array_equal(made(x), 2 * x)


def test_inspect_finds_the_signature_and_the_source():
    assert str(inspect.signature(doubled)) == "(x)"
    assert "nl.multiply(nl.load(x), 2.0)" in inspect.getsource(doubled)


def test_a_plain_call_is_launched_on_the_configured_cores(monkeypatch):
    @jit
    def cores(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            nl.store(out, nl.full(x.shape, nl.num_programs(), dtype=x.dtype))
        return out

    x = np.zeros((1, 2), np.float32)
    for configured, count in (("", 1), ("1", 1), ("2", 2)):
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", configured)
        np.testing.assert_array_equal(cores(x), [[count] * 2])
    with pytest.raises(BadInput, match="cores is launched on 1 core, but NEURON_LOGICAL_NC_CONF"):
        cores[1](x)
    with pinned("0.6", "--nki"), pytest.raises(BadInput, match="cores is launched on 1 core,"):
        cores(x)
    np.testing.assert_array_equal(simulate(cores)(x), [[1, 1]])


@pytest.mark.parametrize("name", ["benchmark", "profile", "simulate_kernel", "baremetal", "trace"])
def test_an_entry_point_of_nki_0_1_says_what_answers_now(name):
    with pytest.raises(NotModelled, match=rf"nki\.{name} belongs to NKI 0\.1") as caught:
        getattr(trnsim.nki, name)
    assert caught.value.fix
    with pytest.raises(AttributeError):
        _ = trnsim.nki.nonsense


def test_a_partial_function_and_an_object_are_kernels_by_their_names():
    class Same:
        def __call__(self, x):
            return x

    def second(_, x):
        return x

    x = np.ones((2, 2), np.float32)
    for function, title in ((functools.partial(second, 3), "second"), (Same(), "Same")):
        run = trnsim.run(jit(function), x)
        assert run.title == title
        np.testing.assert_array_equal(run.outputs, x)


class Given:
    """An array of a framework."""

    shape = ()


@jit
def shown(x, **kept):
    """A kernel that says what it was given."""
    return f"{type(x).__name__}, {sorted(kept)}"


@pytest.mark.parametrize("args", [(Given(),), ((1, {"x": (Given(),)}),)])
def test_a_frameworks_launcher_is_there_once_the_program_has_imported_it(monkeypatch, args):
    """Before a framework asked for any device, since a traced function may call a kernel first."""
    room = ModuleType("room_of_the_framework")
    room.launch_kernels = lambda: kernels.launchers.append(lambda *_: "launched")
    monkeypatch.setitem(sys.modules, room.__name__, room)
    monkeypatch.setattr(kernels, "launchers", [])
    monkeypatch.setattr(kernels, "_unloaded_launchers", {"some_framework": room.__name__})
    shown(*args)
    assert not kernels.launchers
    monkeypatch.setitem(sys.modules, "some_framework", ModuleType("some_framework"))
    ones = np.ones((2, 2), np.float32)
    assert doubled(ones).sum() == 8
    assert shown(ones, number=np.int8(1), dtype=ml_dtypes.bfloat16, text=None) != "launched"
    assert not kernels.launchers  # what is numpy's needs none
    assert [shown(*args), shown(*args)] == ["launched"] * 2
    assert len(kernels.launchers) == 1


@pytest.mark.parametrize("value", ["kernel", 3])
def test_only_a_function_becomes_a_kernel(value):
    for make in (jit, simulate, jit(compile_config=None)):
        with pytest.raises(BadInput, match=f"nki.jit of {type(value).__name__}; legal: a function"):
            make(value)
    with pytest.raises(BadInput, match=r"nki\.simulate without a kernel; legal: a kernel"):
        simulate(None)
