"""Tests of the language of kernels by version of NKI: both sides of each row's boundary."""

import builtins
import importlib.util
import re
import sys

import neuronxcc.nki
import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.behaviours import VERSIONS
from trnsim.behaviours.chosen import VERSION_VARIABLE, pinned
from trnsim.errors import BadInput, IllegalInstruction
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.notices import OlderFormWarning, SimulatorOnlyWarning

ARRAY = np.arange(12, dtype=np.float32).reshape(3, 4)
LATER = [name for name in VERSIONS if name != "0.2"]
REFUSING = ["0.3", "0.4", "0.5"]
FREE = ["0.2", "0.6", "0.7"]


def copied(x, buffer=nl.shared_hbm, on_chip=nl.sbuf):
    tile = nl.ndarray(x.shape, x.dtype, on_chip)
    out = nl.ndarray(x.shape, x.dtype, buffer)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


def run(kernel, *arguments, version):
    return trnsim.run(kernel, ARRAY, *arguments, nki=version).outputs


def refused(kernel, *arguments, version, match, error=IllegalInstruction):
    with pytest.raises(error, match=match) as caught:
        run(kernel, *arguments, version=version)
    assert caught.value.fix
    assert caught.value.source
    assert caught.value.line.file == __file__


@pytest.mark.parametrize("buffer", [nl.hbm, nl.private_hbm])
def test_an_output_may_be_in_any_hbm_in_0_2(buffer):
    @nki.jit
    def kernel(x):
        return copied(x, buffer)

    assert (run(kernel, version="0.2") == ARRAY).all()
    for version in LATER:
        refused(kernel, version=version, match=f"in private_hbm under NKI {version}, where outputs")


@pytest.mark.parametrize("name", ["hbm", "shared_hbm", "private_hbm"])
def test_a_buffer_may_be_named_by_a_string_in_0_2(name):
    @nki.jit
    def kernel(x):
        return copied(x, name, "sbuf")

    assert (run(kernel, version="0.2") == ARRAY).all()
    refused(kernel, version="0.3", match="buffer='sbuf' under NKI 0.3, where a buffer is an object")


def test_a_string_that_names_no_buffer_is_refused_in_every_version():
    @nki.jit
    def kernel(x):
        return copied(x, "dram")

    refused(kernel, version="0.2", match="buffer='dram'; legal: nl.sbuf", error=BadInput)


def test_an_argument_may_be_a_list_in_0_2():
    @nki.jit
    def kernel(x, axes):
        assert axes == [0, 1]
        return copied(x)

    assert (run(kernel, [0, 1], version="0.2") == ARRAY).all()
    for version in LATER:
        with pytest.raises(IllegalInstruction, match="argument `axes` is a list under NKI"):
            run(kernel, [0, 1], version=version)
    with pinned("0.3", "a test"), pytest.warns(SimulatorOnlyWarning, match="`axes` is a list"):
        nki.simulate(kernel)(ARRAY, [0, 1])


@pytest.mark.parametrize("default", [[0, 1], ((0, [1]),), {"axes": [0]}], ids=str)
def test_a_default_may_be_a_list_in_0_2(default):
    """nki/migration, Replace list kernel arguments: `stride=[1, 1]` becomes `stride=(1, 1)`."""

    @nki.jit
    def kernel(x, axes=default):
        del axes
        return copied(x)

    assert (run(kernel, version="0.2") == ARRAY).all()
    for version in LATER:
        refused(kernel, version=version, match=f"default of `axes` has a list under NKI {version}")
        assert (run(kernel, (0, 1), version=version) == ARRAY).all()
    with pinned("0.3", "a test"), pytest.warns(SimulatorOnlyWarning, match="default of `axes`"):
        nki.simulate(kernel)(ARRAY)


@nki.jit
def with_separator(x, *, flag=True):
    del flag
    return copied(x)


def test_a_separator_is_refused_from_0_3_to_0_5():
    for version in FREE:
        assert (run(with_separator, version=version) == ARRAY).all()
    for version in REFUSING:
        refused(with_separator, version=version, match=r"`\*` before parameter `flag` under NKI")


@nki.jit
def with_identity(x, flag=True):
    assert flag is True
    return copied(x)


@nki.jit
def with_none(x, other=None):
    assert other is None
    return copied(x)


def test_identity_is_refused_from_0_3_to_0_5_but_of_none():
    for version in FREE:
        assert (run(with_identity, version=version) == ARRAY).all()
    for version in REFUSING:
        refused(with_identity, version=version, match="`is` with another operand than None")
        assert (run(with_none, version=version) == ARRAY).all()
    with pinned("0.4", "a test"), pytest.warns(SimulatorOnlyWarning, match="`is` with another"):
        nki.simulate(with_identity)(ARRAY)


