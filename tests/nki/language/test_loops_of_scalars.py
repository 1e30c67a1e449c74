"""Loops with scalars, and the rules of a body: what it gets, returns and allocates."""

import numpy as np
import pytest

import trnsim
from trnsim.dtypes import INT32
from trnsim.errors import IllegalInstruction, NotModelled
from trnsim.isa import VirtualRegister
from trnsim.nki import isa as nisa
from trnsim.nki import jit
from trnsim.nki import language as nl


def in_kernel(body, bound=3, dtype=np.int32, **options):
    """A run of `body(scalar)`, where the scalar is loaded from an argument."""

    @jit
    def kernel(x):
        body(nisa.scalar_load(x))
        return x

    return trnsim.run(kernel, np.array([[bound]], dtype), **options)


@pytest.mark.parametrize(
    ("bounds", "kind"),
    [
        (lambda _: (0, 3), nisa.NkiScalar),
        (lambda n: (0, n), nisa.NkiScalar),
        (lambda n: (n - 3, 3), nisa.NkiScalar),
        (lambda n: (n * 2 - 6, n + n - 3), nisa.NkiScalar),
        (lambda _: (0, nisa.register_alloc(3)), VirtualRegister),
        (lambda n: (n - 3, nisa.register_alloc(3)), VirtualRegister),
        (lambda n: (nisa.register_alloc(-1) + 1, n), VirtualRegister),
    ],
)
def test_the_body_gets_a_scalar_unless_a_bound_is_a_register(bounds, kind):
    def body(n):
        seen = []
        nl.fori_loop(*bounds(n), seen.append)
        assert {type(i) for i in seen} == {kind}
        assert [i.value for i in seen] == [0, 1, 2]
        assert all(i.dtype is INT32 for i in seen if kind is nisa.NkiScalar)

    in_kernel(body)


def test_before_nki_0_7_the_body_gets_a_register():
    seen = []

    @jit
    def kernel(x):
        nl.fori_loop(0, 2, seen.append)
        return x

    trnsim.run(kernel, np.ones((1, 1), np.float32), nki="0.6")
    assert [isinstance(i, VirtualRegister) for i in seen] == [True] * 2


@jit
def running_total(x, count):
    """out = x[0] + ... + x[count - 1], and the sum of i (i + 1) by scalars."""
    P = x.shape[1]
    bound = nisa.scalar_load(count)
    total, weight = nl.zeros((1, P), nl.float32), nl.zeros((1, 1), nl.int32)

    def body(i):
        row = nl.ndarray((1, P), nl.float32)
        nisa.dma_copy(dst=row, src=x.ap([[P, 1], [1, P]], scalar_offset=i, indirect_dim=0))
        nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)
        nisa.scalar_store(weight, nisa.scalar_load(weight) + i * (i + 1))

    nl.fori_loop(0, bound - 1 + 1, body)
    out = nl.ndarray((1, P), nl.float32, buffer=nl.shared_hbm)
    weights = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
    nl.store(out, total)
    nl.store(weights, weight)
    return out, weights


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_scalar_bounds_a_loop_and_its_variable_is_an_offset(random, count):
    x = random((6, 8))
    run = trnsim.run(running_total, x, np.array([[count]], np.int32))
    np.testing.assert_allclose(run.outputs[0], x[:count].sum(axis=0, keepdims=True), rtol=1e-6)
    assert run.outputs[1].tolist() == [[sum(i * (i + 1) for i in range(count))]]
    program = run.program
    opcodes = [program.instruction(i).opcode for i in range(len(program))]
    copies = [i for i in range(len(program)) if opcodes[i] == "dma_copy"]
    for copied in copies[:count]:  # the transfers of rows wait for the loop's bound
        awaited = {opcodes[i] for i in program.waits_for(copied)}
        assert "scalar_arithmetic" in awaited
    with pytest.raises(NotModelled, match="shape-only run"):
        trnsim.run(running_total, x, np.array([[count]], np.int32), numerics=False)


def nothing(i):
    del i


