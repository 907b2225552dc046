"""Rank correlations of weighted points: how often each was drawn in a resample; weights of 1 give the plain ones."""

import numpy as np

from grue.stats.intervals import FloatArray


def kendall(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return [draws] Kendall's τ-b of N points (Kendall, "The treatment of ties in ranking problems", 1945).

    NaN where x or y is constant in a draw. Copies of a point are ties.

    Args:
        x: [N], or [draws, N] if the points themselves differ by draw. Likewise `y`.
        weights: [draws, N].
    """
    signs_x, signs_y = _signs(x), _signs(y)
    untied = _form(np.abs(signs_x), weights) * _form(np.abs(signs_y), weights)
    return _ratio(_form(signs_x * signs_y, weights), untied)


def spearman(x: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return [draws] Spearman's ρ: Pearson's correlation of the ranks, where ties share theirs; as `kendall`."""
    total = np.maximum(weights.sum(axis=-1, keepdims=True), 1)  # a draw may be empty
    ranks = [_applied(_signs(values), weights) for values in (x, y)]
    ranks_x, ranks_y = (each - (weights * each).sum(axis=-1, keepdims=True) / total for each in ranks)
    squares = (weights * ranks_x**2).sum(axis=-1) * (weights * ranks_y**2).sum(axis=-1)
    return _ratio((weights * ranks_x * ranks_y).sum(axis=-1), squares)


def _signs(values: FloatArray) -> FloatArray:
    """Return [..., N, N]: 1 where the row's value is below the column's, -1 above, 0 equal."""
    return np.sign(values[..., None, :] - values[..., :, None])


def _applied(matrix: FloatArray, weights: FloatArray) -> FloatArray:
    """Return [draws, N] wᵀM. For signs, this is twice the middle rank of each point, up to a constant."""
    if matrix.ndim == 2:
        return weights @ matrix
    product: FloatArray = (weights[:, None, :] @ matrix)[:, 0, :]
    return product


def _form(matrix: FloatArray, weights: FloatArray) -> FloatArray:
    """Return [draws] wᵀMw."""
    product: FloatArray = (_applied(matrix, weights) * weights).sum(axis=-1)
    return product


def _ratio(above: FloatArray, below_squared: FloatArray) -> FloatArray:
    """Return above / √below², clipped to ±1 against rounding; NaN where the denominator is 0."""
    defined = below_squared > 1e-12
    ratio = above / np.sqrt(np.where(defined, below_squared, 1.0))
    result: FloatArray = np.where(defined, np.clip(ratio, -1.0, 1.0), np.nan)
    return result
