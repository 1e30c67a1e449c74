"""Device loops have one body: turns that differ are refused, and sums in PSUM of two flags."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import IllegalInstruction, Unspecified


@nki.jit
def products(a, parts, kind):
    """``a.T @ parts[i]`` in a device loop: added up, started in the body, or one by one."""
    K, N = parts.shape[1:]
    left = nl.load(a)
    sums = nl.ndarray((a.shape[1], N), nl.float32, buffer=nl.psum)
    added = nl.zeros(sums.shape, nl.float32)
    if kind == "before":
        nisa.nc_matmul(sums, left, nl.load(parts[0]), accumulate=False)

    def body(i):
        moving = nl.ndarray((K, N), parts.dtype, buffer=nl.sbuf)
        nisa.dma_copy(moving, parts.ap([[N, K], [1, N]], scalar_offset=i, indirect_dim=0))
        dst, given = sums, {}
        if kind == "inside":
            dst = nl.ndarray(sums.shape, nl.float32, buffer=nl.psum)
        if kind in ("before", "restart"):
            given = {"accumulate": kind == "before"}
        nisa.nc_matmul(dst, left, moving, **given)
        if kind == "halves":
            nisa.nc_matmul(dst, left, moving)
        if kind in ("inside", "restart"):
            nisa.tensor_tensor(added, added, dst, op=nl.add)

    nl.fori_loop(1 if kind == "before" else 0, parts.shape[0], body)
    if kind in ("inside", "restart"):
        result = added
    else:
        result = nl.ndarray(sums.shape, nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(result, sums)
    out = nl.ndarray(sums.shape, nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


@pytest.mark.parametrize("kind", ["inside", "restart", "before"])
def test_a_sum_over_turns_with_one_flag_is_computed(random, kind):
    a, parts = random((32, 16)), random((3, 32, 8))
    expected = a.astype(np.float64).T @ parts.astype(np.float64).sum(0)
    found = trnsim.run(products, a, parts, kind).outputs
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["outside", "halves"])
def test_a_matmul_that_overwrites_in_one_turn_and_adds_in_another_is_refused(random, kind):
    a, parts = random((32, 16)), random((3, 32, 8))
    with pytest.raises(Unspecified, match="one turn overwrites and another adds") as caught:
        trnsim.run(products, a, parts, kind)
    assert caught.value.line.file == __file__
    assert "accumulate=True in the body" in caught.value.fix
    trnsim.run(products, a, parts[:1], kind)
    trnsim.run(products, a, parts, kind, numerics=False)


def test_a_transpose_overwrites_in_each_turn(random):
    @nki.jit
    def kernel(x, identity):
        tile, one = nl.load(x), nl.load(identity)
        turned = nl.ndarray(x.shape[::-1], x.dtype, buffer=nl.psum)
        nl.fori_loop(0, 3, lambda _: nisa.nc_matmul(turned, tile, one, is_transpose=True) and None)
        out = nl.ndarray(turned.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.copy(turned))
        return out

    x = random((32, 16))
    found = trnsim.run(kernel, x, np.eye(32, dtype=np.float32)).outputs
    np.testing.assert_array_equal(found, x.T)


def test_loops_of_python_add_up_as_before(random):
    @nki.jit
    def kernel(a, parts):
        sums = nl.ndarray((a.shape[1], parts.shape[2]), nl.float32, buffer=nl.psum)
        for i in nl.affine_range(parts.shape[0]):
            nisa.nc_matmul(sums, nl.load(a), nl.load(parts[i]))
        out = nl.ndarray(sums.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.copy(sums))
        return out

    a, parts = random((32, 16)), random((3, 32, 8))
    found = trnsim.run(kernel, a, parts).outputs
    np.testing.assert_allclose(found, a.T @ parts.sum(0), rtol=1e-4, atol=1e-4)


def test_a_body_in_the_body_of_another_loop_has_one_flag_too(random):
    @nki.jit
    def kernel(a, b, is_outside):
        left, right = nl.load(a), nl.load(b)
        kept = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
        last = nl.zeros(kept.shape, nl.float32)

        def outer(_):
            sums = kept if is_outside else nl.ndarray(kept.shape, nl.float32, buffer=nl.psum)
            nisa.nc_matmul(sums, left, right, accumulate=False)

            def inner(_):
                nisa.nc_matmul(sums, left, right)

            nl.fori_loop(0, 2, inner)
            nisa.nc_matmul(sums, left, right)
            nisa.tensor_copy(last, sums)

        nl.fori_loop(0, 2, outer)
        out = nl.ndarray(kept.shape, nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, last)
        return out

    a, b = random((32, 16)), random((32, 8))
    for is_outside in (True, False):
        found = trnsim.run(kernel, a, b, is_outside).outputs
        np.testing.assert_allclose(found, 4 * (a.T @ b), rtol=1e-4, atol=1e-4)


def stateful(x, kind):
    """Doubles in a device loop whose Python has a state of its own."""
    one, other = nl.load(x), nl.load(x)
    turns = []

    def body(_):
        turns.append(1)
        count = len(turns)
        if kind == "number":
            nisa.tensor_scalar(one, one, op0=nl.multiply, operand0=float(count))
        elif kind == "tensor":
            nisa.tensor_tensor(one, one, other if count % 2 else one, op=nl.add)
        elif kind == "part":
            column = one[:, count - 1 : count]
            nisa.tensor_scalar(column, column, op0=nl.multiply, operand0=2.0)
        elif kind == "operator":
            nisa.tensor_tensor(one, one, other, op=nl.add if count % 2 else nl.subtract)
        elif kind == "local":
            made = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(made, one, op0=nl.multiply, operand0=2.0)
            nisa.tensor_copy(one, made)
        if (kind, count > 1) in (("more", True), ("fewer", False)):
            nisa.tensor_scalar(one, one, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 3, body)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, one)
    return out


@pytest.mark.parametrize("version", ["0.6", "0.7"])
@pytest.mark.parametrize("kind", ["number", "tensor", "part", "operator", "more", "fewer"])
def test_a_turn_with_other_instructions_than_those_before_is_refused(kind, version):
    x = np.ones((4, 4), np.float32)
    with pytest.raises(IllegalInstruction, match="the body is traced once") as caught:
        trnsim.run(nki.jit(stateful), x, kind, nki=version)
    assert caught.value.line.file == __file__
    nki.simulate(nki.jit(stateful))(x, kind)


@nki.jit
def gathered(x, rows, kind):
    """Copies rows of x in a device loop, by an index that its Python chooses."""
    tile = nl.ndarray((rows.shape[1], x.shape[1]), x.dtype, buffer=nl.sbuf)
    one, other = (nl.load(rows[at].reshape((rows.shape[1], 1))) for at in range(2))
    turns = []

    def body(i):
        turns.append(1)
        is_first = len(turns) == 1
        pattern = [[x.shape[1], rows.shape[1]], [1, x.shape[1]]]
        if kind == "vector":
            source = x.ap(pattern, vector_offset=one if is_first else other)
        elif kind == "scalar":
            source = x.ap(pattern, scalar_offset=(one if is_first else other)[:1, :1])
        elif kind == "part":
            source = x.ap(pattern, scalar_offset=one[len(turns) - 1 : len(turns), :1])
        elif kind == "none":
            source = x.ap(pattern, **({"scalar_offset": i} if is_first else {}))
        elif kind == "register":
            source = x.ap(pattern, scalar_offset=i if is_first else one[:1, :1])
        else:
            source = x.ap(pattern, vector_offset=one)
        nisa.dma_copy(tile, source)

    nl.fori_loop(0, 2, body)
    out = nl.ndarray(tile.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("kind", ["vector", "scalar", "part", "none", "register", "same"])
def test_an_address_is_an_operand_of_the_body_too(kind):
    x, rows = np.arange(28, dtype=np.float32).reshape(7, 4), np.array([[0, 2], [3, 1]], np.int32)
    if kind == "same":
        np.testing.assert_array_equal(trnsim.run(gathered, x, rows, kind).outputs, x[rows[0]])
        return
    with pytest.raises(IllegalInstruction, match="dma_copy in a later turn"):
        trnsim.run(gathered, x, rows, kind)


NAN = float("nan")


@pytest.mark.parametrize(
    ("numbers", "is_legal"),
    [
        ([1.0, 1.0], True),
        ([NAN, -NAN], True),
        ([0.0, -0.0], False),
        ([NAN, 1.0], False),
        ([1.0, 1], False),
        ([1, True], False),
        (["tensor", 1.0], False),
    ],
)
def test_numbers_of_turns_are_compared_by_type_and_value(numbers, is_legal):
    @nki.jit
    def kernel(x):
        tile, column = nl.load(x), nl.load(x[:, :1])
        turns = iter(numbers)

        def body(_):
            number = next(turns)
            operand = column if number == "tensor" else number
            nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=operand)

        nl.fori_loop(0, 2, body)
        return x

    x = np.ones((4, 6), np.float32)
    if is_legal:
        trnsim.run(kernel, x)
        return
    with pytest.raises(IllegalInstruction, match="tensor_scalar in a later turn"):
        trnsim.run(kernel, x)


def test_a_tensor_of_the_body_in_another_format_is_another_operand():
    @nki.jit
    def kernel(x):
        tile, formats = nl.load(x), iter([nl.float32, nl.bfloat16])

        def body(_):
            made = nl.ndarray(x.shape, next(formats), buffer=nl.sbuf)
            nisa.tensor_copy(made, tile)

        nl.fori_loop(0, 2, body)
        return x

    with pytest.raises(IllegalInstruction, match="tensor_copy in a later turn"):
        trnsim.run(kernel, np.ones((4, 6), np.float32))


def test_another_instruction_with_the_same_operands_is_refused():
    @nki.jit
    def kernel(x):
        tile, makers = nl.load(x), iter([nisa.max8, nisa.tensor_copy])
        made = nl.ndarray((x.shape[0], 8), x.dtype, buffer=nl.sbuf)

        def body(_):
            next(makers)(made, tile)

        nl.fori_loop(0, 2, body)
        return x

    with pytest.raises(IllegalInstruction, match="tensor_copy in a later turn"):
        trnsim.run(kernel, np.ones((4, 8), np.float32))


@pytest.mark.filterwarnings("ignore:nl.dynamic_range")
def test_a_loop_in_a_dynamic_range_moves_with_its_turns(random):
    @nki.jit
    def kernel(x):
        out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)

        for i in nl.dynamic_range(0, x.shape[1] // 8):

            def body(_):
                part = tile[:, nl.ds(i * 8, 8)]  # noqa: B023
                nisa.tensor_scalar(part, part, op0=nl.multiply, operand0=2.0)

            nl.fori_loop(0, 2, body)
        nl.store(out, tile)
        return out

    x = random((4, 24))
    np.testing.assert_array_equal(trnsim.run(kernel, x, nki="0.6").outputs, 4 * x)


def test_an_instruction_that_only_the_last_turn_has_is_refused():
    @nki.jit
    def kernel(x):
        tile, turns = nl.load(x), []

        def body(_):
            turns.append(1)
            for _ in range(2 if len(turns) == 3 else 1):
                nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)

        nl.fori_loop(0, 3, body)
        return x

    with pytest.raises(IllegalInstruction, match="tensor_scalar in a later turn"):
        trnsim.run(kernel, np.ones((4, 6), np.float32))


def test_tensors_of_the_body_are_new_in_each_turn():
    x = np.ones((4, 4), np.float32)
    np.testing.assert_array_equal(trnsim.run(nki.jit(stateful), x, "local").outputs, 8 * x)


def test_an_inner_loop_may_first_turn_in_a_later_turn_of_the_outer(random):
    @nki.jit
    def kernel(x, lengths):
        total = nl.zeros((128, 1), nl.float32)
        part = nl.ndarray((128, 1), x.dtype, buffer=nl.sbuf)

        def outer(i):
            length = nisa.scalar_load(lengths.ap([[1, 1], [1, 1]], scalar_offset=i))

            def inner(j):
                column = x.ap([[x.shape[1], 128], [1, 1]], scalar_offset=j, indirect_dim=1)
                nisa.dma_copy(part, column)
                nisa.tensor_tensor(total, total, part, op=nl.add)

            nl.fori_loop(0, length, inner)

        nl.fori_loop(0, lengths.shape[0], outer)
        out = nl.ndarray((128, 1), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, total)
        return out

    x = random((128, 4))
    found = trnsim.run(kernel, x, np.array([[0], [3], [1]], np.int32)).outputs
    expected = x[:, :3].sum(1, keepdims=True) + x[:, :1]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def nested(x, kind):
    """Doubles in a device loop whose Python chooses the loop inside it."""
    tile = nl.load(x)
    turns = []

    def double(_):
        nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)

    def body(_):
        turns.append(1)
        if kind == "bound":
            nl.fori_loop(0, len(turns), double)
        elif kind == "step":
            nl.fori_loop(0, 4, double, step=len(turns))
        else:
            nl.fori_loop(0, 2, double)
        if kind == "more" and len(turns) > 1:
            nl.fori_loop(0, 2, double)

    nl.fori_loop(0, 3, body)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize("kind", ["bound", "step", "more"])
def test_a_turn_with_another_loop_inside_is_refused(kind):
    x = np.ones((4, 4), np.float32)
    with pytest.raises(IllegalInstruction, match=r"nl\.fori_loop in a later turn") as caught:
        trnsim.run(nki.jit(nested), x, kind)
    assert caught.value.line.file == __file__
    nki.simulate(nki.jit(nested))(x, kind)
    np.testing.assert_array_equal(trnsim.run(nki.jit(nested), x, "same").outputs, 64 * x)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_scalar_of_a_turn_ends_with_it(is_loaded):
    @nki.jit
    def kernel(start):
        box = [nisa.scalar_load(start)]

        def body(_):
            box[0] = nisa.scalar_load(start) if is_loaded else box[0] + 1

        nl.fori_loop(0, 3, body)
        out = nl.ndarray((1, 1), nl.int32, buffer=nl.shared_hbm)
        nisa.scalar_store(out, box[0])
        return out

    with pytest.raises(IllegalInstruction, match="is used after its turn"):
        trnsim.run(kernel, np.array([[5]], np.int32))


def test_a_while_loop_has_one_body_too():
    @nki.jit
    def kernel(x):
        tile, count = nl.load(x), nl.full((1, 1), 3, nl.int32)
        register = nisa.register_alloc()
        nisa.register_load(register, count)
        turns = []

        def body(following):
            turns.append(1)
            nisa.tensor_scalar(tile, tile, op0=nl.add, operand0=float(len(turns)))
            nisa.tensor_scalar(count, count, op0=nl.subtract, operand0=1)
            nisa.register_load(following, count)
            return following

        nl.while_loop(register, body)
        return x

    with pytest.raises(IllegalInstruction, match="tensor_scalar in a later turn"):
        trnsim.run(kernel, np.ones((4, 4), np.float32))


@pytest.mark.parametrize("kind", ["number", "tensor", "part", "operator", "more", "fewer"])
@pytest.mark.parametrize("version", ["0.4", "0.6"])
@pytest.mark.filterwarnings("ignore:nl.dynamic_range")
def test_a_dynamic_range_has_one_body_too(kind, version):
    """The turns of nl.fori_loop, written as those of nl.dynamic_range."""

    @nki.jit
    def kernel(x, kind):
        one, other = nl.load(x), nl.load(x)
        for count, _ in enumerate(nl.dynamic_range(0, 3), 1):
            if kind == "number":
                nisa.tensor_scalar(one, one, op0=nl.multiply, operand0=float(count))
            elif kind == "tensor":
                nisa.tensor_tensor(one, one, other if count % 2 else one, op=nl.add)
            elif kind == "part":
                nisa.tensor_copy(one[:, count - 1 : count], other[:, :1])
            elif kind == "operator":
                nisa.tensor_tensor(one, one, other, op=nl.add if count % 2 else nl.subtract)
            if (kind, count > 1) in (("more", True), ("fewer", False)):
                nisa.tensor_scalar(one, one, op0=nl.add, operand0=1.0)
        return x

    x = np.ones((4, 4), np.float32)
    with pytest.raises(IllegalInstruction, match="the body is traced once") as caught:
        trnsim.run(kernel, x, kind, nki=version)
    assert caught.value.line.file == __file__
    trnsim.run(kernel, x, "same", nki=version)


def moved(x, kind):
    """Doubles x in an nl.dynamic_range, 8 columns a turn, by Python's numbers or by registers."""
    out, tile = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm), nl.load(x)
    extra = 0
    for i in nl.dynamic_range(0, x.shape[1] // 8):
        if kind == "read":
            part = tile[:, int(i) * 8 : (int(i) + 1) * 8]
        elif kind == "counted":
            part = tile[:, nl.ds(i * 4 + extra, 8)]
            extra += 4
        else:
            part = tile[:, nl.ds((i + 1) * 8 - 8, 8)]
        nisa.tensor_scalar(part, part, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.filterwarnings("ignore:nl.dynamic_range", "ignore:a register")
def test_numbers_that_python_takes_from_registers_may_change_from_turn_to_turn(random):
    x = random((4, 24))
    for kind in ("read", "computed"):
        found = trnsim.run(nki.jit(moved), x, kind, nki="0.6").outputs
        np.testing.assert_array_equal(found, 2 * x)
    with pytest.raises(IllegalInstruction, match="tensor_scalar in a later turn"):
        trnsim.run(nki.jit(moved), x, "counted", nki="0.6")


def by_language(x, kind):
    """Functions of nl in a device loop whose Python has a state of its own."""
    tile, other, turns = nl.load(x), nl.load(x), []
    row, second = nl.load(x[:1]), nl.load(x[1:2])

    def body(_):
        turns.append(1)
        is_first = len(turns) == 1
        if kind == "number":
            nisa.tensor_copy(tile, nl.multiply(tile, float(len(turns))))
        elif kind == "tile":
            nisa.tensor_copy(tile, nl.add(tile, tile if is_first else other))
        elif kind == "load":
            nisa.tensor_copy(tile, nl.load(x if is_first else x[::1, ::-1]))
        elif kind == "operator":
            nisa.tensor_copy(tile, (nl.exp if is_first else nl.tanh)(tile))
        elif kind == "fill":
            nisa.tensor_copy(tile, nl.full(x.shape, len(turns), x.dtype))
        elif kind == "broadcast":
            wide = nl.broadcast_to(row if is_first else second, x.shape)
            nisa.tensor_copy(tile, wide)
        elif kind == "reduction":
            nisa.tensor_copy(tile[:, :1], nl.sum(tile[:, : len(turns)], 1, keepdims=True))
        else:
            wide = nl.broadcast_to(row, x.shape)
            nisa.tensor_tensor(tile, tile, wide, op=nl.add)
            nisa.tensor_tensor(tile, tile, nl.multiply(wide, 2.0), op=nl.add)

    nl.fori_loop(0, 3, body)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@pytest.mark.parametrize(
    "kind", ["number", "tile", "operator", "fill", "broadcast", "reduction", "none"]
)
def test_functions_of_the_language_are_compared_too(kind, random):
    x = random((4, 6))
    if kind == "none":
        found = trnsim.run(nki.jit(by_language), x, kind).outputs
        np.testing.assert_allclose(found, x + 9 * x[:1], rtol=1e-5, atol=1e-5)
        return
    with pytest.raises(IllegalInstruction, match="in a later turn of a device loop") as caught:
        trnsim.run(nki.jit(by_language), x, kind)
    assert caught.value.line.file == __file__


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_tile_of_an_earlier_turn_is_another_operand(is_swapped):
    @nki.jit
    def kernel(x):
        tile, kept = nl.load(x), []

        def body(_):
            made = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(made, tile)
            kept.append(made)
            nisa.tensor_copy(tile, kept[0] if is_swapped else made)

        nl.fori_loop(0, 2, body)
        return x

    x = np.ones((4, 4), np.float32)
    if not is_swapped:
        trnsim.run(kernel, x)
        return
    with pytest.raises(IllegalInstruction, match="tensor_copy in a later turn"):
        trnsim.run(kernel, x)


def test_arithmetic_of_scalars_is_compared_too():
    @nki.jit
    def kernel(x):
        tile, turns = nl.ndarray((1, 4), x.dtype, buffer=nl.sbuf), []

        def body(i):
            turns.append(1)
            row = i + len(turns)
            nisa.dma_copy(tile, x.ap([[4, 1], [1, 4]], scalar_offset=row))

        nl.fori_loop(0, 2, body)
        return x

    with pytest.raises(IllegalInstruction, match="scalar_arithmetic in a later turn"):
        trnsim.run(kernel, np.ones((8, 4), np.float32))


def test_shared_tensors_of_a_body_are_those_of_both_cores(random):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        half, core = x.shape[0] // 2, nl.program_id(0)
        rows = slice(core * half, (core + 1) * half)

        def body(_):
            passed = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
            nl.store(passed[rows], nl.load(x[rows]))
            nisa.dma_copy(out[rows], passed[rows])

        nl.fori_loop(0, 3, body)
        return out

    x = random((8, 4))
    np.testing.assert_array_equal(trnsim.run(kernel[2], x, target="trn2").outputs, x)


@pytest.mark.parametrize("step", [0, 1])
def test_tensors_at_addresses_are_known_by_their_address(step):
    @nki.jit
    def kernel(x):
        tile, turns = nl.load(x), []

        def body(_):
            turns.append(1)
            place = (0, 8192 + 256 * step * len(turns))
            made = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, address=place)
            nisa.tensor_scalar(made, tile, op0=nl.add, operand0=1.0)
            nisa.tensor_copy(tile, made)

        nl.fori_loop(0, 3, body)
        nl.store(x, tile)
        return x

    x = np.zeros((4, 4), np.float32)
    if not step:
        np.testing.assert_array_equal(trnsim.run(kernel, x).outputs, 3)
        return
    with pytest.raises(IllegalInstruction, match="tensor_scalar in a later turn"):
        trnsim.run(kernel, x)