def test_platform_target_names_the_chip_in_0_2():
    @nki.jit(platform_target="trn3")
    def kernel(x):
        assert nisa.get_nc_version() == nisa.nc_version.gen4
        return copied(x)

    with pinned("0.2", "a test"):
        assert (kernel(ARRAY) == ARRAY).all()
    refused(kernel, version="0.3", match=r"nki.jit\(platform_target='trn3'\) under NKI 0.3")
    with pinned("0.3", "a test"), pytest.raises(IllegalInstruction, match="platform_target"):
        nki.jit(platform_target="trn3")


def test_mode_is_ignored_from_0_3_on():
    @nki.jit(mode="jax")
    def kernel(x):
        return copied(x)

    assert (run(kernel, version="0.2") == ARRAY).all()
    with pytest.warns(OlderFormWarning, match=r"nki.jit\(mode=\) is ignored") as caught:
        run(kernel, version="0.3")
    assert caught[0].filename == __file__


OLD_NAMESPACE = """
import nki
import nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out
"""


@pytest.fixture
def old_namespace(tmp_path, monkeypatch):
    """The module of a kernel that uses neuronxcc.nki."""
    monkeypatch.delitem(sys.modules, "neuronxcc.nki.language", raising=False)
    path = tmp_path / "old_namespace.py"
    path.write_text(OLD_NAMESPACE)
    spec = importlib.util.spec_from_file_location("old_namespace", path)
    module = importlib.util.module_from_spec(spec)
    yield spec.loader.exec_module, module
    sys.modules.pop("neuronxcc.nki.language", None)
    vars(neuronxcc.nki).pop("language", None)


def test_neuronxcc_in_a_kernel_warns_in_0_3_and_is_an_error_from_0_4_on(old_namespace, monkeypatch):
    load, module = old_namespace
    monkeypatch.setenv(VERSION_VARIABLE, "0.2")
    load(module)
    assert (run(module.kernel, version="0.2") == ARRAY).all()
    with pytest.warns(OlderFormWarning, match="are deprecated"):
        run(module.kernel, version="0.3")
    for version in ("0.4", "0.7"):
        with pytest.raises(IllegalInstruction, match="are a compile error") as caught:
            run(module.kernel, version=version)
        assert caught.value.line.file.endswith("old_namespace.py")


def test_neuronxcc_is_imported_where_a_version_that_has_it_is_chosen(old_namespace, monkeypatch):
    load, module = old_namespace
    monkeypatch.setenv(VERSION_VARIABLE, "0.4")
    with pytest.raises(ImportError, match=r"neuronxcc.nki.language .*in NKI 0\.2 to 0\.3"):
        load(module)


def test_neuronxcc_has_static_cast_for_arrays_of_the_host(old_namespace, monkeypatch):
    load, module = old_namespace
    monkeypatch.setenv(VERSION_VARIABLE, "0.2")
    load(module)
    assert module.nl.static_cast(ARRAY, nl.int32).dtype == np.int32
    assert module.nl.ndarray is nl.ndarray
    assert {"static_cast", "ndarray"} <= set(dir(module.nl))


@nki.jit
def with_builtin_buffers(x):
    tile = sbuf.view(dtype=x.dtype, shape=x.shape)  # noqa: F821  the compiler knows it
    nisa.dma_copy(tile, x)
    out = hbm.view("float32", x.shape)  # noqa: F821  likewise
    nisa.dma_copy(out, tile)
    return out


def test_buffers_are_builtins_of_kernels_in_0_2():
    assert (run(with_builtin_buffers, version="0.2") == ARRAY).all()
    assert trnsim.run(with_builtin_buffers, ARRAY).program.core.nki.name == "0.2"
    assert not hasattr(builtins, "sbuf")
    refused(with_builtin_buffers, version="0.3", match=r"sbuf.view\(\) under NKI 0.3")


def test_an_affine_range_between_brackets_is_a_slice_before_0_7():
    @nki.jit
    def kernel(x):
        tile = copied(x[nl.affine_range(1, 3), nl.affine_range(0, 4, 2)])
        assert tile.shape == (2, 2)
        return tile

    for version in ("0.2", "0.4", "0.6"):
        assert (run(kernel, version=version) == ARRAY[1:3, ::2]).all()
    refused(kernel, version="0.7", match="nl.affine_range between brackets under NKI 0.7")


def test_wide_elements_of_the_simulator_do_not_overlap_at_addresses():
    @nki.jit
    def kernel(x):
        first, second = (
            nl.ndarray(x.shape, nl.bfloat16, nl.sbuf, address=(0, 8 * place)) for place in range(2)
        )
        nisa.dma_copy(first, x)
        nisa.memset(second, 0.0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, first)
        return out

    with pinned("0.3", "a test"):
        assert (nki.simulate(kernel)(ARRAY) == ARRAY).all()


