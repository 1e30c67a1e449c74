"""Parts of random legal programs of NKI 0.7: source lines, and what numpy says they give.

Numbers are small integers, so float32 is exact and values are compared bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scalars import wrapped

RANKS = 2
PARTITIONS = 128


@dataclass
class Draft:
    """A program that is being written.

    Attributes:
        rng: what draws.
        ranks: how many ranks run it; 1 is no rank but a core.
        lines: the statements of the kernel.
        inputs: for each argument, its array on each rank.
        outputs: for each returned tensor, its array on each rank.
        schedule: pairs of names for `with_schedule`.
    """

    rng: np.random.Generator
    ranks: int = 1
    lines: list = field(default_factory=list)
    inputs: dict = field(default_factory=dict)
    outputs: dict = field(default_factory=dict)
    schedule: list = field(default_factory=list)

    def draw(self, low, high):
        """An integer from `low` to `high`, inclusive."""
        return int(self.rng.integers(low, high + 1))

    def pick(self, *choices):
        return choices[self.draw(0, len(choices) - 1)]

    def write(self, text, **names):
        """Statements with names in place of @name."""
        for name in sorted(names, key=len, reverse=True):
            text = text.replace(f"@{name}", str(names[name]))
        self.lines += text.strip("\n").split("\n")

    def given(self, *arrays):
        """The name of a new argument: one array for all ranks, or one each."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = arrays if len(arrays) > 1 else arrays * self.ranks
        return name

    def numbers(self, *shape):
        return self.rng.integers(-9, 10, shape).astype(np.float32)

    def returned(self, shape, *arrays, dtype="float32"):
        """The name of a new tensor in shared HBM that the kernel returns."""
        name = f"out{len(self.outputs)}"
        self.outputs[name] = arrays if len(arrays) > 1 else arrays * self.ranks
        shape = tuple(map(int, shape))
        self.write(f"{name} = nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.shared_hbm)")
        return name


