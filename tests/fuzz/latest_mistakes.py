"""Mistakes of programs of NKI 0.7 that nothing takes, as text with what is drawn in braces."""

from __future__ import annotations

PREAMBLE = """\
wrong = nl.ndarray((96, 64), dtype=nl.float32, buffer=nl.private_hbm)
on_chip, empty = nl.ndarray((32, 64), dtype=nl.float32), ()
grid, small = nl.tiles(wrong, tile_shape=(32, 16)), nl.tiles(on_chip, tile_shape=(32, 16))
blocks = nl.blocks(grid, block_shape=(2, 2))
made = {"tile_shape": (32, 16), "element_shape": (64, 64), "buffer": nl.sbuf, "dtype": nl.float32}
spread = nl.alloc_tiles(**made)
ints, words = nl.ndarray((1, 1), dtype=nl.int32), nl.ndarray((1, 1), dtype=nl.uint32)
nisa.memset(dst=ints, value=3)
nisa.memset(dst=words, value=3)
longs = nl.shared_constant(np.array([[5]], np.int64))
scalar, long, register = nisa.scalar_load(ints), nisa.scalar_load(longs), nisa.register_alloc(1)"""

_SHAPES = ("()", "(4,)", "(0, 4)", "(4, -1)", "[4, 4]", "(4.0, 4)", "(True, 4)", "(1, 1, 4)", "4")
_GRIDS = (
    ("nl.tiles(wrong, tile_shape={shape})", {"shape": (*_SHAPES, "None", "(np.int64(4), 4)")}),
    ("nl.tiles({source}, tile_shape=(4, 4))", {"source": ("3", "None", "wrong.shape", "scalar")}),
    ("nl.tiles({source}, tile_shape=(4, 4))", {"source": ("wrong[0:1][0]", "grid[::2, 0]")}),
    ("nl.blocks(grid, block_shape={shape})", {"shape": (*_SHAPES, "(2,)", "None")}),
    (
        "nl.alloc_tiles(**made | {{{key!r}: {shape}}})",
        {"key": ("tile_shape", "element_shape"), "shape": _SHAPES[:-2]},
    ),
    ("nl.alloc_tiles(**made | {{'buffer': {buffer}}})", {"buffer": ("'sbuf'", "None", "3")}),
    ("nl.alloc_tiles(**made | {{'tile_shape': {shape}}})", {"shape": ("(129, 4)", "(64, 10**6)")}),
    ("nl.alloc_tiles(**made, address={place})", {"place": ("(0, 1 << 20)", "(120, 0)", "3")}),
    ("nl.alloc_blocks(**made, block_shape={shape})", {"shape": ("(2,)", "(0, 2)", "[2, 2]", "2")}),
    (
        "{grid}[{key}]",
        {
            "grid": ("grid", "blocks", "spread"),
            "key": (
                "9",
                "-9",
                "0, 0, 0",
                "2:2",
                "0:99",
                "'a'",
                "1.5",
                "None",
                "register",
                "scalar",
                "wrong",
                "nl.ds(register, 1)",
                "1::-1",
                "nl.ds(0, 0)",
            ),
        },
    ),
    ("grid[0, 0][{key}]", {"key": ("0", ":", "0, 0")}),
    ("{grid}.data", {"grid": ("spread[:, 0]", "spread", "grid[::2]")}),
    ("nisa.dma_copy(dst=on_chip, src={grid})", {"grid": ("grid", "grid[0, 0]", "blocks")}),
    ("nisa.tensor_copy(dst={grid}, src=on_chip)", {"grid": ("small", "small[0, 0]")}),
    ("{call}(grid)", {"call": ("nl.NkiGrid", "nl.NkiTileGrid", "len", "list", "sum")}),
    ("grid.{name}", {"name": ("reshape", "block_shape", "T", "tiles")}),
    ("grid[0, 0] = on_chip", {}),
    ("nl.add({grid}, 1.0)", {"grid": ("small[0, 0]", "blocks")}),
)