def test_a_buffer_of_nl_beside_a_view_is_no_builtin_buffer():
    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        out = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile.view(nl.int32))
        return out

    ones = np.ones((2, 2), np.float32)
    for version in ("0.2", "0.6", "0.7"):
        assert (trnsim.run(kernel, ones, nki=version).outputs == ones.view(np.int32)).all()


OPERATORS = ("add", "exp", "copy", "sum", "floor", "rms_norm")


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_functions_of_tiles_from_0_3_on(name):
    function = getattr(nl, name)  # imported before the version is chosen

    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x)
        operands = {"add": (tile,), "sum": (1,), "rms_norm": (tile, 1, 4)}.get(name, ())
        result = function(tile, *operands)
        out = nl.ndarray(result.shape, result.dtype, nl.shared_hbm)
        nisa.dma_copy(out, result)
        return out

    refused(kernel, version="0.2", match=rf"a call of nl.{name} under NKI 0.2, where operators of")
    for version in LATER:
        assert len(run(kernel, version=version)) == len(ARRAY)


def test_an_operator_stays_a_name_for_an_instruction_in_0_2():
    @nki.jit
    def kernel(x):
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.activation(tile, op=nl.copy, data=tile, scale=2.0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert (run(kernel, version="0.2") == 2 * ARRAY).all()


COMPUTE = {
    "+": lambda i: i + 1,
    "-": lambda i: 3 - i,
    "*": lambda i: i * 1,
    "//": lambda i: i // 1,
    "%": lambda i: i % 2,
}


@pytest.mark.parametrize("is_bound_register", [False, True])
@pytest.mark.parametrize("sign", COMPUTE)
def test_the_variable_of_fori_loop_computes_from_0_7_on(sign, is_bound_register):
    """nki/migration, Rules for migrated loops: "Do not ... perform Python arithmetic on it"."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, x)

        def body(i):
            COMPUTE[sign](i)

        nl.fori_loop(0, nisa.register_alloc(2) if is_bound_register else 2, body)
        return out

    match = f"`{re.escape(sign)}` with the variable of nl.fori_loop under NKI 0.6"
    refused(kernel, version="0.6", match=match)
    with pytest.raises(IllegalInstruction) as caught:
        run(kernel, version="0.6")
    assert "scalar_offset=i) of a tensor with a dimension for i" in caught.value.fix
    if is_bound_register or sign not in {"//", "%"}:  # scalars have neither
        assert (run(kernel, version="0.7") == ARRAY).all()


def test_the_variable_of_fori_loop_is_negated_from_0_7_on():
    @nki.jit
    def kernel(x):
        nl.fori_loop(0, 2, lambda i: (-i, None)[1])
        return x

    refused(kernel, version="0.6", match="`-` with the variable of nl.fori_loop under NKI 0.6")
    assert (run(kernel, version="0.7") == ARRAY).all()


@pytest.mark.parametrize("version", ["0.6", "0.7"])
def test_the_variable_of_fori_loop_is_read_in_each_version(version):
    """nki/migration, Rules for migrated loops: "Read it as a runtime offset"."""

    @nki.jit
    def kernel(x):
        tile = nl.zeros((3, 4), nl.float32)

        def body(i):
            column = {"scalar_offset": i, "indirect_dim": 1}
            nisa.dma_copy(
                tile.ap([[4, 3], [1, 1]], 1, **column), x.ap([[4, 3], [1, 1]], 1, **column)
            )

        nl.fori_loop(0, 2, body)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert (run(kernel, version=version) == ARRAY * [0, 1, 1, 0]).all()


def test_the_sum_of_a_loop_variable_is_an_offset_in_0_7():
    @nki.jit
    def kernel(x):
        tile = nl.zeros((3, 4), nl.float32)

        def body(i):
            column = ([[4, 3], [1, 1]], 0, i + 1)
            nisa.dma_copy(
                tile.ap(*column[:2], scalar_offset=column[2], indirect_dim=1),
                x.ap(*column[:2], scalar_offset=column[2], indirect_dim=1),
            )

        nl.fori_loop(0, 2, body)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    assert (run(kernel, version="0.7") == ARRAY * [0, 1, 1, 0]).all()


@pytest.mark.filterwarnings("ignore::trnsim.nki.notices.DynamicLoopWarning")
def test_the_variable_of_dynamic_range_is_an_offset_from_0_4_to_0_6():
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.memset(tile, 0.0)
        for i in nl.dynamic_range(0, 4, 2):
            source = x.ap([[4, 3], [1, 1]], scalar_offset=i, indirect_dim=1)
            nisa.dma_copy(tile.ap([[4, 3], [1, 1]], scalar_offset=i, indirect_dim=1), source)
        nisa.dma_copy(out, tile)
        return out

    for version in ("0.2", "0.3"):
        refused(kernel, version=version, match="the variable of nl.dynamic_range as an offset")
    for version in ("0.4", "0.5", "0.6"):
        assert (run(kernel, version=version) == ARRAY * [1, 0, 1, 0]).all()
