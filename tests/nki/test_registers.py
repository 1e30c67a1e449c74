"""Python's own uses of a register, on both sides of each version that changed them."""

import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction, UndefinedBehavior, Unspecified
from trnsim.isa import VirtualRegister
from trnsim.isa.control.register import FrozenRegister
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl
from trnsim.nki.notices import DynamicLoopWarning

X = np.ones((4, 8), np.float32)


def whiled(register):
    while register:
        register = VirtualRegister(0)


USES = {
    "int": int,
    "range": range,
    "index": [5, 6].__getitem__,
    "equals": lambda register: register == 1,
    "while": whiled,
    "if": lambda register: 1 if register else 2,
    "not": lambda register: not register,
}


def run(use, **options):
    """A kernel that applies `use` to a register of 1."""

    @jit
    def kernel(x):
        use(nisa.register_alloc(1))
        return x

    return trnsim.run(kernel, X, **options)


@pytest.mark.parametrize("use", USES)
def test_a_register_has_no_value_for_python_from_0_7_on(use):
    with pytest.raises(
        TypeError, match=r"a register as a .* under NKI 0\.7, where a reg"
    ) as caught:
        run(USES[use], nki="0.7")
    assert isinstance(caught.value, IllegalInstruction)
    assert "legal: in NKI 0.2 to 0.6" in caught.value.reason
    replacement = (
        "nl.while_loop(register, body)" if use in {"while", "if", "not"} else "nl.fori_loop"
    )
    assert replacement in caught.value.fix
    assert caught.value.line is not None


@pytest.mark.parametrize("use", USES)
def test_nki_0_6_warns_and_goes_on(use):
    with pytest.warns(DynamicLoopWarning, match="deprecated in NKI 0.6, refused from NKI 0.7 on"):
        run(USES[use], nki="0.6")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("version", ["0.2", "0.5"])
def test_before_nki_0_6_nobody_is_told(use, version):
    run(USES[use], nki=version)


def test_outside_kernels_a_register_reads_unless_a_version_was_chosen(monkeypatch):
    assert int(VirtualRegister(7)) == 7
    monkeypatch.setenv("TRNSIM_NKI", "0.7")
    with pytest.raises(TypeError, match="a register as a number"):
        int(VirtualRegister(7))


# nl.dynamic_range


def looped(body):
    """The use of nl.dynamic_range(2) with a body, in a kernel."""

    def use(_):
        for i in nl.dynamic_range(2):
            body(i)

    return use


def test_dynamic_range_is_refused_from_0_7_on_and_warned_of_in_0_6():
    with pytest.raises(
        AttributeError, match=r"nl.dynamic_range exists in NKI 0.2 to 0.6"
    ) as caught:
        run(looped(print), nki="0.7")
    assert "nl.fori_loop(lower, upper, body)" in caught.value.fix
    with pytest.warns(DynamicLoopWarning, match=r"nl\.dynamic_range: deprecated in NKI 0.6"):
        run(looped(lambda i: i), nki="0.6")
    run(looped(lambda i: i), nki="0.5")


@pytest.mark.parametrize(
    "use",
    [
        lambda tile, i: tile[:, nl.ds(i, 1)],
        lambda tile, i: tile[:, nl.ds(i + 1, 1)],
        lambda tile, i: tile.ap([[8, 4], [1, 1]], scalar_offset=2 * i, indirect_dim=1),
    ],
)
def test_the_variable_of_dynamic_range_is_an_offset_from_0_4_on(use):
    def body(i):
        use(nl.ndarray((4, 8), nl.float32), i)

    for version in ("0.4", "0.5"):
        run(looped(body), nki=version)
    with pytest.raises(
        IllegalInstruction, match=r"the variable of nl\.dynamic_range as an off"
    ) as c:
        run(looped(body), nki="0.3")
    assert "nl.affine_range" in c.value.fix


def test_a_write_to_the_variable_of_dynamic_range_is_an_assertion_error():
    with pytest.raises(AssertionError, match="the induction register of a loop") as caught:
        run(looped(lambda i: nisa.register_move(i, 9)), nki="0.4")
    assert isinstance(caught.value, FrozenRegister)
    assert isinstance(caught.value, UndefinedBehavior)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("value", [-1, -(2**31), 2**31, 2**32 - 1, 7])
def test_a_store_keeps_all_bits_of_a_register(value, dtype):
    @jit
    def kernel(out):
        tile = nl.ndarray((1, 1), out.dtype)
        nisa.register_store(tile, nisa.register_alloc(value))
        nisa.dma_copy(out, tile)
        return out

    found = trnsim.run(kernel, np.zeros((1, 1), dtype)).outputs
    assert int(found.view(np.uint32)[0, 0]) == value % 2**32


@pytest.mark.parametrize(
    "compute", [lambda r: r + 2**32, lambda r: r * -(2**31) * 2, lambda r: 0 - r * 2**31 - 2**31]
)
def test_arithmetic_beyond_32_bits_is_refused(compute):
    with pytest.raises(Unspecified, match=r"gives -?[0-9]+; emulated: 32 bits") as caught:
        run(compute)
    assert "nisa.scalar_load" in caught.value.fix
