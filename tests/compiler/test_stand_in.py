import hashlib
import json
import struct

import pytest

from trnsim.compiler.stand_in import StandIn, is_neff, is_program, parse_program
from trnsim.errors import BadInput

STORED = StandIn("trn2", 2, ("--target=trn2",), "2.27", "hlo", b"a\nb\0c", {"time_s": 1.5})
FILE = STORED.serialized()


def neff(major=2, minor=5, header=1024):
    start = struct.pack("<QQQQQ", 2, header, 100, major, minor)
    return start.ljust(1024, b"\0") + b"\x1f\x8b" + bytes(98)


def changed(**values):
    head, words, _, body = FILE.split(b"\n", 3)
    header, _, graph = body.partition(b"\n")
    stored = json.loads(header) | values
    body = json.dumps(stored).encode() + b"\n" + graph
    return b"\n".join([head, words, hashlib.sha256(body).hexdigest().encode(), body])


def test_a_program_is_read_back():
    assert parse_program(FILE, "x") == STORED
    assert parse_program(changed(), "x") == STORED


def test_its_first_lines_say_what_it_is():
    lines = FILE.split(b"\n")
    assert lines[0] == b"trnsim program 1"
    assert lines[1].startswith(b"This file stands in place of a NEFF.")
    assert is_program(FILE)


def test_it_is_no_neff_to_what_reads_a_neffs_header():
    assert not is_neff(FILE)
    assert int.from_bytes(FILE[8:16], "little") != 1024  # header_size
    assert is_neff(neff())
    assert not is_neff(neff()[:1024])
    assert not is_neff(neff(header=512))
    assert not is_neff(neff(major=1000))


def test_a_neff_is_named():
    with pytest.raises(BadInput, match=r"^m is a NEFF of AWS's compiler, version 2\.5: its instr"):
        parse_program(neff(), "m")


@pytest.mark.parametrize("content", [b"", b"x", b"\x80\x04}", b"trnsim graph 1\n"])
def test_what_is_no_program_is_refused(content):
    with pytest.raises(BadInput, match=r"^m is no program of trnsim"):
        parse_program(content, "m")


@pytest.mark.parametrize(
    "content",
    [FILE[:-1], FILE + b"x", FILE.replace(b"trn2", b"trn1", 1), b"trnsim program 1\n", FILE[:200]],
)
def test_a_program_that_was_cut_off_or_changed_is_refused(content):
    with pytest.raises(BadInput, match="the program was cut off or changed"):
        parse_program(content, "m")


def test_another_version_is_named():
    with pytest.raises(BadInput, match=r"in format b'2'; this one reads 1"):
        parse_program(FILE.replace(b"program 1", b"program 2", 1), "m")


@pytest.mark.parametrize(
    "values",
    [
        {"graph_bytes": 4},
        {"report": []},
        {"lnc": "2"},
        {"flags": [1]},
        {"flags": None},
        {"flags": "-O1"},
        {"lnc": True},
        {"target": 3},
        {"graph_format": None},
    ],
)
def test_a_header_of_other_kinds_is_refused(values):
    with pytest.raises(BadInput, match=r"header of (the|a) program|no header of a program"):
        parse_program(changed(**values), "m")