@pytest.mark.parametrize(
    ("body", "dtype", "error", "words", "fix"),
    [
        (
            lambda n: nl.fori_loop(0, n, nothing),
            np.int64,
            IllegalInstruction,
            "32 bits",
            "nl.int32",
        ),
        (lambda n: nl.fori_loop(n, 5, nothing), np.int64, IllegalInstruction, "32 bits", "offset"),
        (
            lambda n: nl.fori_loop(0, n < 5, nothing),
            np.int32,
            IllegalInstruction,
            "a comparison",
            "",
        ),
        (lambda n: nl.fori_loop(0, 5, nothing, n), np.int32, IllegalInstruction, "with step", ""),
        (lambda _: nl.fori_loop(0, 5, nothing, 0), np.int32, IllegalInstruction, "step 0", ""),
        (
            lambda _: nl.fori_loop(0, 2.5, nothing),
            np.int32,
            IllegalInstruction,
            "whole numbers",
            "",
        ),
        (lambda _: nl.fori_loop(2**40, 2**40 + 1, nothing), np.int32, IllegalInstruction, "32", ""),
        (lambda n: nl.fori_loop(0, n, 5), np.int32, IllegalInstruction, "a body of type int", ""),
        (
            lambda n: nl.fori_loop(0, n, lambda i: i),
            np.int32,
            IllegalInstruction,
            "returned",
            "SBUF",
        ),
        (lambda n: nl.while_loop(n, nothing), np.int32, NotModelled, "nl.while_loop with", "reg"),
        (
            lambda n: nl.while_loop(nisa.register_alloc(1), lambda _: n),
            np.int32,
            NotModelled,
            "nl.while_loop with",
            "register_load",
        ),
    ],
)
def test_other_bounds_steps_and_bodies_are_refused(body, dtype, error, words, fix):
    with pytest.raises(error, match=words) as caught:
        in_kernel(body, dtype=dtype)
    assert fix in caught.value.fix
    assert caught.value.line is not None


def test_an_int64_scalar_is_an_offset_inside_a_loop():
    """nki.language.fori_loop: "can still be computed inside the body and used as an offset"."""

    @jit
    def kernel(x, start):
        out = nl.ndarray((2, 8), x.dtype, buffer=nl.shared_hbm)
        place = nisa.scalar_load(start)

        def body(i):
            tile = nl.ndarray((1, 8), x.dtype)
            nisa.dma_copy(dst=tile, src=x.ap([[8, 1], [1, 8]], scalar_offset=place * 2 - 1))
            nisa.dma_copy(dst=out.ap([[8, 1], [1, 8]], scalar_offset=i), src=tile)

        nl.fori_loop(0, 2, body)
        return out

    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    found = trnsim.run(kernel, x, np.array([[2]], np.int64)).outputs
    np.testing.assert_array_equal(found, x[[3, 3]])


@pytest.mark.parametrize("version", ["0.6", "0.7"])
def test_a_tensor_of_the_body_stays_there(version):
    @jit
    def kernel(x, how):
        kept = []

        def body(i):
            tile = nl.zeros((1, 8), nl.float32)
            nisa.tensor_copy(tile, tile)
            kept.append(tile)
            return i if how == "while" else None

        def once(register):
            body(register)
            return register - 1

        if how == "for":
            nl.fori_loop(0, 2, body)
        else:
            nl.while_loop(nisa.register_alloc(1), once)
        nisa.tensor_copy(kept[0], kept[-1])
        return x

    for how, loop in (("for", "fori_loop"), ("while", "while_loop")):
        with pytest.raises(IllegalInstruction, match=f"the body of nl.{loop} allocated at") as c:
            trnsim.run(kernel, np.ones((1, 1), np.float32), how, nki=version)
        assert c.value.line.line == kernel.__wrapped__.__code__.co_firstlineno + 18


def test_an_output_is_allocated_before_the_loop():
    @jit
    def kernel(x):
        made = []

        def body(_):
            made.append(nl.ndarray((1, 1), x.dtype, buffer=nl.shared_hbm))
            nisa.dma_copy(dst=made[-1], src=x)

        nl.fori_loop(0, 2, body)
        return made[0]

    with pytest.raises(IllegalInstruction, match=r"the body of nl\.fori_loop"):
        trnsim.run(kernel, np.ones((1, 1), np.float32))


