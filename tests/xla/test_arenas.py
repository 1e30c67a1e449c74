"""Tensors within nested values, by values that hold themselves, twice the same and none."""

from collections import OrderedDict, namedtuple

import torch

from trnsim.xla.arenas import ToXlaTensorArena, copy_to_device, copy_to_host

Pair = namedtuple("Pair", "left right")  # noqa: PYI024  a program's own


class Holder:
    def __init__(self, value):
        self.value = value


def doubled(data):
    calls = []

    def convert(numbers):
        calls.append(numbers)
        return [2 * number for number in numbers]

    return ToXlaTensorArena(convert, lambda value: type(value) is int).transform(data), calls


def test_every_nesting_is_rebuilt_in_one_call():
    data = [1, (2, {"a": 3}), Pair(4, "x"), OrderedDict(b=5), Holder(6), {7}]
    result, calls = doubled(data)
    assert calls == [[1, 2, 3, 4, 5, 6, 7]]
    assert result[:4] == [2, [4, {"a": 6}], [8, "x"], {"b": 10}]
    assert type(result[3]) is dict
    assert result[4].value == 12
    assert result[5] == {14}
    assert data[1] == (2, {"a": 3})
    assert data[4].value == 6


def test_a_value_without_tensors_is_rebuilt_too():
    data = ["x", {"y": None}, ("z",), Holder("w")]
    result, calls = doubled(data)
    assert result == ["x", {"y": None}, ["z"], data[3]]
    assert result is not data
    assert calls == []


def test_a_tensor_that_occurs_twice_is_one_again():
    tensor = torch.ones(2, device="neuron")
    result = copy_to_host({"a": tensor, "b": [tensor]})
    assert result["a"] is result["b"][0]
    assert result["a"].device.type == "cpu"


def test_a_list_within_itself_ends():
    data = [1]
    data.append(data)
    result, _ = doubled(data)
    assert result[0] == 2
    assert result[1] is result


def test_tensors_of_the_host_go_to_the_device_and_those_there_stay():
    there = torch.ones(1, device="neuron")
    result = copy_to_device([torch.zeros(1), there, "label"], "neuron")
    assert result[0].device.type == "neuron"
    assert result[1] is there
    assert result[2] == "label"


def test_classes_functions_and_modules_are_no_nests():
    data = [Holder, doubled, torch]
    assert copy_to_host(data) == data
