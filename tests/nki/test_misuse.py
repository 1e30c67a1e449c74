"""What people do with kernels by mistake: each is refused at their own line, and says how."""

import inspect
import re

import ml_dtypes
import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.dtypes import BY_NAME
from trnsim.errors import BadInput, EmulatorError, IllegalInstruction, InternalError
from trnsim.isa import Instruction
from trnsim.nki import collectives as ncc
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.entry import simulate

ONE = np.arange(16, dtype=np.float32).reshape(4, 4)
kept = []


def refused(function, *arguments, **keywords):
    """The refusal, which names a line of this file."""
    with pytest.raises(EmulatorError) as caught:
        function(*arguments, **keywords)
    assert not isinstance(caught.value, InternalError)
    assert caught.value.line is not None
    assert caught.value.line.file == __file__
    return caught.value


@nki.jit
def keeping(a):
    """A copy of a; its tensors in SBUF, at an address, and in HBM outlive it."""
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    placed = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, address=(0, 64))
    nisa.tensor_copy(dst=placed, src=tile)
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    kept[:] = [tile, placed, a, out]
    return out


# Tiles of an earlier run


@nki.jit
def reading(a, other=None, which=None):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=kept[which] if other is None else other)
    return out


@nki.jit
def writing(a, which):
    nisa.dma_copy(dst=kept[which], src=a)
    return a


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("kernel", [reading, writing])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_tile_that_another_run_left_behind_is_refused(kernel, which, cores):
    keeping(ONE.copy())
    error = refused(kernel[cores], ONE.copy(), which=which)
    assert "belongs to an earlier run of a kernel (allocated at " in error.reason
    assert "pass the array that comes back" in error.fix


@pytest.mark.parametrize("which", range(4))
def test_a_tile_of_another_run_is_no_argument(which):
    keeping(ONE.copy())
    for given in (kept[which], (kept[which],), {"x": kept[which]}):
        error = refused(reading, ONE, given)
        assert "argument `other" in error.reason
        assert "a tile of another run of a kernel" in error.reason


def test_what_a_run_returned_is_an_argument_of_the_next():
    np.testing.assert_array_equal(reading(ONE, keeping(ONE)), ONE)


def test_tiles_pass_between_kernels_of_one_run():
    @nki.jit
    def outer(a):
        return reading(a, keeping(a))

    np.testing.assert_array_equal(outer(ONE), ONE)


# What a kernel returns


@nki.jit
def giving(a, what):
    out = keeping(a)
    made = {
        "dict": {"x": out, "n": 3, "deep": {"y": [out, None]}},
        "set": {3},
        "generator": (x for x in [out]),
        "map": map(id, [out]),
    }
    return made[what]


@pytest.mark.parametrize("times", range(4))
def test_a_dict_comes_back_as_a_dict_of_arrays(times):
    found = trnsim.run(giving, ONE + times, "dict").outputs
    assert list(found) == ["x", "n", "deep"]
    assert found["n"] == 3
    np.testing.assert_array_equal(found["x"], ONE + times)
    np.testing.assert_array_equal(found["deep"]["y"][0], ONE + times)
    assert found["deep"]["y"][1] is None


@pytest.mark.parametrize("what", ["set", "generator", "map"])
def test_what_is_no_result_is_refused(what):
    error = refused(giving, ONE, what)
    assert error.reason == f"the kernel returned a {what}"
    assert error.fix == "return tensors, or a tuple, list or dict"


# Functions that run nothing


def yields(a):
    yield a


async def waits(a):
    return a


async def both(a):
    yield a


@pytest.mark.parametrize("function", [yields, waits, both])
@pytest.mark.parametrize("make", [nki.jit, nki.jit(mode="auto"), simulate])
def test_a_generator_or_coroutine_is_no_kernel(function, make):
    error = refused(make, function)
    assert error.line.line == function.__code__.co_firstlineno
    assert f"the kernel {function.__name__} is a " in error.reason


# Arrays that are more than numbers


@nki.jit
def same(a):
    return a


