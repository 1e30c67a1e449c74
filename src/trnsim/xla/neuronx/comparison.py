"""`torch_neuronx.testing`: comparisons of results with results of the host.

AWS's package documents no tolerances: `assert_close` has PyTorch's, and the tolerances of
`custom_allclose` are relative to the largest number, as its users say.

Source: neuronx-distributed-inference utils/accuracy.py, check_accuracy_embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from trnsim.errors import BadInput
from trnsim.formatting import counted

DEFAULT_DIVERGENCE_DIFFERENCE_TOLERANCE: Final = 0.001
"""Largest difference of two tokens' expected scores at which the other may be chosen.

Source: neuronx-distributed examples/inference/runner.py, divergence_difference_tol.
"""
DEFAULT_TOLERANCE_MAP: Final[dict[str | int | None, tuple[float, float]]] = {
    "5": (1e-5, 0.01),
    "50": (1e-5, 0.02),
    "1000": (1e-5, 0.03),
    "all": (1e-5, 0.05),
}
"""Absolute and relative tolerance of the k largest scores.

Source: neuronx-distributed-inference experimental/core/accuracy/logit_validation.py.
"""
_RELATIVE: Final = {torch.bfloat16: 0.05, torch.float16: 0.05}
_RELATIVE_OF_OTHERS: Final = 0.01
_ABSOLUTE: Final = 1e-5
_PAIR: Final = 2


@dataclass(frozen=True)
class AllCloseSummary:
    """Difference of two tensors.

    Attributes:
        allclose: True if they agree.
        max_rel_error: the largest difference, relative to the largest finite expected number.
    """

    allclose: bool
    max_abs_error: float
    max_rel_error: float
    rtol: float
    atol: float

    def __bool__(self) -> bool:
        return self.allclose


def assert_close(actual: Any, expected: Any, **options: Any) -> None:
    """`torch.testing.assert_close` of tensors on whatever device, with gradients or without.

    Raises:
        AssertionError: where they differ.
    """
    torch.testing.assert_close(_copy_to_host(actual), _copy_to_host(expected), **options)


def _copy_to_host(value: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.detach().cpu(), value)


def custom_allclose(
    expected: Tensor, actual: Tensor, atol: float = _ABSOLUTE, rtol: float = _RELATIVE_OF_OTHERS
) -> tuple[bool, float]:
    """(True if all differences are at most ``atol + rtol * max(abs(expected))``, largest error).

    The error is the largest difference, relative to the largest finite expected number.
    """
    summary = _summary(expected, actual, atol, rtol)
    return summary.allclose, summary.max_rel_error


def neuron_allclose(
    actual: Tensor, expected: Tensor, rtol: float | None = None, atol: float = _ABSOLUTE
) -> AllCloseSummary:
    """A summary of differences, with tolerances by the dtype where none is named."""
    relative = _RELATIVE.get(expected.dtype, _RELATIVE_OF_OTHERS) if rtol is None else rtol
    return _summary(expected, actual, atol, relative)


def _summary(expected: Tensor, actual: Tensor, atol: float, rtol: float) -> AllCloseSummary:
    if expected.shape != actual.shape:
        raise BadInput(
            f"tensors of shapes {list(expected.shape)} and {list(actual.shape)}; legal: the same",
            fix="compare tensors of one shape",
        )
    if not expected.numel():
        return AllCloseSummary(True, 0.0, 0.0, rtol, atol)
    is_complex = expected.is_complex() or actual.is_complex()
    wide_dtype = torch.complex128 if is_complex else torch.float64
    expected_values, actual_values = (
        tensor.detach().cpu().to(wide_dtype) for tensor in (expected, actual)
    )
    # Equal infinities differ by nothing, and no number is relative to infinity.
    differences = (expected_values - actual_values).abs()
    differences[expected_values == actual_values] = 0.0
    magnitudes = expected_values.abs()
    largest_magnitude = (
        magnitudes[magnitudes.isfinite()].max().item() if magnitudes.isfinite().any() else 0.0
    )
    error = differences.max().item()
    relative = error / largest_magnitude if largest_magnitude else error
    is_close = bool(error <= atol + rtol * largest_magnitude)  # False for NaN
    return AllCloseSummary(is_close, error, relative, rtol, atol)


def logit_validation(
    input_ids: Any,
    generate_fn: Callable[[Any], Tensor],
    expected_logits: Tensor,
    tol_map: Mapping[Any, tuple[float, float]] | None = None,
    divergence_difference_tol: float = DEFAULT_DIVERGENCE_DIFFERENCE_TOLERANCE,
    **options: Any,
) -> tuple[bool, list[dict[str, Any]], str]:
    """(True if generated scores agree with expected scores, the result of each part, a text).

    Where the generated scores choose another token than the expected ones, but their expected
    scores are nearly equal, generation goes on from the expected token, as scores after another
    token could not be compared.

    Args:
        input_ids: the prompt's tokens, [B, S].
        generate_fn: function from a prompt to the scores of the tokens that follow, [T, B, V].
        expected_logits: the expected scores, [T, B, V].
        tol_map: tolerances of the k largest scores, as in `DEFAULT_TOLERANCE_MAP`; None is all.
        divergence_difference_tol: how far the expected scores of the two tokens may be apart.
        **options: `pad_token_id` and `padding_side`, of prompts of other lengths than the first.

    Raises:
        BadInput: for a tolerance of no scores, or a tolerance that is no pair of numbers; for
            prompts or scores of other shapes.
    """
    del options
    tolerances = tol_map or DEFAULT_TOLERANCE_MAP
    _check_tolerances(tolerances)
    tokens = torch.as_tensor(input_ids)
    _check_prompts(tokens, expected_logits)
    chosen_tokens = expected_logits.argmax(dim=2)
    results: list[dict[str, Any]] = []
    start, count = 0, expected_logits.shape[0]
    while start < count:
        prompt = torch.cat([tokens, chosen_tokens[:start].T.to(tokens.dtype)], dim=1)
        scores = generate_fn(prompt)
        _check_scores(scores, expected_logits)
        actual = scores[: count - start]
        if not actual.shape[0]:
            return False, results, f"generate_fn gave no scores from token {start} on"
        step_count = _first_difference(actual, chosen_tokens[start : start + actual.shape[0]])
        end = start + step_count
        errors, is_close = _compare_largest_scores(
            actual[:step_count], expected_logits[start:end], tolerances
        )
        divergence = _score_distance(expected_logits, actual, start, step_count)
        part = {"first": start, "last": end - 1, "divergence": divergence, "errors": errors}
        results.append(part)
        if not is_close or divergence > divergence_difference_tol:
            return False, results, f"scores differ from token {start} on: {results[-1]}"
        start = end
    return True, results, f"scores of {counted(count, 'token agrees', 'tokens agree')}"


def _check_prompts(tokens: Tensor, expected_logits: Tensor) -> None:
    """Refuse prompts or expected scores of other ranks, and of different batch sizes."""
    ranks = (tokens.dim(), expected_logits.dim())
    if ranks != (2, 3) or tokens.shape[0] != expected_logits.shape[1]:
        raise BadInput(
            f"input_ids of {list(tokens.shape)} and expected_logits of "
            f"{list(expected_logits.shape)}; legal: [B, S] and [T, B, V]",
            fix="give a dimension to a batch of one prompt: input_ids.unsqueeze(0)",
        )


def _check_scores(scores: Any, expected_logits: Tensor) -> None:
    """Refuse generated scores of another batch or vocabulary than the expected scores."""
    is_tensor = isinstance(scores, Tensor)
    if not is_tensor or scores.shape[1:] != expected_logits.shape[1:]:
        sizes = ", ".join(map(str, expected_logits.shape[1:]))
        raise BadInput(
            f"generate_fn returns {list(scores.shape) if is_tensor else type(scores).__name__}; "
            f"legal: scores [T, {sizes}], as expected_logits has",
            fix="return the scores of each token that follows the prompt",
        )


def _check_tolerances(tolerances: Mapping[Any, Any]) -> None:
    """Refuse tolerances of no scores, and tolerances that are no pairs of numbers."""
    for count, pair in tolerances.items():
        is_count = count in (None, "all") or (str(count).isdecimal() and int(count) > 0)
        is_pair = isinstance(pair, Sequence) and len(pair) == _PAIR
        if not is_count or not is_pair or not all(isinstance(part, Real) for part in pair):
            raise BadInput(
                f"tol_map={{{count!r}: {pair!r}}}; legal: the number of the largest scores, from "
                '1 on, or None or "all"; and (atol, rtol)',
                fix='write {5: (1e-5, 0.01), "all": (1e-5, 0.05)}',
            )


def _first_difference(actual: Tensor, chosen_tokens: Tensor) -> int:
    """Number of tokens up to the first that was not expected, inclusive; all if none is."""
    is_same = (actual.argmax(dim=2) == chosen_tokens).all(dim=1).tolist()
    return is_same.index(False) + 1 if False in is_same else len(is_same)


def _score_distance(expected: Tensor, actual: Tensor, start: int, step_count: int) -> float:
    """Difference of the expected scores of the expected and the chosen token, at the last step."""
    scores = expected[start + step_count - 1].double()
    chosen_tokens = actual[step_count - 1].argmax(dim=1, keepdim=True)
    return (scores.max(dim=1).values - scores.gather(1, chosen_tokens).squeeze(1)).max().item()


def _compare_largest_scores(
    actual: Tensor, expected: Tensor, tolerances: Mapping[Any, tuple[float, float]]
) -> tuple[dict[str, Any], bool]:
    """(The largest relative error of the k largest scores by k, True if all are tolerated)."""
    errors: dict[str, Any] = {}
    is_close = True
    for count, (atol, rtol) in tolerances.items():
        is_all = count in (None, "all")
        size = expected.shape[2] if is_all else min(int(count), expected.shape[2])
        top_values, indices = expected.topk(size, dim=2)
        summary = _summary(top_values, actual.gather(2, indices), atol, rtol)
        errors["all" if is_all else f"top {count}"] = summary.max_rel_error
        is_close = is_close and summary.allclose
    return errors, is_close
