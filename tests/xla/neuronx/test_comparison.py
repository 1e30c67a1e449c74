import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.xla.neuronx.comparison import (
    assert_close,
    custom_allclose,
    logit_validation,
    neuron_allclose,
)

WANTED = torch.tensor([0.0, 100.0])


def test_tensors_of_the_device_and_with_gradients_are_compared():
    assert_close(WANTED.to("neuron"), WANTED.clone().requires_grad_())
    assert_close([WANTED], [WANTED.to("neuron")], atol=0, rtol=0)
    with pytest.raises(AssertionError):
        assert_close(WANTED, WANTED + 1)


def test_tolerances_are_relative_to_the_largest_number():
    assert custom_allclose(WANTED, WANTED + 0.9, atol=0, rtol=0.01) == (
        True,
        pytest.approx(0.009, rel=1e-3),
    )
    assert not custom_allclose(WANTED, WANTED + 1.1, atol=0, rtol=0.01)[0]
    assert custom_allclose(WANTED, WANTED + 1.1, atol=0.2, rtol=0.01)[0]


def test_a_summary_says_by_what_tensors_differ():
    summary = neuron_allclose(WANTED + 0.5, WANTED)
    assert summary
    assert (summary.allclose, summary.max_abs_error, summary.rtol) == (True, 0.5, 0.01)
    assert neuron_allclose(WANTED.bfloat16() + 4, WANTED.bfloat16()).allclose
    assert not neuron_allclose(WANTED * float("nan"), WANTED).allclose
    assert neuron_allclose(torch.ones(0), torch.ones(0)).allclose
    with pytest.raises(BadInput, match=r"shapes \[2\] and \[3\]"):
        neuron_allclose(torch.ones(3), WANTED)


def scores(tokens, vocabulary=5):
    """Scores [T, 1, V] whose largest are those of the tokens."""
    return (
        torch.stack([torch.nn.functional.one_hot(torch.tensor([t]), vocabulary) for t in tokens])
        * 9.0
    )


def test_scores_that_agree_pass():
    expected = scores([1, 2, 3])
    passed, results, text = logit_validation([[0]], lambda _: expected * 1.001, expected)
    assert passed
    assert [(row["first"], row["last"]) for row in results] == [(0, 2)]
    assert "3 tokens agree" in text


def test_scores_that_differ_name_the_token():
    expected = scores([1, 2, 3])
    actual = expected.clone()
    actual[1, 0, 2] = 5
    passed, _, text = logit_validation([[0]], lambda _: actual, expected)
    assert not passed
    assert "from token 0 on" in text
    assert logit_validation([[0]], lambda _: actual, expected, {None: (0, 0.5)})[0]


@pytest.mark.parametrize(
    "tol_map", [{0: (0, 0.5)}, {-1: (0, 0.5)}, {"some": (0, 0.5)}, {5: 0.5}, {5: (0, "a")}]
)
def test_a_tolerance_that_compares_nothing_is_refused(tol_map):
    expected = scores([1, 2, 3])
    with pytest.raises(BadInput, match=r"^tol_map=.*; legal: the number of the largest scores"):
        logit_validation([[0]], lambda _: expected, expected, tol_map)


@pytest.mark.parametrize("scores", [torch.ones(3, 1, 5), torch.ones(3, 2, 4), torch.ones(4), None])
def test_scores_of_another_shape_are_refused(scores):
    expected = torch.ones(3, 1, 4)
    with pytest.raises(BadInput, match=r"generate_fn returns .*; legal: scores \[T, 1, 4\]"):
        logit_validation([[1, 2]], lambda _: scores, expected)
    assert logit_validation([[1, 2]], lambda _: expected, expected)[0]


@pytest.mark.parametrize(
    ("tokens", "shape"), [([1, 2], (3, 1, 4)), ([[1, 2]], (3, 4)), ([[1], [2]], (3, 1, 4))]
)
def test_prompts_that_do_not_fit_the_scores_are_refused(tokens, shape):
    with pytest.raises(BadInput, match=r"legal: \[B, S\] and \[T, B, V\]"):
        logit_validation(tokens, lambda _: torch.ones(shape), torch.ones(shape))


def test_generation_goes_on_from_the_expected_token_where_two_are_as_likely():
    expected = scores([1, 2, 3])
    expected[1, 0, 4] = expected[1, 0, 2] - 1e-4
    prompts = []

    def generate(prompt):
        prompts.append(prompt.tolist())
        actual = expected[prompt.shape[1] - 1 :].clone()
        if prompt.shape[1] == 1:
            actual[1, 0, 4] += 2e-4  # another token
            actual[2] = 0
        return actual

    passed, results, _ = logit_validation([[0]], generate, expected)
    assert passed
    assert prompts == [[[0]], [[0, 1, 2]]]
    assert results[0]["divergence"] == pytest.approx(1e-4, rel=0.1)
    assert not logit_validation([[0]], lambda _: expected[:0], expected)[0]


def test_infinities_and_complex_numbers_are_compared():
    """Infinity was "close" to any number, and unlike itself; imaginary parts were left out."""
    inf = float("inf")
    same = neuron_allclose(torch.tensor([1.0, -inf]), torch.tensor([1.0, -inf]))
    assert same.allclose
    assert same.max_abs_error == same.max_rel_error == 0.0
    assert not neuron_allclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, inf]))
    assert not neuron_allclose(torch.tensor([1.0, inf]), torch.tensor([1.0, -inf]))
    assert not neuron_allclose(torch.tensor([inf]), torch.tensor([0.0]))
    nan = torch.tensor([float("nan")])
    assert not neuron_allclose(nan, nan)
    assert not neuron_allclose(torch.tensor([1 + 2j]), torch.tensor([1 + 0j]))
    assert neuron_allclose(torch.tensor([1 + 2j]), torch.tensor([1 + 2j]))