@pytest.mark.parametrize(
    ("array", "fix"),
    [
        (np.ma.masked_array(ONE, ONE > 3), "fill it: array.filled(0.0)"),
        (np.ma.masked_array(ONE), "fill it: array.filled(0.0)"),
        (ONE.view(np.matrix), "pass numpy.asarray(matrix)"),
        (np.array([[1, None]]), "give an array of numbers"),
        (np.zeros((2, 2), [("a", "f4")]), "give an array of numbers"),
        (np.rec.array(np.zeros((2, 2), [("a", "f4")])), "give an array of numbers"),
        (np.zeros((2, 2), "M8[s]"), "give an array of numbers"),
        (np.zeros((2, 2), "m8[s]"), "give an array of numbers"),
        (np.full((2, 2), "text"), "give an array of numbers"),
        (np.full((2, 2), b"text"), "give an array of numbers"),
        (ONE.astype(complex), "a.astype('float32')"),
        (ONE.astype(">f4"), "a.astype('float32')"),
        (ONE.astype(">i2"), "a.astype('int16')"),
        (ONE.astype(ml_dtypes.int4), "a.astype('int8')"),
        (ONE.astype(ml_dtypes.uint2), "a.astype('uint8')"),
        (ONE.astype(ml_dtypes.float8_e4m3fnuz), "a.astype('float32')"),
    ],
)
def test_arrays_that_are_more_than_numbers_are_refused(array, fix):
    for given in (array, (array,)):
        assert fix in refused(same, given).fix.replace("a[0]", "a")


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_refused(layout):
    torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    with pytest.warns() if layout == "to_sparse_csr" else pytest.MonkeyPatch.context():
        tensor = getattr(torch.ones(4, 4), layout)()
    assert refused(same, tensor).fix == "pass tensor.to_dense()"


# Outside a kernel


@pytest.mark.parametrize("opcode", [o for o, i in Instruction.registry.items() if i.is_in_nki_isa])
def test_an_instruction_outside_a_kernel_says_where_it_belongs(opcode):
    function = getattr(nisa, opcode)
    parameters = inspect.signature(function).parameters.values()
    error = refused(function, **{p.name: None for p in parameters if p.default is p.empty})
    assert "this is outside a kernel" in error.reason
    assert "decorated with @nki.jit" in error.fix


ABOUT_A_TILE = {"broadcast_to", "is_hbm", "is_on_chip", "is_psum", "is_sbuf", "expand_dims"}
"""They look at a tile that there is, and issue nothing."""
ABOUT_NUMBERS = {"ds", "par_dim"}
LOOPS = {"affine_range", "dynamic_range", "sequential_range", "static_range", "no_reorder"}
LOOPS |= {"fori_loop", "while_loop"}
"""Python's own loops until something is issued within."""
OPERATORS = {"average", "bypass", "prelu", "divide", "fmod", "mod"}
"""Names of operators that cannot be called, or that no engine has."""
GRIDS = {"tiles", "blocks", "alloc_tiles", "alloc_blocks"}
"""All arguments have names: tests/nki/language/grids."""
FORMATS = set(BY_NAME)
"""No function: a call is refused everywhere."""
NO_ISSUE = FORMATS | ABOUT_A_TILE | ABOUT_NUMBERS | LOOPS | OPERATORS | GRIDS


def functions():
    found = {name: getattr(nl, name) for name in dir(nl) if not name.startswith("_")}
    return sorted(n for n, f in found.items() if callable(f) and not inspect.isclass(f))


@pytest.mark.parametrize("name", functions())
def test_a_function_of_the_language_outside_a_kernel_says_where_it_belongs(name):
    keeping(ONE.copy())
    tile = kept[0]
    tries = [
        (), (tile,), (tile, tile), (tile, 1), (tile, tile, tile), (tile, tile, True),
        (4,), ((4, 4),), ((4, 4), nl.float32), ((4, 4), 0.0, nl.float32), (ONE,), (ONE, nl.float32),
        (tile, tile, 1, 4), (tile, (1,)), (4, tile), (0, 4), (tile, 1, 2),
    ]  # fmt: skip
    errors = [attempt(name, arguments) for arguments in tries]
    assert not any(isinstance(error, InternalError) for error in errors)
    assert all(error.line.file == __file__ for error in errors if error is not None)
    said = any("outside a kernel" in str(error) for error in errors)
    assert said == (name not in NO_ISSUE)


def attempt(name, arguments):
    """The refusal of a call; None where it works, or Python itself refuses it."""
    try:
        getattr(nl, name)(*arguments)
    except EmulatorError as error:
        return error
    except TypeError as error:
        if not re.search(r"\(\) (missing|takes|got)", str(error)):
            raise
    return None


def _refusal(use):
    @nki.jit
    def kernel(x):
        use(nl.load(x))
        return x

    with pytest.raises(IllegalInstruction) as caught:
        trnsim.run(kernel, np.ones((4, 8), np.float32))
    return caught.value


_ARRAY = np.ones((4, 8), np.float32)


@pytest.mark.parametrize(
    "use",
    [
        lambda _: nl.load(_ARRAY),
        lambda t: nl.add(t, _ARRAY),
        lambda t: nisa.tensor_copy(t, _ARRAY),
    ],
)
def test_an_array_of_the_host_inside_a_kernel_is_told_to_be_an_argument(use):
    assert "argument of the kernel" in _refusal(use).fix


def test_a_register_as_a_bound_is_told_of_ds_and_a_fraction_of_whole_division():
    assert "nl.ds(register" in _refusal(lambda t: t[:, nisa.register_alloc(1) : 3]).fix
    fix = _refusal(lambda _: nl.ndarray((4, 8 / 2), nl.float32)).fix
    assert "n // 2" in fix
    assert "register" not in fix