def coordinates(shape, cells):
    """For each element of `shape` the sum of the coordinates of its cell."""
    places = np.indices(shape)
    return sum(place // cell for place, cell in zip(places, cells, strict=True))


def tiles(draft):
    """Each tile through SBUF, plus the sum of its coordinates; slabs, edges, two or three axes."""
    rank = draft.draw(2, 3)
    slabs = tuple(draft.draw(1, 3) for _ in range(draft.draw(0, 2)))
    shape = slabs + tuple(draft.draw(1, 40) for _ in range(2)) + (draft.draw(1, 6),) * (rank - 2)
    tile = tuple(draft.draw(1, 24) for _ in range(2)) + (draft.draw(1, 6),) * (rank - 2)
    while np.prod([-(-n // t) for n, t in zip(shape[len(slabs) :], tile, strict=True)]) > 16:
        tile = tuple(min(2 * t, PARTITIONS) for t in tile)
    values = draft.numbers(*shape)
    added = coordinates(shape, (1,) * len(slabs) + tile)
    held = draft.pick(
        "nl.ndarray(one.element_shape, dtype=nl.float32, buffer=nl.sbuf)",
        f"nl.alloc_tiles(tile_shape=@tile, element_shape=one.element_shape, buffer=nl.sbuf, "
        f"dtype=nl.float32)[{', '.join('0' * rank)}]",
    )
    draft.write(
        """
sources = nl.tiles(@x, tile_shape=@tile)
targets = nl.tiles(@out, tile_shape=@tile)
for cell in np.ndindex(*sources.shape):
    one = sources[cell]
    held = """
        + held
        + """
    nisa.dma_copy(dst=held.data, src=one.data)
    nisa.tensor_scalar(dst=held.data, data=held.data, op0=nl.add, operand0=float(sum(cell)))
    nisa.dma_copy(dst=targets[cell].data, src=held.data)
""",
        x=draft.given(values),
        out=draft.returned(shape, values + added),
        tile=tile,
    )


def blocks(draft):
    """Each block through a grid of its own in SBUF, a row of tiles a transfer."""
    shape = tuple(draft.draw(1, 60) for _ in range(2))
    tile = tuple(draft.draw(6, 24) for _ in range(2))
    block = tuple(draft.draw(1, 3) for _ in range(2))
    values = draft.numbers(*shape)
    added = coordinates(shape, tuple(t * b for t, b in zip(tile, block, strict=True)))
    draft.write(
        """
shapes = {"tile_shape": @tile, "block_shape": @block}
sources, targets = nl.blocks(@x, **shapes), nl.blocks(nl.tiles(@out, tile_shape=@tile), @more)
for cell in np.ndindex(*sources.shape):
    one = sources[cell]
    block = nl.alloc_blocks(
        element_shape=one.element_shape, buffer=@where, dtype=nl.float32, **shapes
    )
    held, places = nl.tiles(block), nl.tiles(targets[cell])
    for row in range(held.shape[0]):
        nisa.dma_copy(dst=held[row].data, src=nl.tiles(one)[row].data)
        line = held[row].data
        nisa.tensor_scalar(dst=line, data=line, op0=nl.add, operand0=float(sum(cell)))
        for column in range(held.shape[1]):
            nisa.dma_copy(dst=places[row, column].data, src=held[row, column].data)
""",
        x=draft.given(values),
        out=draft.returned(shape, values + added),
        tile=tile,
        block=block,
        more=f"block_shape={block}",
        where="nl.sbuf",
    )


def product(draft):
    """A product of tiles with remainders at all edges."""
    k, m, n = (draft.draw(1, 50) for _ in range(3))
    left, right = draft.numbers(k, m), draft.numbers(k, n)
    tile = draft.pick(16, 32, 64)
    draft.write(
        """
sums = nl.tiles(@out, tile_shape=(@t, @t))
held = []
for source in (@a, @b):
    grid = nl.tiles(source, tile_shape=(@t, @t))
    held.append(nl.alloc_tiles(
        tile_shape=(@t, @t), element_shape=source.shape, buffer=nl.sbuf, dtype=nl.float32))
    for row in range(grid.shape[0]):
        nisa.dma_copy(dst=held[-1][row].data, src=grid[row].data)
for i, j in np.ndindex(*sums.shape):
    acc = nl.ndarray(sums[i, j].element_shape, dtype=nl.float32, buffer=nl.psum)
    for step in range(held[0].shape[0]):
        nisa.nc_matmul(dst=acc, stationary=held[0][step, i].data, moving=held[1][step, j].data)
    tile = nl.ndarray(acc.shape, dtype=nl.float32)
    nisa.tensor_copy(dst=tile, src=acc)
    nisa.dma_copy(dst=sums[i, j].data, src=tile)
""",
        a=draft.given(left),
        b=draft.given(right),
        out=draft.returned((m, n), left.T @ right),
        t=tile,
    )


def scalars(draft):
    """Operators on loaded scalars, stored; of both widths."""
    bits = draft.pick(32, 64)
    dtype = np.dtype(f"int{bits}")
    limit = 2 ** (bits - 1)
    values = [int(draft.rng.integers(-limit, limit, dtype=np.int64)) for _ in range(2)]
    source = draft.given(np.array(values, dtype).reshape(2, 1))
    names = {"a": values[0], "b": values[1]}
    draft.write("a, b = nisa.scalar_load(@x[0:1]), nisa.scalar_load(@x[1:2])", x=source)
    for number in range(draft.draw(1, 4)):
        name = f"s{number}"
        other = draft.pick("a", "b", str(draft.draw(-99, 99)))
        text = f"{draft.pick('', '-')}{draft.pick(*names)} {draft.pick('+', '-', '*')} {other}"
        names[name] = wrapped(eval(text, {}, dict(names)), bits)  # noqa: S307  written above
        draft.write(f"{name} = {text}")
    expected = np.array([[names[name]]], dtype)
    out = draft.returned((1, 1), expected, dtype=f"int{bits}")
    draft.write(f"nisa.scalar_store({out}, {name})")


def offsets(draft):
    """A row that a scalar selects."""
    rows, columns = draft.draw(2, 9), draft.draw(1, 9)
    row, shift = draft.draw(0, rows - 1), draft.draw(-5, 5)
    values = draft.numbers(rows, columns)
    bits = draft.pick(32, 64)
    draft.write(
        """
place = nisa.scalar_load(@where)
moved = @x.ap([[@n, 1], [1, @n]], scalar_offset=place - @shift)
nisa.dma_copy(dst=@out, src=moved)
""",
        where=draft.given(np.array([[row + shift]], f"int{bits}")),
        x=draft.given(values),
        out=draft.returned((1, columns), values[row : row + 1]),
        n=columns,
        shift=f"({shift})",
    )


def loop(draft):
    """Rows of a device loop, of which a bound may be a scalar."""
    rows, columns = draft.draw(1, 9), draft.draw(1, 9)
    first, last, step = draft.draw(0, 3), draft.draw(0, rows), draft.draw(1, 3)
    values = draft.numbers(rows, columns)
    expected = values.copy()
    expected[list(range(first, last, step))] *= 2
    bound = last
    if draft.pick(True, False):
        bound = f"nisa.scalar_load({draft.given(np.array([[last - 1]], np.int32))}) + 1"
    draft.write(
        """
nisa.dma_copy(dst=@out, src=@x)
def double(i):
    row = nl.ndarray((1, @n), dtype=nl.float32)
    nisa.dma_copy(dst=row, src=@x.ap([[@n, 1], [1, @n]], scalar_offset=i))
    nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=@out.ap([[@n, 1], [1, @n]], scalar_offset=i), src=row)
nl.fori_loop(@first, @last, double, @step)
""",
        x=draft.given(values),
        out=draft.returned((rows, columns), expected),
        n=columns,
        first=first,
        last=bound,
        step=step,
    )


def exchange(draft):
    """An all_to_all_v in two steps, whose source is filled between them."""
    width = draft.draw(1, 8)
    sent = [draft.numbers(width) for _ in range(RANKS)]
    counts = draft.rng.integers(0, width + 1, (RANKS, RANKS))
    starts = draft.rng.integers(0, width - counts + 1)
    rows = [np.array([counts[r], starts[r], [7] * RANKS], np.uint32) for r in range(RANKS)]
    expected = [np.concatenate([sent[r]] * RANKS) for r in range(RANKS)]
    for r, from_rank in np.ndindex(RANKS, RANKS):
        count, start = counts[from_rank, r], starts[from_rank, r]
        place = from_rank * width
        expected[r][place : place + count] = sent[from_rank][start : start + count]
    draft.write(
        """
src = nl.ndarray((@w,), dtype=nl.float32, buffer=nl.shared_hbm, name="src")
dst = nl.ndarray((@ranks * @w,), dtype=nl.float32, buffer=nl.shared_hbm, name="dst")
counts = nl.ndarray((3, @ranks), dtype=nl.uint32, buffer=nl.shared_hbm, name="counts")
nisa.dma_copy(dst=counts, src=@rows)
for rank in range(@ranks):
    nisa.dma_copy(dst=dst[rank * @w : (rank + 1) * @w], src=@x)
group = ncc.ReplicaGroup([list(range(@ranks))])
ready = ncc.all_to_all_v_prepare([src], [dst], group, counts)
nisa.dma_copy(dst=src, src=@x)
ncc.all_to_all_v_trigger(ready)
nisa.dma_copy(dst=@out, src=dst)
""",
        x=draft.given(*sent),
        rows=draft.given(*rows),
        out=draft.returned((RANKS * width,), *expected),
        w=width,
        ranks=RANKS,
    )


def order(draft):
    """Instructions with an edge between them, of which the values are those of Python's order."""
    shape = draft.draw(1, 20), draft.draw(1, 20)
    left, right = draft.numbers(*shape), draft.numbers(*shape)
    number = len(draft.outputs)
    names = [f"{letter}{number}" for letter in "ab"]
    if draft.pick(True, False):
        names.reverse()
    edge = draft.pick(
        f"{names[0]}.depends_on({names[1]}, kind=nisa.dependency.{draft.pick(*KINDS)})",
        f"total.depends_on(a{number}, b{number}, kind=nisa.dependency.{draft.pick(*KINDS)})",
        "",
    )
    if not edge:
        draft.schedule.append(draft.pick(tuple(names), (f"c{number}", names)))
    block = draft.pick("with nl.no_reorder():", "if True:")
    draft.write(
        f"""
first, second = nl.ndarray(@shape, nl.float32), nl.ndarray(@shape, nl.float32)
a{number} = nisa.dma_copy(dst=first, src=@x, name="a{number}")
{block}
    b{number} = nisa.dma_copy(dst=second, src=@y, name="b{number}")
    total = nisa.tensor_tensor(dst=first, data1=first, data2=second, op=nl.add, name="c{number}")
{edge or "pass"}
nisa.dma_copy(dst=@out, src=first)
""",
        x=draft.given(left),
        y=draft.given(right),
        out=draft.returned(shape, left + right),
        shape=shape,
    )


KINDS = ("runtime", "schedule")
PARTS = (tiles, blocks, product, scalars, offsets, loop, order)
"""What a program of one core has parts of."""
