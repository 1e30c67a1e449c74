import struct
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.jax.stablehlo import exported
from trnsim.jax.stablehlo.hlo import PROTO_KIND, TEXT_KIND, kind_of_hlo, stablehlo_of_hlo
from trnsim.jax.wire import bytes_field

TEXT = b"""HloModule m

ENTRY e {
  a = f32[8,16]{1,0} parameter(0)
  b = f32[16,4]{1,0} parameter(1)
  d = f32[8,4]{1,0} dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[8,4]{1,0} tanh(d)
}
"""


@pytest.fixture(scope="module")
def proto():
    lowered = jax.jit(lambda a, b: jnp.tanh(a @ b)).lower(jnp.ones((8, 16)), jnp.ones((16, 4)))
    return lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()


def test_kinds_are_told_from_the_bytes(proto):
    assert kind_of_hlo(TEXT) == kind_of_hlo(b"// a comment\n" + TEXT) == TEXT_KIND
    assert kind_of_hlo(proto) == PROTO_KIND
    assert kind_of_hlo(bytes_field(1, proto)) == PROTO_KIND  # a HloProto
    assert kind_of_hlo(bytes_field(1, bytes_field(1, proto))) == PROTO_KIND  # a HloSnapshot


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"\n\x01",
        b"module { }",
        b"ML\xefR",
        b"\x80\x04.",
        b"PK\x03\x04",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        bytes_field(1, b"a name"),
        bytes_field(3, b"no name"),
        bytes_field(1, b"\xff") + bytes_field(3, b""),
        b"[" * 100_000,
        struct.pack("<QQ", 2, 1024) + bytes(2000),
    ],
)
def test_what_is_no_hlo_is_none(content):
    assert kind_of_hlo(content) == ""


@pytest.mark.slow
def test_text_and_proto_are_one_program(proto):
    arrays = [np.ones((8, 16), np.float32), np.full((16, 4), 0.01, np.float32)]
    for content in (TEXT, proto, bytes_field(1, proto)):
        model = exported.of_bytes(content, "m", "m").model_graph
        assert model.operators == ("stablehlo.dot", "stablehlo.tanh")
        (found,) = model.graph.reference(arrays)
        np.testing.assert_allclose(found, np.tanh(arrays[0] @ arrays[1]), rtol=1e-6)


HARMFUL = {
    "no operation": (TEXT.replace(b"tanh(d)", b"tanq(d)"), r"is no program of HLO: .*tanq"),
    "no end": (TEXT[:-3], r"is no program of HLO"),
    "sides beyond 64 bits": (
        TEXT.replace(b"[8,16]", b"[4611686018427387904,16]"),
        r"is no program of HLO: .*overflow",
    ),
    "brackets without an end": (
        TEXT.replace(b"f32[8,16]{1,0} parameter", b"(" * 20_000 + b" parameter"),
        r"is no program of HLO|XLA's reader ended on it \(signal 11\)",
    ),
    "a constant beyond any memory": (
        TEXT.replace(b"parameter(1)", b"constant({...})").replace(b"16,4]", b"16,40000000000000]"),
        r"is no program of HLO|XLA's reader ended on it",
    ),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_hlo_is_refused_and_ends_no_process_of_ours(name):
    content, message = HARMFUL[name]
    with pytest.raises(BadInput, match=message):
        stablehlo_of_hlo(content, "m.hlo")


def test_a_process_that_takes_too_long_is_named(monkeypatch):
    from trnsim.jax.stablehlo import hlo  # noqa: PLC0415

    def expire(*_, timeout, **__):
        raise hlo.subprocess.TimeoutExpired("python", timeout)

    monkeypatch.setattr(hlo.subprocess, "run", expire)
    with pytest.raises(BadInput, match="m: XLA read this HLO for 600 s"):
        stablehlo_of_hlo(TEXT, "m")


@pytest.mark.parametrize("content", [b"/" * 60_000, b"/**/" * 15_000, b"/* x */ // y\n" * 4_000])
def test_bytes_like_many_comments_are_told_at_once(content):
    """The old expression took a second for 88 bytes, and twice that for 4 more."""
    assert kind_of_hlo(content) == ""
