"""Lines that no chip takes, on any generation: (text, what is drawn for each name in braces).

What each breaks is a sentence of AWS's page of the instruction in nki.isa, or of nki.language.
"""

OF_TENSORS = """\
floats, words = nl.ndarray((32, 8), dtype=nl.float32), nl.ndarray((32, 8), dtype=nl.uint32)
halves, bytes_ = nl.ndarray((32, 8), dtype=nl.bfloat16), nl.ndarray((32, 8), dtype=nl.uint8)
small, sums = nl.ndarray((32, 8), dtype=nl.float8_e4m3), nl.ndarray((8, 8), nl.float32, nl.psum)
packed, bounds = words.view(nl.float8_e4m3fn_x4), nl.ndarray((1, 2, 8), dtype=nl.float32)
nans = nl.full((1, 1), float("nan"), dtype=nl.float32)
for tensor in (floats, words, halves, bytes_, small):
    nisa.memset(dst=tensor, value=1)"""

_GROUPS = {
    "data": ("floats", "halves[0:16]", "halves[0:31]", "words", "None"),
    "dst": ("floats", "words", "halves"),
}
_SPARSE = "current_core().issue(isa.nc_matmul_sparse(sums, {moving}, {stationary}, {tag}, {ratio}))"
_DOUBLE = "perf_mode=nisa.matmul_perf_mode.double_row"
_MANY = (40, 1000, 0, -1, 2.5, "'x'")

_MATMULS = (
    ("nisa.quantize_mx({dst}, {data}, bytes_)", _GROUPS),
    ("nisa.quantize_mx(nl.ndarray((32, 3), nl.float8_e4m3fn_x4), halves, bytes_)", {}),
    (
        "nisa.nc_matmul_mx(sums, {data}, {dst}, bytes_, bytes_)",
        {**_GROUPS, "data": ("floats", "small", "words")},
    ),
    (
        "nisa.nc_matmul_mx({dst}, packed[{rows}], packed{columns}, {scale}, bytes_)",
        {
            "dst": ("sums", "floats"),
            "rows": ("0:16", "0:31", "0:32, 0:3", "0:0"),
            "columns": ("[0:16]", ".view(nl.int8)", "[0:32, 0:7]"),
            "scale": ("bytes_", "floats", "words", "bytes_[0:1]"),
        },
    ),
    (
        "nisa.nc_matmul(sums, {stationary}, {moving}, " + _DOUBLE + ")",
        {
            "stationary": ("floats", "small", "halves.reshape((32, 2, 4))"),
            "moving": ("small", "small.reshape((32, 4, 2))", "words", "halves"),
        },
    ),
    (
        _SPARSE,
        {
            "moving": ("halves", "halves.reshape((32, 2, 4))[0:3]", "words"),
            "stationary": ("halves", "floats", "halves[0:3]"),
            "tag": ("words", "bytes_", "nl.ndarray((32, 2), dtype=nl.uint16)"),
            "ratio": (2, 5, 0, -1, None, 2.5),
        },
    ),
    ("nisa.nc_matmul(sums, {index}, halves)", {"index": ("words", "halves[0:16]", "bytes_", "3")}),
)

_SORTING = (
    (
        "nisa.topk({val}, {idx}, halves, {n})",
        {
            "val": ("halves", "floats"),
            "idx": ("floats", "halves"),
            "n": (0, 7, 42, 257, 65536, -1, None, 2.5, "halves", "'x'"),
        },
    ),
    ("nisa.topk(halves, words, halves, {n})", {"n": (0, 7, 257, 1 << 16, -1, None, 8.5, "'x'")}),
    ("nisa.topk(halves[0:8], words[0:8], halves[0:8], n=16)", {}),
    ("nisa.max8(floats, {src})", {"src": ("floats[:, 0:4]", "None", "3.0", "floats[0:8]")}),
    ("nisa.max8(floats[:, 0:{n}], floats)", {"n": (1, 7)}),
    (
        "nisa.nc_find_index8({dst}, floats, floats)",
        {"dst": ("floats", "words[:, 0:4]", "words[0:4]")},
    ),
    (
        "nisa.nc_match_replace8(floats, floats, {vals}, {imm})",
        {"vals": ("floats[:, 0:7]", "floats[0:7]"), "imm": (1.0, "floats", None, "'x'")},
    ),
    (
        "nisa.nc_match_replace8(floats, floats, floats, {imm})",
        {"imm": ("floats", None, "'x'", "nl.add", "(1,)")},
    ),
    (
        "nisa.nonzero_with_count({dst}, {src})",
        {"dst": ("words", "floats", "words.view(nl.int32)"), "src": ("floats", "halves", "None")},
    ),
    (
        "nisa.sequence_bounds({dst}, {ids})",
        {"dst": ("floats", "words", "floats[0:1]"), "ids": ("floats[0:1]", "halves[0:1]", "None")},
    ),
    (
        "nisa.memset(floats, {value})\nnisa.sequence_bounds(bounds, floats[0:1])",
        {"value": (-1.0, 0.5, "float('inf')")},
    ),
)

