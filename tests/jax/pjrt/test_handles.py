import ctypes

from trnsim.jax.pjrt.handles import (
    Handle,
    Ring,
    Text,
    Texts,
    numbers_at,
    pointers,
    string_at,
    words,
    write_pointers,
)


def test_the_memory_of_a_handle_is_zero():
    made = Handle()
    assert ctypes.string_at(made.address, 64) == bytes(64)
    assert Handle().address != made.address


def test_a_ring_forgets_the_oldest():
    ring = Ring(2)
    first, second, third = (ring.add(item) for item in "abc")
    assert (ring.get(first), ring.get(second), ring.get(third)) == (None, "b", "c")


def test_text_is_what_c_reads():
    text = Text("eight µs")
    assert string_at(text.address, text.size).decode() == "eight µs"
    assert string_at(None, 0) == b""


def test_several_texts_are_an_array_of_addresses_and_one_of_sizes():
    texts = Texts(["a", "", b"\x00\x01"])
    addresses = numbers_at(texts.addresses.address, 3, ctypes.c_size_t)
    sizes = numbers_at(texts.sizes.address, 3, ctypes.c_size_t)
    assert [string_at(*one) for one in zip(addresses, sizes, strict=True)] == [b"a", b"", b"\0\1"]


def test_addresses_are_written_into_a_callers_array():
    room = pointers([0, 0, 0])
    write_pointers(room.address, [7, 9])
    assert numbers_at(room.address, 3, ctypes.c_size_t) == [7, 9, 0]
    assert numbers_at(None, 3) == []


def test_words_are_read_and_written_at_addresses_of_c():
    row = (ctypes.c_size_t * 3)(5, 2**64 - 1, 0)
    at = ctypes.addressof(row) >> 3
    assert words[at : at + 2] == [5, 2**64 - 1]
    words[at + 2] = 8
    assert list(row) == [5, 2**64 - 1, 8]
