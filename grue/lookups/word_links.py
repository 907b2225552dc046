"""Which word translates which: IBM model 1 with a preference for the diagonal, in both directions, made symmetric.

Sources: Brown et al. 1993, "The Mathematics of Statistical Machine Translation"; Dyer et al. 2013, "A Simple, Fast, and
Effective Reparameterization of IBM Model 2"; Koehn et al. 2003 for growing the diagonal. Nothing but counting.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Links = set[tuple[int, int]]
"""(place in the source, place in the target) of words that translate each other."""
Ids = NDArray[np.int64]

ROUNDS = 6
TENSION = 2.0
"""How fast a translation away from the diagonal becomes unlikely."""
NOWHERE = 0.08
"""Weight of the empty word, which words without a counterpart translate."""
BESIDE = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def link(source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> list[Links]:
    """Return the links of each pair of sentences, which are not empty."""
    forward = _origins(source, target)
    backward = _origins(target, source)
    return [
        _grown(set(zip(f.tolist(), range(len(f)), strict=True)), set(zip(range(len(b)), b.tolist(), strict=True)))
        for f, b in zip(forward, backward, strict=True)
    ]


def _origins(source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> list[Ids]:
    """Return, for each pair, the source place of each target word's likeliest origin, -1 for none."""
    sources, targets = _numbered(source, 1), _numbered(target, 0)
    words = max(int(row.max()) for row in targets) + 1
    grids = [_grid(s, t, words) for s, t in zip(sources, targets, strict=True)]
    kinds, cell = np.unique(np.concatenate([keys.ravel() for keys, _ in grids]), return_inverse=True)
    prior = np.concatenate([prior.ravel() for _, prior in grids])
    sizes = np.concatenate([np.full(t.size, s.size + 1) for s, t in zip(sources, targets, strict=True)])
    word = np.repeat(np.arange(sizes.size), sizes)  # the target word that each cell is about
    origin = kinds // words
    chance = np.ones(kinds.size)
    for _ in range(ROUNDS):
        weight = prior * chance[cell]
        weight /= np.bincount(word, weight)[word]
        count = np.bincount(cell, weight)
        chance = count / np.bincount(origin, count)[origin]
    weight = prior * chance[cell]
    origins, start = [], 0
    for keys, _ in grids:
        origins.append(weight[start : start + keys.size].reshape(keys.shape).argmax(1) - 1)
        start += keys.size
    return origins


def _numbered(sentences: Sequence[Sequence[str]], first: int) -> list[Ids]:
    ids: dict[str, int] = {}
    return [np.array([ids.setdefault(word, len(ids) + first) for word in row], np.int64) for row in sentences]


def _grid(source: Ids, target: Ids, words: int) -> tuple[Ids, NDArray[np.float64]]:
    """Return [target, 1 + source] the keys of all pairs of words, the empty word first, and their prior weights."""
    keys = np.concatenate([[0], source])[None, :] * words + target[:, None]
    target_places, source_places = ((np.arange(row.size) + 0.5) / row.size for row in (target, source))
    near = np.exp(-TENSION * np.abs(target_places[:, None] - source_places[None, :]))
    near *= (1 - NOWHERE) / near.sum(1, keepdims=True)
    return keys, np.concatenate([np.full((target.size, 1), NOWHERE), near], 1)


def _grown(forward: Links, backward: Links) -> Links:
    """Return the links of both directions, extended by neighbours that one of them has, then by unlinked words."""
    forward = {pair for pair in forward if pair[0] >= 0}
    backward = {pair for pair in backward if pair[1] >= 0}
    links, either = forward & backward, forward | backward
    while new := _neighbours(links, either):
        links |= new
    for s, t in sorted(either - links):
        if s not in {a for a, _ in links} and t not in {b for _, b in links}:
            links.add((s, t))
    return links


def _neighbours(links: Links, either: Links) -> Links:
    """Return the pairs with an unlinked word that are beside a link."""
    sources, targets = {s for s, _ in links}, {t for _, t in links}
    return {
        (s, t)
        for s, t in either - links
        if (s not in sources or t not in targets) and any((s + a, t + b) in links for a, b in BESIDE)
    }
