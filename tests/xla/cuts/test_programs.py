"""Programs: which are equal, and long chains of calls."""


def test_equal_programs_share_a_digest_and_others_do_not():
    import torch

    from trnsim.xla.cuts.programs import program_of
    from trnsim.xla.cuts.values import HostNumber, Operand, RecordedCall, RecordedValue, Signature

    geometry = ((4, 4), (4, 1), 0, torch.float32)
    add = Signature("aten::add.Tensor", "add", (Operand(0), Operand(1)), (), (geometry,))
    double, triple = HostNumber(2.0, torch.float32), HostNumber(3.0, torch.float32)

    def total(first, second, **options):
        return program_of(
            [RecordedValue(geometry, RecordedCall(add, (first, second), None, 0))], **options
        )

    data, other = RecordedValue(geometry), RecordedValue(geometry)
    two = total(data, other).digest
    assert total(RecordedValue(geometry), RecordedValue(geometry)).digest == two
    assert total(data, data).digest != two  # one input
    assert total(data, double).digest == total(other, triple).digest  # numbers are inputs
    assert total(data, double).digest != two
    assert total(data, other, is_read=True).digest != two
    assert total(data, other, overwritten_values=[other]).digest != two
    assert (
        total(data, other, overwritten_values=[RecordedValue(geometry)]).digest == two
    )  # it reads no such data
    narrow = ((4, 1), (1, 1), 0, torch.float32)
    assert total(RecordedValue(narrow), other).digest != two
    another_layout = RecordedValue(((4, 4), (1, 4), 0, torch.float32), source=data)
    assert total(data, another_layout).digest == total(data, data).digest


def test_a_chain_longer_than_pythons_stack_is_a_program():
    import torch

    from trnsim.xla.cuts.programs import program_of
    from trnsim.xla.cuts.values import Operand, RecordedCall, RecordedValue, Signature

    geometry = ((), (), 0, torch.float32)
    neg = Signature("aten::neg", "neg", (Operand(0),), (), (geometry,))
    value = RecordedValue(geometry)
    for number in range(10_000):
        value = RecordedValue(geometry, RecordedCall(neg, (value,), None, number))
    program = program_of([value, value])
    assert (len(program.nodes), len(program.inputs), len(program.outputs)) == (10_000, 1, 1)
    assert [node.number for node in program.nodes] == list(range(10_000))
