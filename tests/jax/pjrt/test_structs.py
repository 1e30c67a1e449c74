"""Every offset of PJRT's structs: by C's rule, by a C compiler, and as other tables have them."""

import ctypes
import shutil
import subprocess

import pytest

from trnsim.jax.pjrt.structs import (
    enumeration,
    fill_struct,
    slots,
    struct,
    version,
    word_places,
)

SIZES = {"ptr": 8, "size": 8, "i64": 8, "u64": 8, "i32": 4, "f32": 4, "bool": 1}
C_TYPES = {
    "ptr": "void *",
    "size": "size_t",
    "i64": "int64_t",
    "u64": "uint64_t",
    "i32": "int32_t",
    "f32": "float",
    "bool": "_Bool",
}


def table():
    """The table's own lines, read without the code under test."""
    from pathlib import Path  # noqa: PLC0415

    import trnsim.jax.pjrt.structs as tested  # noqa: PLC0415

    lines = Path(tested.__file__).with_name("structs.txt").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines:
        if line.startswith("struct "):
            name, _, rest = line.removeprefix("struct ").partition(": ")
            found[name] = [field.split("=") for field in rest.split()]
    return found


TABLE = table()


def laid_out(kind):
    """Size and alignment of a type by the rule of natural alignment."""
    if ":" in kind:
        members = [laid_out(one.partition(":")[2]) for one in kind.split("|")]
        align = max(one for _, one in members)
        size = max(one for one, _ in members)
        return -(-size // align) * align, align
    if kind in SIZES:
        return SIZES[kind], SIZES[kind]
    at, widest = 0, 1
    for _, field in TABLE[kind]:
        size, align = laid_out(field)
        at, widest = -(-at // align) * align + size, max(widest, align)
    return -(-at // widest) * widest, widest


@pytest.mark.parametrize("name", TABLE)
def test_every_field_lies_where_natural_alignment_puts_it(name):
    made, at = struct(name), 0
    for field, kind in TABLE[name]:
        size, align = laid_out(kind)
        at = -(-at // align) * align
        assert getattr(made, field).offset == at, field
        at += size
    assert ctypes.sizeof(made) == laid_out(name)[0]


def c_type(kind, field):
    """A field's declaration in C."""
    if ":" in kind:
        members = [one.partition(":") for one in kind.split("|")]
        return f"union {{ {' '.join(c_type(one, name) for name, _, one in members)} }} {field};"
    return f"{C_TYPES.get(kind, f'struct {kind}')} {field};"


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler here")
def test_a_c_compiler_agrees_on_every_offset_and_size(tmp_path):
    declared = "".join(
        f"struct {name} {{ {' '.join(c_type(kind, field) for field, kind in fields)} }};\n"
        for name, fields in TABLE.items()
    )
    asked = "".join(
        f'printf("%zu\\n", sizeof(struct {name}));'
        + "".join(f'printf("%zu\\n", offsetof(struct {name}, {field}));' for field, _ in fields)
        for name, fields in TABLE.items()
    )
    includes = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
    source, program = tmp_path / "layout.c", tmp_path / "layout"
    source.write_text(f"{includes}{declared}int main(void) {{ {asked} return 0; }}\n")
    subprocess.run([shutil.which("cc"), str(source), "-o", str(program)], check=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    ours = [
        number
        for name, fields in TABLE.items()
        for number in (
            ctypes.sizeof(struct(name)),
            *(getattr(struct(name), field).offset for field, _ in fields),
        )
    ]
    assert [int(line) for line in printed.split()] == ours


@pytest.mark.parametrize(
    ("name", "size"),
    [  # as OpenXLA's header documents them at this version, on 64-bit systems
        ("Api_Version", 24),
        ("Api", 1144),
        ("NamedValue", 56),
        ("Error_GetCode_Args", 32),
        ("Client_Compile_Args", 56),
        ("Client_BufferFromHostBuffer_Args", 120),
        ("Buffer_MemoryLayout", 80),
        ("Device_MemoryStats_Args", 208),
        ("LoadedExecutable_Execute_Args", 80),
        ("ExecuteOptions", 144),
    ],
)
def test_the_size_of_well_known_structs(name, size):
    assert ctypes.sizeof(struct(name)) == size


def test_the_table_has_the_slots_of_its_version_in_order():
    assert version() == (0, 114)
    assert len(slots()) == 138
    assert slots()[:3] == ("Error_Destroy", "Error_Message", "Error_GetCode")
    assert slots().index("LoadedExecutable_Execute") == 55
    assert slots()[-1] == "TopologyDescription_GetMemorySpaceKindIds"


def test_enumerations_have_the_numbers_of_c():
    codes = enumeration("Error_Code")
    assert (codes["OK"], codes["INVALID_ARGUMENT"], codes["UNIMPLEMENTED"]) == (0, 3, 12)
    types = enumeration("Buffer_Type")
    assert (types["PRED"], types["BF16"], types["S4"], types["F4E2M1FN"]) == (1, 13, 21, 29)
    assert enumeration("Extension_Type")["Shardings"] == 19


def test_every_struct_of_arguments_begins_with_its_size():
    for name in TABLE:
        if name.endswith("_Args"):
            assert struct(name).struct_size.offset == 0, name


def test_a_caller_that_knows_less_is_written_no_further():
    args = struct("Device_MemoryStats_Args")()
    args.struct_size = type(args).bytes_limit.offset
    fill_struct(args, bytes_in_use=3, bytes_limit=5)
    assert (args.bytes_in_use, args.bytes_limit) == (3, 0)


def test_word_places_are_offsets_in_words():
    assert word_places("Memory_Kind_Args", "kind_size", "memory") == (4, 2)
