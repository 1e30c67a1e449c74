"""Rules: numbers that are inputs, and operators that the host computes."""


def test_numbers_are_inputs_or_constants_by_operator_and_argument(monkeypatch):
    from trnsim.xla.cuts.rules import is_special, rule_of

    assert rule_of("aten::add.Tensor").inputs >= {"self", "other", "alpha"}
    assert rule_of("aten::clamp").inputs == {"self", "min", "max"}
    assert "exponent" not in rule_of("aten::pow.Tensor_Scalar").inputs
    assert "eps" not in rule_of("aten::native_layer_norm").inputs
    assert "p" in rule_of("aten::native_dropout").inputs
    assert rule_of("aten::lgamma").host_name == "aten::lgamma"
    assert rule_of("aten::unfold").host_name == "aten::unfold_copy"
    assert rule_of("aten::isin.Tensor_Scalar").host_name == "aten::isin.Tensor_Scalar"
    assert rule_of("aten::exp").host_name == ""
    assert rule_of("aten::add_.Tensor").written == ((0, "self"),)
    assert rule_of("xm::all_reduce").inputs == frozenset()
    assert [is_special(each) for each in (0, 1, 1.0, True, -1, 2, 0.5)] == [True] * 4 + [False] * 3
    monkeypatch.setenv("XLA_NO_SPECIAL_SCALARS", "1")
    assert not is_special(1)
