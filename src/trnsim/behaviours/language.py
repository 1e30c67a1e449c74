"""The language of kernels: control flow, arguments, results, buffers."""

from __future__ import annotations

from typing import Final

from trnsim.behaviours.behaviour import Behaviour, Effect

_GUIDE = "nki/migration/index.rst"

WHILE_REGISTER: Final = Behaviour(
    name="while-register",
    until="0.7",
    form="while register:",
    rule="`while register:` is a loop on the device",
    otherwise="a register has no value while the kernel is traced",
    instead="make the body a function that returns the next register, "
    "and call nl.while_loop(register, body)",
    source="release notes of NKI 0.7; nki/migration/index.rst, dynamic while loops",
)
LIST_ARGUMENTS: Final = Behaviour(
    name="list-arguments",
    until="0.3",
    rule="an argument of a kernel may be a list",
    otherwise="an argument of a kernel may not be a list",
    instead="pass tuple(...)",
    source=f"{_GUIDE}, Replace list kernel arguments with tuples",
)
OUTPUT_IN_ANY_HBM: Final = Behaviour(
    name="output-in-any-hbm",
    until="0.3",
    rule="a kernel may return a tensor in nl.hbm",
    otherwise="outputs must be in nl.shared_hbm",
    instead="allocate it with buffer=nl.shared_hbm",
    source=f"{_GUIDE}, Output tensors must use nl.shared_hbm",
)
STRING_BUFFERS: Final = Behaviour(
    name="string-buffers",
    until="0.3",
    form='buffer="sbuf"',
    rule="a buffer may be named by a string",
    otherwise="a buffer is an object: nl.sbuf, nl.psum, nl.private_hbm, nl.shared_hbm",
    instead="write the object: buffer=nl.sbuf",
    source=f"{_GUIDE}, String buffer names no longer supported",
)
BUILTIN_BUFFERS: Final = Behaviour(
    name="builtin-buffers",
    until="0.3",
    form="sbuf.view()",
    rule="sbuf, psum and hbm are names in kernels, whose .view(dtype, shape) allocates",
    otherwise="sbuf, psum and hbm are no names in kernels",
    instead="nl.ndarray(shape, dtype, buffer=nl.sbuf)",
    source="nki-dma-overview.rst of v2.28",
)
PLATFORM_TARGET: Final = Behaviour(
    name="jit-platform-target",
    until="0.3",
    form="nki.jit(platform_target=)",
    rule="nki.jit(platform_target=) names the chip",
    otherwise="nki.jit(platform_target=) is an error",
    instead="set NEURON_PLATFORM_TARGET_OVERRIDE, or trnsim.run(kernel, ..., target=...)",
    source=f"{_GUIDE}, nki.jit(platform_target=...)",
)
MODE_OF_JIT: Final = Behaviour(
    name="jit-mode",
    until="0.3",
    rule="nki.jit(mode=) names the framework",
    otherwise="nki.jit(mode=) is ignored, with a warning where the user has chosen the version",
    instead="leave mode out: the arguments tell the framework",
    source=f"{_GUIDE}, nki.jit(mode=...)",
    effect=Effect.warned,
)
OLD_NAMESPACE_WARNS: Final = Behaviour(
    name="neuronxcc-in-kernels-warns",
    since="0.3",
    until="0.4",
    rule="names of neuronxcc.nki inside a kernel are deprecated",
    otherwise="names of neuronxcc.nki inside a kernel do not warn",
    instead="import nki, nki.language and nki.isa",
    source=f"{_GUIDE}, neuronxcc.nki.* inside kernels",
    effect=Effect.warned,
)
OLD_NAMESPACE: Final = Behaviour(
    name="neuronxcc-in-kernels",
    until="0.4",
    form="neuronxcc.nki in a kernel",
    rule="names of neuronxcc.nki inside a kernel are accepted, from 0.3 with a warning",
    otherwise="names of neuronxcc.nki inside a kernel are a compile error",
    instead="import nki, nki.language and nki.isa",
    source=f"{_GUIDE}, neuronxcc.nki.* inside kernels",
)
UNMIXED: Final = Behaviour(
    name="not-mixed-with-0.2",
    since="0.3",
    rule="kernels of NKI 0.2 and of later versions may not be in one model",
    otherwise="all kernels of a model are of NKI 0.2",
    instead="update every kernel of the model, or pin them all to 0.2",
    source="release notes of NKI 0.3, Breaking Changes, note",
)
DYNAMIC_LOOPS_WARN: Final = Behaviour(
    name="dynamic-loops-warn",
    since="0.6",
    rule="nl.dynamic_range and `while register:` warn that they will be removed",
    otherwise="nl.dynamic_range and `while register:` do not warn",
    instead="use nl.fori_loop and nl.while_loop",
    source="release notes of NKI 0.6, Deprecated and Removed APIs",
    effect=Effect.warned,
)
DYNAMIC_VARIABLE_IS_REGISTER: Final = Behaviour(
    name="dynamic-variable-is-register",
    since="0.4",
    rule="the variable of nl.dynamic_range is a register, which gives offsets",
    otherwise="the variable of nl.dynamic_range is a scalar, which is no offset",
    instead="use nl.affine_range or nl.static_range where offsets depend on the variable",
    source="release notes of NKI 0.3, Known Issues, Control Flow",
)
NO_BARE_STAR: Final = Behaviour(
    name="no-keyword-only-parameters",
    since="0.3",
    until="0.6",
    rule="a `*` in the signature of a kernel is refused",
    otherwise="parameters of a kernel may stand behind `*`",
    instead="leave the `*` out, and put parameters with defaults at the end",
    source=f"{_GUIDE}, Remove keyword-only argument separator",
)
IS_OF_NONE: Final = Behaviour(
    name="is-of-none-alone",
    since="0.3",
    until="0.6",
    rule="`is` is refused in kernels, but for `is None`, which AWS's own library has",
    otherwise="`is` and `is not` compare anything",
    instead="write == or !=",
    source=f"{_GUIDE}, Replace is / is not with == / !=",
)
EQUAL_OBJECTS: Final = Behaviour(
    name="equal-objects",
    until="0.7",
    rule="`==` of instances of an nl.NKIObject class compares their attributes",
    otherwise="`==` of instances of an nl.NKIObject class is Python's: identity, unless the class "
    "has an __eq__, as a dataclass has",
    instead="decorate the class with @dataclass, or compare the attributes",
    source="nki-language-guide.rst, Enumerations (Equality in NKI is structural); release notes of "
    "NKI 0.7",
    effect=Effect.values,
)
FUNCTIONS_OF_TILES: Final = Behaviour(
    name="functions-of-tiles",
    since="0.3",
    rule="operators of nki.language are also functions of tiles: nl.add(a, b)",
    otherwise="operators of nki.language are only names for `op` of an instruction",
    instead="issue the instruction: nisa.tensor_tensor(dst, a, b, op=nl.add), or nisa.activation",
    source="the stub of nki.language of v2.28; nki/migration/index.rst, nki.language APIs",
)
LOOP_VARIABLE_COMPUTES: Final = Behaviour(
    name="loop-variable-computes",
    since="0.7",
    rule="arithmetic on the variable of nl.fori_loop gives offsets and bounds",
    otherwise="the variable of nl.fori_loop is only read: as scalar_offset of an access pattern, "
    "as an index",
    instead="let the pattern multiply and add: tensor.ap(pattern, offset=..., scalar_offset=i) of "
    "a tensor with a dimension for i; or keep a count in SBUF, and load it with "
    "nisa.register_load",
    source=f"{_GUIDE}, Rules for migrated loops",
)
