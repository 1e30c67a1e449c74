"""The before/after pairs of AWS's migration guide from 0.2 on: the same syntax trees.

The guide is nki/migration/index.rst of Neuron 2.32. Values that its snippets leave out (`...`)
have names here.
"""

import ast

import pytest

from trnsim.behaviours import VERSIONS
from trnsim.nki.forms import Reader
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.writing import rewritten_file

HEAD = """import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.isa import dma_engine

"""
PAIRS = {
    "dma_copy reads PSUM": (
        "0.3",
        """
psum_tensor = nl.ndarray((TILE, PSUM_SIZE), dtype=nl.float32, buffer=nl.psum)
nisa.dma_copy(dst=hbm_tensor, src=psum_tensor[0:TILE, 0:N])
""",
        """
psum_tensor = nl.ndarray((TILE, PSUM_SIZE), dtype=nl.float32, buffer=nl.psum)
sbuf_temp = nl.ndarray((TILE, PSUM_SIZE), dtype=nl.float32, buffer=nl.sbuf)
nisa.tensor_copy(dst=sbuf_temp[0:TILE, 0:N], src=psum_tensor[0:TILE, 0:N])
nisa.dma_copy(dst=hbm_tensor, src=sbuf_temp[0:TILE, 0:N])
""",
    ),
    "dge_mode of two dtypes": (
        "0.3",
        """
dst_f4 = nl.ndarray((128, 8), dtype=nl.float4_e2m1fn_x4)
src_ui16 = nl.ndarray((128, 8), dtype=nl.uint16)
nisa.dma_copy(dst=dst_f4, src=src_ui16, dge_mode=nisa.dge_mode.hwdge)
""",
        """
dst_f4 = nl.ndarray((128, 8), dtype=nl.float4_e2m1fn_x4)
src_ui16 = nl.ndarray((128, 8), dtype=nl.uint16)
nisa.dma_copy(dst=dst_f4, src=src_ui16.view(nl.float4_e2m1fn_x4), dge_mode=nisa.dge_mode.hwdge)
""",
    ),
    "read-modify-write in a loop": (
        "0.3",
        """
for k_idx in range(K):
    dst_rmw_op = None if k_idx == 0 else nl.add
    nisa.dma_copy(
        src=input.ap(pattern),
        dst=reduced_sb[:, :],
        dst_rmw_op=dst_rmw_op,
        unique_indices=True,
    )
""",
        """
for k_idx in range(K):
    src_access = input.ap(pattern)
    if k_idx == 0:
        nisa.dma_copy(dst=reduced_sb[:, :], src=src_access)
    else:
        nisa.dma_compute(
            dst=reduced_sb[:, :],
            srcs=[src_access, reduced_sb[:, :]],
            reduce_op=nl.add,
            unique_indices=True,
        )
""",
    ),
    "memset": (
        "0.3",
        """
buf = nl.ndarray((128, 128), dtype=nl.int32, buffer=nl.sbuf)
nisa.memset(dst=buf, value=2.0)
""",
        """
buf = nl.ndarray((128, 128), dtype=nl.int32, buffer=nl.sbuf)
nisa.memset(dst=buf, value=2)
""",
    ),
    "dma_compute": (
        "0.3",
        "nisa.dma_compute(dst, srcs, scales, nl.add)",
        "nisa.dma_compute(dst, srcs, nl.add, scales=scales)",
    ),
    "sendrecv": (
        "0.3",
        (
            "nisa.sendrecv(a, b, 0, 0, 0, use_gpsimd_dma=True)\n"
            "nisa.sendrecv(a, b, 0, 0, 0, use_gpsimd_dma=False)"
        ),
        (
            "nisa.sendrecv(a, b, 0, 0, 0, dma_engine=dma_engine.gpsimd_dma)\n"
            "nisa.sendrecv(a, b, 0, 0, 0, dma_engine=dma_engine.dma)"
        ),
    ),
    "affine_select": (
        "0.3",
        "nisa.affine_select(dst, pattern, offset, channel_multiplier, on_true, on_false)",
        "nisa.affine_select(dst, pattern, channel_multiplier, on_true, on_false, offset=offset)",
    ),
    "register_move": (
        "0.3",
        "nisa.register_move(dst, imm=42)",
        "src = nisa.register_alloc(42)\nnisa.register_move(dst, src)",
    ),
    "num_channels": (
        "0.3",
        """
rank_id = ncc.collective_permute_implicit_current_processing_rank_id(
    iteration_id=0, channel_id=ch, num_channels=N, replica_group=rg
)
""",
        """
rank_id = ncc.collective_permute_implicit_current_processing_rank_id(
    iteration_id=0, channel_id=ch, replica_group=rg
)
""",
    ),
    "outputs": (
        "0.3",
        "output = nl.ndarray((B, C, L), dtype=x.dtype, buffer=nl.hbm)\nreturn output",
        "output = nl.ndarray((B, C, L), dtype=x.dtype, buffer=nl.shared_hbm)\nreturn output",
    ),
    "enumerations": (
        "0.3",
        "nisa.dma_copy(src=src_tensor, dst=dst_tensor, dge_mode=2)",
        "nisa.dma_copy(src=src_tensor, dst=dst_tensor, dge_mode=nisa.dge_mode.hwdge)",
    ),
    **{
        f"buffer {name}": (
            "0.3",
            f"buf = nl.ndarray((128, 512), dtype=nl.float16, buffer='{name}')",
            f"buf = nl.ndarray((128, 512), dtype=nl.float16, buffer=nl.{name})",
        )
        for name in ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")
    },
    "keyword-only parameters": (
        "0.3",
        "@nki.jit\ndef my_kernel(X: nl.ndarray, *, flag: bool = True, scale: float = 1.0):\n  pass",
        "@nki.jit\ndef my_kernel(X: nl.ndarray, flag: bool = True, scale: float = 1.0):\n  pass",
    ),
    "is": ("0.3", "if some_flag is True:\n    pass", "if some_flag == True:\n    pass"),
    "is not": ("0.3", "if some_flag is not True:\n  pass", "if some_flag != True:\n  pass"),
    "lists": (
        "0.3",
        (
            "@nki.jit\ndef my_kernel(img, in_perm, stride=[1, 1]):\n    pass\n"
            "my_kernel(img, in_perm=[0, 3, 1, 2], stride=[1, 1])"
        ),
        (
            "@nki.jit\ndef my_kernel(img, in_perm, stride=(1, 1)):\n    pass\n"
            "my_kernel(img, in_perm=(0, 3, 1, 2), stride=(1, 1))"
        ),
    ),
    "platform_target and mode": (
        "0.3",
        "@nki.jit(platform_target='trn2', mode='jax')\ndef k(x):\n    pass",
        "@nki.jit\ndef k(x):\n    pass",
    ),
    **{
        f"dynamic_range to {version}": (
            version,
            """
reg = nisa.register_alloc()
for i in nl.dynamic_range(reg):
    nisa.dma_copy(dst=temp, src=data.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))
""",
            """
reg = nisa.register_alloc()
def body(i):
    nisa.dma_copy(dst=temp, src=data.ap([[1, 1], [1, 1]], scalar_offset=i, indirect_dim=1))

nl.fori_loop(0, reg, body)
""",
        )
        for version in ("0.6", "0.7")
    },
    **{
        f"while to {version}": (
            version,
            """
reg = nisa.register_alloc()
while reg:
    nisa.tensor_tensor(dst=acc, data1=acc, data2=val, op=nl.add)
    nisa.tensor_tensor(dst=count_sb, data1=count_sb, data2=one_sb, op=nl.subtract)
    nisa.register_load(reg, count_sb)
""",
            """
reg = nisa.register_alloc()
def body(r):
    nisa.tensor_tensor(dst=acc, data1=acc, data2=val, op=nl.add)
    nisa.tensor_tensor(dst=count_sb, data1=count_sb, data2=one_sb, op=nl.subtract)
    nisa.register_load(r, count_sb)
    return r

nl.while_loop(reg, body)
""",
        )
        for version in ("0.6", "0.7")
    },
}