_NUMBERS = (
    "int",
    "float",
    "range",
    "bool",
    "len",
    "list",
    "abs",
    "round",
    "np.abs",
    "[0, 1].index",
)
_SCALARS = (
    ("{call}({scalar})", {"call": _NUMBERS[:6], "scalar": ("scalar", "long", "scalar + 1")}),
    ("[0, 1][{scalar}]", {"scalar": ("scalar", "long")}),
    ("if {scalar}: pass", {"scalar": ("scalar", "scalar < 3", "scalar == scalar")}),
    ("while {scalar}: break", {"scalar": ("scalar", "long * 2")}),
    (
        "scalar {sign} {other}",
        {"sign": ("/", "//", "%", "<<", ">>", "&", "|", "^", "**"), "other": ("2", "scalar")},
    ),
    (
        "{left} {sign} {right}",
        {"left": ("scalar",), "sign": ("+", "-", "*"), "right": ("long", "1.5", "'a'", "None")},
    ),
    ("long {sign} {other}", {"sign": ("<", "==", ">="), "other": ("3", "long")}),
    (
        "nisa.scalar_load({source})",
        {"source": ("words", "on_chip", "wrong", "3", "scalar", "grid")},
    ),
    (
        "nisa.scalar_store({dst}, {value})",
        {"dst": ("ints",), "value": ("3", "long", "register", "None", "ints", "scalar < 3")},
    ),
    ("nisa.scalar_store({dst}, scalar)", {"dst": ("on_chip", "longs", "words[0:0]", "3", "grid")}),
    ("on_chip.ap([[64, 32], [1, 4]], scalar_offset={offset})", {"offset": ("long", "scalar < 2")}),
    ("wrong[{key}]", {"key": ("scalar", "nl.ds(scalar, 2)", "scalar:", "0, long")}),
    ("nl.fori_loop({bounds}, lambda i: None)", {"bounds": ("0, long", "0, 1.5", "0, scalar < 3")}),
    ("nl.fori_loop(0, 4, lambda i: None, step={step})", {"step": ("0", "-1", "scalar", "1.5")}),
    ("nl.fori_loop(0, 4, {body})", {"body": ("3", "None", "on_chip")}),
    ("nl.while_loop({start}, lambda r: r)", {"start": ("3", "scalar", "None")}),
)

_SOURCES = "[nl.ndarray((8,), nl.float32, nl.shared_hbm)], [nl.ndarray((16,), nl.float32, nl.hbm)]"
_COLLECTIVES = (
    (
        "ncc.{call}_trigger({given})",
        {
            "call": ("all_to_all_v", "all_gather_v"),
            "given": ("None", "3", "'all_to_all_v'", "nisa.memset(dst=ints, value=3)", "grid"),
        },
    ),
    ("ncc.reduce_scatter_v(wrong)", {}),
    (
        "ncc.ReplicaGroup.from_partition_op({arguments})",
        {
            "arguments": (
                "8, None, 4",
                "8, ncc.rg_partition_op.div, 0",
                "0, ncc.rg_partition_op.mod, 2",
                "8.5, ncc.rg_partition_op.mod, 2",
                "8, 'mod', 2",
            )
        },
    ),
)

_REMOVED = (
    ("nl.dynamic_range(4)", {}),
    ("for i in nl.dynamic_range(4): pass", {}),
    ("while register: break", {}),
    ("nisa.tensor_copy_dynamic_{end}(on_chip, on_chip)", {"end": ("src", "dst")}),
)

_ISSUED = "first, second = nisa.memset(dst=ints, value=1), nisa.memset(dst=words, value=2)"
_AGAIN = "first, second = nisa.memset(dst=ints, value=1), nisa.memset(dst=ints, value=2)"
_EITHER = """\
first.depends_on(second, kind=nisa.dependency.{kind})
second.depends_on(first, kind=nisa.dependency.{kind})"""
_SCHEDULES = (
    (
        f"{_ISSUED}\nsecond.depends_on({{producer}})",
        {"producer": ("'first'", "None", "3", "ints", "[first]", "grid", "second", "first, None")},
    ),
    (
        f"{_ISSUED}\nsecond.depends_on(first, kind={{kind}})",
        {"kind": ("'runtime'", "3", "True", "nisa.engine.vector", "nisa.NkiInstruction")},
    ),
    (
        f"{_ISSUED}\n{_EITHER}",
        {"kind": ("runtime", "schedule")},
    ),
    (
        f"{_AGAIN}\nfirst.depends_on(second, kind=nisa.dependency.{{kind}})",
        {"kind": ("runtime", "schedule")},
    ),
    ("nisa.memset(dst=ints, value=1, name={name})", {"name": ("3", "ints", "b''")}),
)
EDGES = (
    (("missing", "a0"),),
    (("a0", "a0"),),
    (("a0", "missing"), ("b0", "a0")),
    (("a0", "b0"), ("b0", "a0")),
    ("a0",),
    (("a0", 3),),
    (("a0", "b0", "c0"),),
    (3,),
)
"""Schedules that nothing takes."""

MISTAKES = (*_GRIDS, *_SCALARS, *_COLLECTIVES, *_REMOVED, *_SCHEDULES)
"""(text, what each name in braces may be)."""

_TRIGGER = "ncc.all_to_all_v_trigger(ready)"
_READY = "ready = ncc.all_to_all_v_prepare([src], [dst], group, counts)"
EXCHANGES = (
    (_TRIGGER, "pass"),
    (_TRIGGER, f"{_TRIGGER}; {_TRIGGER}"),
    (_TRIGGER, "ncc.all_gather_v_trigger(ready)"),
    (_TRIGGER, "ncc.all_to_all_v_trigger(group)"),
    (_READY, f"{_READY}; {_READY}"),
    (_READY, "ready = None"),
    (_READY, _READY.replace("group, ", "None, ")),
    (_READY, _READY.replace("counts", "counts[0:2]")),
    (_READY, _READY.replace("[src]", "[src, src]")),
)
"""Statements of an exchange in two steps, and what nothing takes in their place."""
