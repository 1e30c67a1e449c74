"""Normal shrinkage: effects of a linear model with normal priors, and their covariance.

    y = X theta + e,  theta_k ~ N(0, v_k),  e_i ~ N(0, s_i^2)
    covariance = (X' S^-1 X + V^-1)^-1,  mean = covariance X' S^-1 y

With no more rows than effects, the mean is computed as ``V X' (X V X' + S)^-1 y``, which is exact
for rows without error.

Source: Bishop, Pattern Recognition and Machine Learning, 2006, equations 2.113-2.117.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST_VARIANCE = 1e-12
"""Floor of error variances, since a row may state an error of 0."""


class Posterior(NamedTuple):
    """Mean and covariance of the effects, given the rows."""

    mean: Array
    covariance: Array


def shrink(design: Array, values: Array, error_variances: Array, priors: Array) -> Posterior:
    """The posterior of the effects, given measured rows.

    Args:
        design: the matrix X of rows x effects.
        values: the measured value of each row.
        error_variances: the variance of each row's error.
        priors: the prior variance of each effect.
    """
    if len(values) <= len(priors):
        prior_design = priors[:, None] * design.T
        row_inverse: Any = np.linalg.pinv(design @ prior_design + np.diag(error_variances))
        gain = prior_design @ row_inverse
        return Posterior(gain @ values, np.diag(priors) - gain @ prior_design.T)
    # In units of each prior's sigma, so that small priors do not spoil the condition.
    scale = np.sqrt(priors)
    scaled = design * scale
    weights = 1 / np.maximum(error_variances, _LEAST_VARIANCE)
    inverse: Any = np.linalg.inv((scaled.T * weights) @ scaled + np.eye(len(priors)))
    mean = scale * (inverse @ (scaled.T @ (weights * values)))
    return Posterior(mean, scale[:, None] * inverse * scale)