def test_a_constant_that_a_function_keeps_outlives_the_loop(random):
    """Softmax broadcasts by a tile of ones, which is made once in a run."""
    data = random((1, 8))

    @jit
    def kernel(x):
        out = nl.ndarray((4, 8), x.dtype, buffer=nl.shared_hbm)
        row = nl.load(x)

        def body(_):
            nl.store(out, nl.broadcast_to(row, (4, 8)))

        nl.fori_loop(0, 2, body)
        nl.store(out, nl.broadcast_to(row, (4, 8)))
        return out

    np.testing.assert_array_equal(trnsim.run(kernel, data).outputs, np.repeat(data, 4, 0))


@pytest.mark.parametrize("version", ["0.6", "0.7"])
def test_affine_range_is_pythons_range_from_0_7_on(version):
    seen = []

    @jit
    def kernel(x):
        seen.append(nl.affine_range(1, 7, 2))
        seen.append(nl.affine_range(3))
        tile, other = nl.zeros((1, 1), nl.float32), nl.ndarray((1, 1), nl.float32)
        for _ in nl.affine_range(3):
            nisa.tensor_scalar(other, tile, nl.add, 1.0)
            nisa.tensor_copy(tile, other)
        nl.store(x, tile)
        return x

    run = trnsim.run(kernel, np.zeros((1, 1), np.float32), nki=version)
    assert [list(each) for each in seen] == [[1, 3, 5], [0, 1, 2]]
    is_pythons = version == "0.7"
    assert [isinstance(each, range) for each in seen] == [is_pythons] * 2
    assert bool(run.warnings) is not is_pythons
    with pytest.raises(IllegalInstruction, match=r"nl\.affine_range"):
        in_kernel(nl.affine_range, nki="0.7")


def in_the_body(x, i):
    nisa.scalar_store(x, i)


USES = {
    "an offset": lambda x, i: x.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1),
    "stored": in_the_body,
    "computed": lambda _, i: i + 1,
    "compared": lambda _, i: i < 1,
    "a bound": lambda _, i: nl.fori_loop(0, i, lambda j: j and None),
}


@pytest.mark.parametrize("derive", [lambda i: i, lambda i: 2 * i + 1], ids=["itself", "derived"])
@pytest.mark.parametrize("name", USES)
def test_the_variable_of_a_loop_ends_with_its_turn(name, derive):
    kept = []

    @jit
    def kernel(x):
        nl.fori_loop(0, 1, lambda i: kept.append(derive(i)))
        USES[name](x, kept[0])
        return x

    with pytest.raises(IllegalInstruction, match="is used after its turn; legal: in the") as caught:
        trnsim.run(kernel, np.zeros((1, 1), np.int32))
    assert caught.value.line.file == __file__
    assert "nisa.scalar_store(tensor, scalar)" in caught.value.fix


@pytest.mark.parametrize("combine", [lambda i, j: i + j, lambda i, j: j - i])
def test_what_two_loops_compute_ends_with_the_first_of_their_turns(combine):
    @jit
    def kernel(x):
        def outer(i):
            kept = []
            nl.fori_loop(0, 1, lambda j: kept.append(combine(i, j)))
            in_the_body(x, kept[0])

        nl.fori_loop(0, 1, outer)
        return x

    with pytest.raises(IllegalInstruction, match="is used after its turn"):
        trnsim.run(kernel, np.zeros((1, 1), np.int32))


def test_a_scalar_doubled_in_a_turn_knows_its_turn_once():
    lengths = []

    @jit
    def kernel(x):
        def body(i):
            doubled = i
            for _ in range(20):
                doubled = doubled + doubled
            lengths.append(len(doubled.turns))

        nl.fori_loop(0, 1, body)
        return x

    trnsim.run(kernel, np.zeros((1, 1), np.int32))
    assert lengths == [1]


def test_the_variable_of_an_outer_loop_is_used_in_an_inner_one():
    @jit
    def kernel(x):
        def outer(i):
            nl.fori_loop(0, i + 1, lambda j: in_the_body(x, i * 10 + j))

        nl.fori_loop(0, 3, outer)
        return x

    assert trnsim.run(kernel, np.zeros((1, 1), np.int32)).outputs[0, 0] == 22
