"""Parts of a call: where tensors lie, and which a call makes or writes."""


def test_parts_of_a_call_follow_its_schema():
    import torch
    import torch_xla

    from trnsim.xla.cuts.call_parts import (
        has_generator,
        is_argument_one,
        new_results,
        number_dtype,
        place_of,
        span_bytes,
        written_tensors,
    )
    from trnsim.xla.cuts.rules import rule_of

    a = torch.ones(4, 4, device=torch_xla.device())
    whole, row = place_of(a), place_of(a[1])
    assert row[0] == whole[0]  # one storage
    assert row[1] == ((4,), (1,), 4, torch.float32)
    assert place_of(torch.ones(0, device=a.device))[0] == 0
    assert span_bytes(((2, 3), (1, 4), 0, torch.float16)) == 2 * (1 + 1 + 8)
    assert span_bytes(((2, 0), (1, 1), 0, torch.float16)) == 0
    assert number_dtype((a.half(), 2), a) is torch.float16
    assert number_dtype(([4],), None) is torch.get_default_dtype()
    assert new_results(rule_of("aten::add_.Tensor"), a) == []
    add, scaled = rule_of("aten::add_.Tensor"), rule_of("aten::addmm")
    assert written_tensors(add, (a, 2), {})[0] is a
    assert written_tensors(rule_of("aten::mm.out"), (a, a), {"out": a})[0] is a
    norm = rule_of("aten::native_batch_norm")
    mean, var = torch.ones(4), torch.ones(4)
    assert written_tensors(norm, (a, None, None, mean, var, False, 0.1, 1e-5), {}) == []
    assert [
        each is mean or each is var
        for each in written_tensors(norm, (a, None, None, mean, var, True, 0.1, 1e-5), {})
    ] == [True, True]
    assert [is_argument_one(scaled, "alpha", (a, a, a), each) for each in ({}, {"alpha": 2})] == [
        True,
        False,
    ]
    uniform = rule_of("aten::uniform_")
    assert not has_generator(uniform, (a,), {"generator": None})
    assert has_generator(uniform, (a,), {"generator": torch.Generator()})
    assert not has_generator(add, (a, 2), {})