def in_kernel(code):
    """The code as the body of a kernel; the text of a file if it has a kernel."""
    if "@nki.jit" in code:
        return HEAD + code + "\n"
    body = "".join(f"    {line}\n" for line in code.strip().splitlines())
    return f"{HEAD}@nki.jit\ndef kernel(x):\n{body}"


def tree(text):
    """The syntax tree with keywords by name, and NKI's names in their usual spelling."""
    parsed = ast.parse(text)
    reader = Reader(parsed)

    class Usual(ast.NodeTransformer):
        def visit(self, node):
            short = reader.short(node)
            if short:
                return ast.Name(short)
            self.generic_visit(node)
            if isinstance(node, ast.Call):
                node.keywords.sort(key=lambda keyword: keyword.arg)
            return node

    return ast.dump(Usual().visit(parsed), indent=1)


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_of_the_guide_comes_out_as_aws_writes_it(name):
    version, before, after = PAIRS[name]
    target = VERSIONS[version]
    origin = list(VERSIONS.values())[list(VERSIONS).index(version) - 1]
    new = rewritten_file(report_of(in_kernel(before), "k.py", target, origin))
    assert tree(new.text) == tree(in_kernel(after))
    assert "# nki" not in new.text


def test_a_simple_read_modify_write_keeps_dst_among_the_sources():
    """Unlike the guide's first pair, `[src]`: that would not read dst, as its second one does."""
    text = in_kernel("nisa.dma_copy(dst, src, dst_rmw_op=nl.add)")
    new = rewritten_file(report_of(text, "k.py", origin="0.2")).text
    assert "nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)" in new
