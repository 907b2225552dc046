"""Gold and proxy over the distance: the points as curves, their picture, and what picking by a proxy is worth."""

from itertools import combinations

import numpy as np
import pytest
from support.late import late

from grue.plots.proxy import ProxyPoint, curves_of
from grue.stats.frontier import best_of

POINTS = [
    ProxyPoint("best-of-n", 100, 1, 0.2, 0.6, 0.4, 2),
    ProxyPoint("policy", 1000, 1, 0.0, 0.5, 0.0, 0),
    ProxyPoint("policy", 1000, 2, 0.1, 0.6, 0.1, 0),
    ProxyPoint("policy", 100, 1, -1e-9, 0.5, 0.0, 0),
    ProxyPoint("policy", 100, 1, 0.9, 0.4, 2.0, 8),
    ProxyPoint("policy", 100, 1, 1.1, 0.7, 1.0, 4),
    ProxyPoint("best-of-n", 100, 1, 0.0, 0.5, 0.0, 1),
]


def test_points_become_curves_in_the_order_of_training():
    found = [(one.how, one.pairs, [point.at for point in one.points]) for one in curves_of(POINTS)]
    assert found == [
        ("policy", 100, [0, 4, 8]), ("policy", 1000, [0]), ("policy", 1000, [0]), ("best-of-n", 100, [1, 2])
    ]  # fmt: skip


def test_equal_curves_give_an_equal_picture(tmp_path):
    for name in ("a.png", "b.png"):
        late("grue.plots.drawing").draw_proxies(curves_of(POINTS), "imdb: sentiment", tmp_path / name)
    first = (tmp_path / "a.png").read_bytes()
    assert first[:4] == b"\x89PNG" and first == (tmp_path / "b.png").read_bytes()


def test_the_best_by_a_proxy_is_worth_what_the_mean_over_all_draws_says():
    rng = np.random.default_rng(1)
    proxy, gold = rng.normal(size=(3, 8)), rng.normal(size=(3, 8))
    found = best_of(proxy, gold)
    for k in (2, 4, 8):
        means = [
            np.mean(
                [gold[row, max(chosen, key=lambda at, row=row: proxy[row, at])] for chosen in combinations(range(8), k)]
            )
            for row in range(3)
        ]
        assert found[k].reward == pytest.approx(float(np.mean(means)), rel=1e-12)
    assert best_of(proxy)[8].reward == pytest.approx(proxy.max(axis=1).mean())
