import numpy as np
import pytest

from trnsim.jax.wire import (
    assignment,
    assignment_message,
    bytes_field,
    fields,
    hlo_with_config,
    module_in,
    number_field,
    varint,
)


@pytest.mark.parametrize(
    ("number", "written"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2")]
)
def test_a_number_is_seven_bits_a_byte(number, written):
    assert varint(number) == written


def test_fields_come_back():
    message = number_field(1, 2**64 - 1) + bytes_field(16, b"x" * 200)
    assert list(fields(message)) == [(1, 2**64 - 1), (16, b"x" * 200)]


@pytest.mark.parametrize("fixed", [b"\x19" + b"\x80" * 8, b"\x1d" + b"\x80" * 4])
def test_fields_of_fixed_width_are_left_out(fixed):
    message = number_field(1, 300) + fixed + bytes_field(2, b"after")
    assert list(fields(message)) == [(1, 300), (2, b"after")]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (bytes_field(2, b"name")[:-1], "no field at byte 2"),
        (b"\x1d" + bytes(3), "no field at byte 1"),
        (b"\x0b", "no field at byte 1"),
        (b"\x08\x80", "no number at byte 1"),
        (b"\xff" * 10 + b"\0", "no number at byte 0"),
        (b"\x02\0", "no field at byte 2"),
        (b"\0\0", "no field at byte 1"),
    ],
    ids=["a cut text", "a cut number", "a group", "a cut varint", "a long varint", "0", "zeros"],
)
def test_bytes_that_are_no_message_are_refused(message, problem):
    with pytest.raises(ValueError, match=problem):
        list(fields(message))


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (8, 1), (2, 3), (200, 2)])
def test_an_assignment_is_written_as_xla_writes_it(shape):
    from jaxlib import xla_client  # noqa: PLC0415

    devices = np.arange(shape[0] * shape[1], dtype=np.int32)[::-1].reshape(shape)
    theirs = xla_client.DeviceAssignment.create(devices).serialize()
    np.testing.assert_array_equal(assignment(theirs), devices)
    np.testing.assert_array_equal(assignment(assignment_message(devices)), devices)


def test_the_layout_of_a_module_is_that_of_its_host_program():
    module = bytes_field(1, b"name") + bytes_field(4, b"shape")
    assert list(fields(hlo_with_config(module))) == [(1, module), (2, bytes_field(1, b"shape"))]


def test_a_module_is_found_beside_other_things():
    hlo = number_field(7, 3) + bytes_field(3, b"buffers") + bytes_field(1, b"module")
    assert module_in(hlo) == b"module"
