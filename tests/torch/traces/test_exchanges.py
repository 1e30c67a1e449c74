import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.traces import exchanges
from trnsim.torch.traces.encoding import MalformedProgram
from trnsim.torch.traces.exchanges import groups_of, rank_count, replica_groups, with_exchanges
from trnsim.torch.traces.fx_program import graph_module
from trnsim.torch.traces.stored import StoredProgram

PAIRS = [[0, 2], [1, 3]]


def summed(x):
    return exchanges.all_reduce(x * 2, "sum", PAIRS) + 1


def every(x):
    gathered = exchanges.all_gather(x, PAIRS)
    part = exchanges.reduce_scatter(gathered, "max", PAIRS)
    return exchanges.all_to_all(part, PAIRS)


def test_a_name_has_the_groups_of_all_ranks():
    name = exchanges.group_name(PAIRS)
    assert name == "0,2/1,3"
    assert groups_of(name) == ((0, 2), (1, 3))
    assert groups_of("0") == ((0,),)


@pytest.mark.parametrize("name", ["", "0,1,", "0/0", "1", "0,1/2", "tp", 3, "0;1"])
def test_other_names_are_no_groups(name):
    with pytest.raises(MalformedProgram, match="an exchange of"):
        groups_of(name)


@pytest.mark.parametrize(
    ("function", "shape", "told"),
    [
        (lambda x: exchanges.reduce_scatter(x, "max", PAIRS), (5, 3), "reduce_scatter_tensor"),
        (lambda x: exchanges.reduce_scatter(x, "max", PAIRS), (1, 3), "reduce_scatter_tensor"),
        (lambda x: exchanges.all_to_all(x, PAIRS), (5, 3), "all_to_all_single"),
    ],
)
def test_a_length_that_the_ranks_do_not_divide_is_no_exchange(stored, function, shape, told):
    def run():
        _, program = stored(function, torch.ones(shape))
        replica_groups(graph_module(program, "cpu"))

    with pytest.raises(BadInput, match=told) as error:
        run()
    assert f"an exchange {told} of shape {shape} between 2 ranks" in str(error.value)


def test_a_stored_program_has_its_exchanges_which_a_function_makes(stored):
    _, program = stored(every, torch.ones(2, 3))
    module = graph_module(StoredProgram.from_bytes(program.to_bytes()), "cpu")
    assert replica_groups(module) == {"0,2/1,3": ((0, 2), (1, 3))}
    assert rank_count(module) == 4
    made = []

    def exchange(name, groups, arguments, tensor):
        made.append((name, groups, arguments, list(tensor.shape)))
        return tensor.repeat(2, 1) if name.startswith("all_gather") else tensor[:2]

    result = with_exchanges(module, exchange)(torch.ones(2, 3))
    groups = ((0, 2), (1, 3))
    assert [list(part.shape) for part in result] == [[2, 3]]
    assert made == [
        ("all_gather_into_tensor", groups, (2,), [2, 3]),
        ("reduce_scatter_tensor", groups, ("max", 2), [4, 3]),
        ("all_to_all_single", groups, ([1, 1], [1, 1]), [2, 3]),
    ]


def test_a_graph_without_exchanges_stays_as_it_is(scaled):
    module = graph_module(scaled, "cpu")
    assert with_exchanges(module, lambda *_: None) is module
    assert rank_count(module) == 1


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("0,2/1,3", "0,2/1,2", "no equal parts"),
        ("0,2/1,3", "default", "the group 'default'"),
        ('"sum"', '"premul_sum"', "all_reduce with"),
        ("all_reduce.default", "broadcast.default", "'broadcast'"),
    ],
)
def test_a_file_with_another_exchange_is_refused(stored, old, new, match):
    _, program = stored(summed, torch.ones(2, 3))
    content = program.to_bytes().decode()
    assert old in content
    changed = StoredProgram.from_bytes(content.replace(old, new).encode())
    with pytest.raises(BadInput, match=match):
        graph_module(changed, "cpu")


@pytest.mark.parametrize("args", [[], ["0,1"], [0, "sum", "0,1"], [{"%": 1}, "sum", "0,1"]])
@pytest.mark.parametrize("name", ["all_reduce", "all_to_all_single", "wait_tensor"])
def test_an_exchange_without_a_tensor_is_refused(stored, name, args):
    _, program = stored(lambda x: x.sort().indices, torch.ones(2))
    call = replace(program.calls[0], operator=f"{exchanges.LIBRARY}.{name}.default", args=args)
    with pytest.raises(BadInput, match=f"{name} of no tensor, which trnsim never writes"):
        graph_module(replace(program, calls=[program.calls[0], call]), "cpu")


def test_exchanges_of_different_numbers_of_ranks_are_refused(stored):
    def differs(x):
        return exchanges.all_reduce(exchanges.all_reduce(x, "sum", PAIRS), "sum", [[0, 1]])

    _, program = stored(differs, torch.ones(2))
    assert json.loads(program.to_bytes().split(b"\n", 2)[2])["outputs"]
    with pytest.raises(BadInput, match="exchanges of 2 and 4 ranks"):
        graph_module(program, "cpu")