def test_numbers_that_python_cannot_handle_are_refused_with_what_is_legal():
    assert "a step other than 0" in str(_refusal(lambda _: list(nl.affine_range(0, 3, 0))))
    for call in (
        lambda t: nisa.memset(t, 10**400),
        lambda t: nisa.tensor_scalar(t, t, nl.multiply, -(10**400)),
        lambda t: nisa.activation(t, nl.exp, t, scale=10**400),
        lambda t: nisa.nc_match_replace8(t, t, nl.ones((t.shape[0], 8), t.dtype), 10**5000),
    ):
        assert "a number of float64" in str(_refusal(call))


def test_a_grid_of_text_is_shown_as_text():
    @nki.jit
    def kernel(x):
        return x

    with pytest.raises(BadInput, match=r"kernel\['2'\]; legal: kernel\[1\]"):
        kernel["2"]


OBJECTS = {
    "nl.add": ("bar", "no attribute", "nl.add alone"),
    "nl.float32": ("itmsize", "", "nl.float32.itemsize"),
    "nl.tile_size": ("pmaxx", "", "nl.tile_size.pmax"),
    "nl.sbuf": ("foo", "no attribute", "nl.MemoryRegion.sbuf alone"),
    "ncc.ReplicaGroup([[0]])": ("group", "groups, from_part", "ncc.ReplicaGroup.groups"),
    "nisa.memset(tile, 0.0)": ("depend_on", "depends_on, name", "nisa.NkiInstruction.depends_on"),
}
"""An object -> an attribute that it lacks, the beginning of those it has, and what to write."""
NAMES = {"nki": nki, "nl": nl, "nisa": nisa, "ncc": ncc}


@pytest.mark.parametrize("written", OBJECTS)
def test_an_attribute_that_is_not_there_is_refused_with_what_is(written):
    name, legal, instead = OBJECTS[written]

    @nki.jit
    def kernel(a):
        tile = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
        value = eval(written, NAMES, {"tile": tile})  # noqa: S307  the test's own text
        getattr(value, name)
        return a

    error = refused(trnsim.run, kernel, ONE, nki="0.7")
    assert isinstance(error, AttributeError)
    assert f".{name}: there is none; legal: {legal}" in error.reason
    assert error.fix == f"write {instead}"


CALLS = {
    "nisa.NkiInstruction()": "copy = nisa.tensor_copy(dst, src)",
    "nisa.NkiScalar(1, dtype=nl.int32)": "nisa.scalar_load(tensor)",
    "ncc.ReplicaGroup()": "call it as ncc.ReplicaGroup(groups)",
    "ncc.ReplicaGroup(group=[[0]])": "perhaps with groups",
    "ncc.ReplicaGroup.from_partition_op(8)": "from_partition_op(world_size, op, operand)",
    "nki.compiler.CompileConfig(*7 * [None])": "CompileConfig(address_rotation=",
    "nki.compiler.SpecializationConfig(1, 2)": "SpecializationConfig(allow_nested_config",
    "nki.compiler.CompileConfig(True)": "pass AddressRotation.DISABLE",
    "nl.ds(1)": "call it as nl.ds(start, size)",
    "nl.static_range()": "call it as nl.static_range(start, stop=None, step=1)",
    "nl.sequential_range()": "call it as nl.sequential_range(start, stop=None, step=1)",
    "nl.affine_range()": "call it as nl.affine_range(start, stop=None, step=1)",
    "nl.static_range(1, 2, 3, 4)": "call it as nl.static_range(start, stop=None, step=1)",
    "nl.static_range(0.5)": "pass integers",
    "nl.sequential_range('4')": "pass integers",
    "nl.static_range(0, 4, 0)": "leave the step out",
    "nl.affine_range(0, 4, 0)": "leave the step out",
    "nl.program_ndim(1)": "call it as nl.program_ndim()",
    "nisa.get_nc_version(3)": "call it as nisa.get_nc_version()",
    "nki.jit(1, 2)": "call it as nki.jit(fn=None",
    "nki.simulate()": "call it as nki.simulate(kernel)",
}


@pytest.mark.parametrize("written", CALLS)
def test_a_call_that_does_not_fit_is_refused_with_the_call_to_write(written):
    @nki.jit
    def kernel(a):
        eval(written, NAMES)  # noqa: S307  the test's own text
        return a

    error = refused(trnsim.run, kernel, ONE, nki="0.7")
    assert CALLS[written] in error.fix
    assert "legal: " in error.reason
    assert error.source


def test_ranges_of_the_language_are_those_of_python():
    for function in (nl.static_range, nl.sequential_range):
        assert function(3) == range(3)
        assert function(1, 9, 2) == range(1, 9, 2)
        assert function(np.int32(5), 0, -1) == range(5, 0, -1)