_RANDOM = (
    ("nisa.rng({dst})", {"dst": ("floats", "halves", "None", "3", "words[0:0]")}),
    ("nisa.rng(words, engine=nisa.engine.{name})", {"name": ("scalar", "tensor", "sync")}),
    ("nisa.rng(nl.ndarray((4, 4), nl.uint32, nl.psum), engine=nisa.engine.gpsimd)", {}),
    (
        "nisa.dropout(floats, floats, prob={prob})",
        {"prob": (1.5, -0.1, "float('nan')", None, "'x'", "words", "floats", "floats[0:3, 0:1]")},
    ),
    ("nisa.dropout({dst}, floats, prob=0.5)", {"dst": ("halves", "words", "floats[0:3]")}),
    ("nisa.set_rng_seed({seed})", {"seed": ("words", "bytes_[0:1, 0:1]", "7", "None", "halves")}),
    ("nisa.rand_set_state({seeds})", {"seeds": ("words", "floats", "words[:, 0:5]", "None", "1")}),
    ("nisa.rand_get_state({dst})", {"dst": ("words", "floats", "words[:, 0:5]", "None")}),
    (
        "nisa.rand_set_state(words[:, 0:6], engine=nisa.engine.{name})",
        {"name": ("vector", "scalar", "tensor")},
    ),
    (
        "nisa.rand2(floats, {low}, {high})",
        {"low": (2.0, "floats", None, "words[:, 0:1]"), "high": (1.0, "'x'", "halves[:, 0:1]")},
    ),
)

_INDIRECT = (
    ("nisa.tensor_copy(floats, floats.indirect(words, {n}))", {"n": _MANY}),
    ("nisa.tensor_copy(floats, floats.indirect(words))", {}),
    ("nisa.tensor_copy(floats, floats.indirect({index}, 8))", {"index": ("floats", "3", "None")}),
    ("nisa.tensor_copy(floats, floats.indirect(words[0:16], 8))", {}),
    ("nisa.tensor_copy(floats, floats.indirect(words, 8){view})", {"view": ("[0:16]", "[:, 0:4]")}),
    ("nisa.tensor_copy(floats, floats[:, 0:1].indirect(words, 8))", {}),
    ("nisa.max8(floats, floats.indirect(words, 8))", {}),
    ("nisa.dma_copy(floats, floats.indirect(words, 8))", {}),
    ("nisa.tensor_tensor(floats, floats, floats.indirect(words, 8), op=nl.add)", {}),
    ("nisa.nc_matmul(sums, halves.indirect(words, {n}), halves)", {"n": (*_MANY, 300)}),
    ("nisa.tensor_copy(floats, floats.indirect(words, 8).{view})", {"view": ("reshape((32, 8))",)}),
    ("floats.indirect(words, 8).indirect(words, 8)", {}),
)

_CONTROL = (
    ("r = nisa.register_alloc()\nnisa.register_store(words[0:1, 0:1], r)", {}),
    (
        "r = nisa.register_alloc({value})\nnisa.tensor_copy(floats[:, 0:4], floats[:, {index}])",
        {"value": (5, 8, 100, -1), "index": ("nl.ds(r, 4)", "nl.ds(r * 4, 4)")},
    ),
    (
        "nisa.tensor_copy(floats[:, 0:4], floats.ap([[8, 32], [1, 4]], scalar_offset={register}))",
        {"register": (8, "floats", "nisa.register_alloc(100)", "nisa.register_alloc(-1)", "words")},
    ),
    ("r = nisa.register_alloc(1)\nnisa.register_load(r, {src})", {"src": ("words", "r", "3")}),
    ("r = nisa.register_alloc(1)\nnisa.register_store({dst}, r)", {"dst": ("words", "r", "None")}),
    ("nisa.register_alloc({x})", {"x": (1 << 40, -(1 << 31) - 1, "floats", 2.5)}),
    (
        "floats.{view}",
        {"view": ("select(1, words)", "select(1, floats[0:1, 0:1])", "select(1, 9)")},
    ),
    ("nl.program_id({axis})", {"axis": ("floats", 1, -1, "'x'", 0.5, "(0,)", "range(1)")}),
    ("nl.matmul(floats, floats, transpose_x={x})", {"x": ("floats", "'x'", "(1, 2)", 2)}),
    ("nisa.register_load(nisa.register_alloc(), {src}[0:1, 0:1])", {"src": ("packed", "nans")}),
    ("nisa.tensor_scalar(packed, packed, nl.bitwise_and, 3)", {}),
    ("nisa.register_move({dst}, 3)", {"dst": ("words", "None", "3")}),
    ("r = nisa.register_alloc(1)\nnisa.register_move(r, {src})", {"src": ("words", "2.5", "'x'")}),
    (
        "r = nisa.register_alloc(1)\n{use}",
        {
            "use": (
                "r // 0",
                "r % 0",
                "r + 'x'",
                "r * None",
                "r < 4",
                "-r",
                "r / 2",
                "r & 1",
                "4 >> r",
            )
        },
    ),
    ("for i in nl.dynamic_range(2):\n    nisa.register_move(i, 0)", {}),
    (
        "for i in nl.dynamic_range({bounds}):\n    pass",
        {"bounds": ("0, 4, 0", "0, 4, -1", "'x'", "None", "words", "0, 2.5", "0, 4, 1.5")},
    ),
    (
        "nl.fori_loop({bounds}, {body})",
        {"bounds": ("0, 2", "0, None", "'x', 3"), "body": ("None", "words", "3")},
    ),
    (
        "nl.while_loop({start}, {body})",
        {
            "start": ("nisa.register_alloc(1)", "1", "words"),
            "body": ("None", "lambda r: None", "lambda r: 0"),
        },
    ),
)

WRONG = _MATMULS + _SORTING + _RANDOM + _INDIRECT + _CONTROL
