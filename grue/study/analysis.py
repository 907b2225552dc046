"""Analyse the answers to a study: means, agreement between people, differences of systems, and agreement of metrics."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grue.errors import DataError
from grue.stats.calibration import share_interval
from grue.stats.correlation import kendall, spearman
from grue.stats.intervals import FloatArray, Interval, satterthwaite_interval
from grue.stats.paired import difference, holm
from grue.stats.reliability import alpha, alphas, coincidences, percentile_interval, resamples
from grue.study.answers import Opinions, preferences_of, ratings_of
from grue.study.differences import Anova, PairOfSystems, one_way, pairs_of_systems, within_items
from grue.study.key import Key
from grue.study.template import Kind, Question, points

LEVELS: tuple[Literal["ordinal", "interval"], ...] = ("ordinal", "interval")
PREFERENCES = (-1.0, 0.0, 1.0)
DIGITS = 9  # decimals to which means are rounded, so that equal ones tie


@dataclass(frozen=True, slots=True)
class Reliability:
    """Krippendorff's α.

    Attributes:
        level: How the distance of two answers is measured: by ranks ("ordinal"), or by numbers ("interval").
        value: None where it is undefined.
        interval: The bootstrap's, over items.
        why: Why it is undefined; empty if it is not.
    """

    level: Literal["ordinal", "interval"]
    value: float | None
    interval: Interval | None
    why: str


@dataclass(frozen=True, slots=True)
class SystemRating:
    """A system on a scale.

    Attributes:
        answers: Number of answers to its texts, of which it has `texts`.
        mean: Of the texts' means; None without an answer.
        interval: The t interval of the mean over texts, each its annotators' mean; None for one text.
    """

    system: str
    answers: int
    texts: int
    mean: float | None
    interval: Interval | None
    alpha: tuple[Reliability, ...]


@dataclass(frozen=True, slots=True)
class ScaleAnalysis:
    """A question that was answered on a scale.

    Attributes:
        alpha: Over the texts of all systems.
        anova: Over the means of the texts, as if they were independent; None where it is undefined.
        within_items_p: Of the permutation test of all systems within items; None where it is undefined.
    """

    question: str
    points: int
    systems: tuple[SystemRating, ...]
    alpha: tuple[Reliability, ...]
    anova: Anova | None
    within_items_p: float | None
    pairs: tuple[PairOfSystems, ...]


@dataclass(frozen=True, slots=True)
class Duel:
    """Two systems whose texts were compared.

    Attributes:
        a_wins: Number of answers for a. Likewise `ties` and `b_wins`.
        same: Number of items for which both wrote the same text; nobody was asked about these.
        items: Number of items with an answer.
        rate: a's share over all these items, where ties and equal texts count half; None without any.
        interval: The bootstrap's, over items, or Wilson's if these all say the same; None for fewer than two.
        p: Of the randomisation test within items, corrected for all pairs by Holm; None for fewer than two.
    """

    a: str
    b: str
    a_wins: int
    ties: int
    b_wins: int
    same: int
    items: int
    rate: float | None
    interval: Interval | None
    p: float | None


@dataclass(frozen=True, slots=True)
class PairsAnalysis:
    """A question that was answered for two texts at a time; α is over all pairs."""

    question: str
    duels: tuple[Duel, ...]
    alpha: tuple[Reliability, ...]


@dataclass(frozen=True, slots=True)
class Correlated:
    """A rank correlation; None if one side is constant, or if there are too few points."""

    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of a metric with people's answers; positive if they agree, also if lower is better for the metric.

    Attributes:
        kendall: Kendall's τ-b over texts, all items and systems together. Likewise `spearman`.
        systems: Kendall's τ-b over the systems' means; undefined for fewer than three.
    """

    metric: str
    question: str
    texts: int
    kendall: Correlated
    spearman: Correlated
    systems: Correlated


@dataclass(frozen=True, slots=True)
class Answered:
    """How many of an annotator's screens are answered completely."""

    annotator: str
    done: int
    asked: int


@dataclass(frozen=True, slots=True)
class StudyAnalysis:
    """The analysis of a study.

    Attributes:
        scales: Empty for pairs.
        pairs: None for scales.
        synthetic: Annotators that are programs.
    """

    study: str
    suite: str
    task: str
    title: str
    kind: Kind
    systems: tuple[str, ...]
    items: int
    annotators: tuple[Answered, ...]
    synthetic: tuple[str, ...]
    draws: int
    seed: int
    scales: tuple[ScaleAnalysis, ...]
    pairs: PairsAnalysis | None
    agreement: tuple[Agreement, ...]
    notes: tuple[str, ...]


def analyse(key: Key, opinions: Opinions, *, draws: int, seed: int = 0, complete: bool = False) -> StudyAnalysis:
    """Return the analysis of the answers; equal answers and seeds give equal numbers."""
    names = {question.name for question in key.template.questions}
    annotators = tuple(
        Answered(
            annotator.name,
            sum(names <= set(opinions.answers.get(annotator.name, {}).get(s.id, {})) for s in annotator.screens),
            len(annotator.screens),
        )
        for annotator in key.annotators
    )
    if complete and (open_ones := [person for person in annotators if person.done < person.asked]):
        unfinished = ", ".join(f"{person.annotator} {person.done} of {person.asked}" for person in open_ones)
        raise DataError(f"Not everything is answered: {unfinished}. Wait for the rest, or leave out --complete.")
    generator = np.random.default_rng(seed)
    weights = resamples(len(key.items), draws, generator)
    scales: tuple[ScaleAnalysis, ...] = ()
    pairs: PairsAnalysis | None = None
    people: dict[str, FloatArray] = {}
    metrics = {}
    for metric, direction in key.metrics.items():  # [items, systems], higher is better
        values = np.array([item.scores[metric] for item in key.items], dtype=np.float64)
        metrics[metric] = values if direction == "higher" else -values
    if key.template.kind == "scales":
        scales = tuple(_scale(key, opinions, question, weights, generator) for question in key.template.questions)
        for question in key.template.questions:
            people[question.name] = _mean(ratings_of(key, opinions, question.name))
    else:
        preferences = preferences_of(key, opinions)
        pairs = _pairs(key, preferences, weights, generator)
        people[pairs.question] = _mean(preferences.reshape(*preferences.shape[:2], -1))
        metrics = {metric: _choices(values, preferences) for metric, values in metrics.items()}
    return StudyAnalysis(
        study=key.study,
        suite=key.suite,
        task=key.task,
        title=key.template.title,
        kind=key.template.kind,
        systems=tuple(system.name for system in key.systems),
        items=len(key.items),
        annotators=annotators,
        synthetic=opinions.synthetic,
        draws=draws,
        seed=seed,
        scales=scales,
        pairs=pairs,
        agreement=tuple(
            agree(metric, question, answers, values, weights)
            for question, answers in people.items()
            for metric, values in metrics.items()
        ),
        notes=opinions.notes,
    )


def _choices(values: FloatArray, preferences: FloatArray) -> FloatArray:
    """Return a metric's mean choice, [items, systems], over the comparisons that people made (`preferences_of`)."""
    compared = (~np.isnan(preferences)).any(axis=-1)
    signs = np.sign(values[:, :, None] - values[:, None, :])
    choices: FloatArray = np.where(compared, signs, 0.0).sum(axis=-1) / np.maximum(compared.sum(axis=-1), 1)
    return choices


def _mean(answers: FloatArray) -> FloatArray:
    """Return the mean over the last axis without NaN; NaN where nothing is left."""
    with np.errstate(invalid="ignore"):
        means: FloatArray = np.nansum(answers, axis=-1) / (~np.isnan(answers)).sum(axis=-1)
    return means


# --- scales ----------------------------------------------------------------------------------------------------------


def _scale(
    key: Key, opinions: Opinions, question: Question, weights: FloatArray, generator: np.random.Generator
) -> ScaleAnalysis:
    ratings = ratings_of(key, opinions, question.name)
    texts = _mean(ratings)
    names = [system.name for system in key.systems]
    groups = [column[~np.isnan(column)] for column in texts.T]
    return ScaleAnalysis(
        question=question.name,
        points=len(question.anchors),
        systems=tuple(
            SystemRating(
                system=name,
                answers=int((~np.isnan(ratings[:, number])).sum()),
                texts=len(groups[number]),
                mean=float(groups[number].mean()) if len(groups[number]) else None,
                interval=satterthwaite_interval({name: groups[number].tolist()}) if len(groups[number]) > 1 else None,
                alpha=_reliability(ratings[:, [number]], points(question), weights),
            )
            for number, name in enumerate(names)
        ),
        alpha=_reliability(ratings, points(question), weights),
        anova=one_way(groups),
        within_items_p=within_items(texts, generator, len(weights)),
        pairs=pairs_of_systems(texts, names, generator, len(weights)),
    )


def _reliability(answers: FloatArray, values: Sequence[float], weights: FloatArray) -> tuple[Reliability, ...]:
    """Return α of [items, units of an item, annotators], on both levels."""
    items, units, annotators = answers.shape
    flat = answers.reshape(items * units, annotators)
    by_item = coincidences(flat, values).reshape(items, units, len(values), len(values)).sum(axis=1)
    if why := _undefined(flat):
        return tuple(Reliability(level, None, None, why) for level in LEVELS)
    drawn = np.tensordot(weights, by_item, axes=1)
    return tuple(
        Reliability(level, alpha(flat, values, level), percentile_interval(alphas(drawn, values, level)), "")
        for level in LEVELS
    )


def _undefined(answers: FloatArray) -> str:
    """Return why answers, [units, annotators], have no α; empty if they have one."""
    answered = ~np.isnan(answers)
    if answered.any(axis=0).sum() < 2:
        return "one annotator" if answered.any() else "no answers"
    shared = answers[answered.sum(axis=1) > 1]
    if not len(shared):
        return "no text was judged twice"
    if np.nanmax(shared) == np.nanmin(shared):
        return "all answers are equal"
    return ""


# --- pairs -----------------------------------------------------------------------------------------------------------


def _pairs(key: Key, preferences: FloatArray, weights: FloatArray, generator: np.random.Generator) -> PairsAnalysis:
    compared = list(combinations(range(len(key.systems)), 2))
    same = {(i, j): np.array([item.texts[i] == item.texts[j] for item in key.items]) for i, j in compared}
    shares = {(i, j): np.where(same[i, j], 0.5, (1 + _mean(preferences[:, i, j])) / 2) for i, j in compared}
    raw: dict[tuple[int, int], float] = {}
    for pair, share in shares.items():
        defined = share[~np.isnan(share)]
        if len(defined) > 1:
            centre = [float(defined.mean())]
            tested = difference(defined[None], 1 - defined[None], centre, [1 - centre[0]], generator, len(weights))
            raw[pair] = tested.p
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    duels = []
    for (i, j), share in shares.items():
        answers, defined = preferences[:, i, j], ~np.isnan(share)
        interval = _interval(share[defined], weights[:, defined]) if defined.sum() > 1 else None
        duels.append(
            Duel(
                a=key.systems[i].name,
                b=key.systems[j].name,
                a_wins=int((answers == 1).sum()),
                ties=int((answers == 0).sum()),
                b_wins=int((answers == -1).sum()),
                same=int(same[i, j].sum()),
                items=int((defined & ~same[i, j]).sum()),
                rate=float(share[defined].mean()) if defined.any() else None,
                interval=interval,
                p=corrected.get((i, j)),
            )
        )
    units = np.stack([preferences[:, i, j] for i, j in compared], axis=1)
    return PairsAnalysis(key.template.questions[0].name, tuple(duels), _reliability(units, PREFERENCES, weights))


def _interval(share: FloatArray, weights: FloatArray) -> Interval | None:
    """Return the interval of a share over items: the bootstrap's, or Wilson's where every resample is the same."""
    if len(np.unique(share)) == 1:
        return share_interval(share, range(len(share)))
    with np.errstate(invalid="ignore"):
        return percentile_interval((weights @ share) / weights.sum(axis=1))


# --- metrics ---------------------------------------------------------------------------------------------------------


def agree(metric: str, question: str, people: FloatArray, values: FloatArray, weights: FloatArray) -> Agreement:
    """Return how a metric agrees with people.

    Args:
        people: [items, systems] mean answers; NaN where a text has none.
        values: [items, systems] of the metric, higher is better.
        weights: [draws, items] how often each item is in a resample.
    """
    rated = ~np.isnan(people)
    items = np.nonzero(rated)[0]
    drawn = weights if len(np.unique(items)) > 1 else weights[:0]  # all resamples of one item are the same
    everything = np.vstack([np.ones(len(people)), drawn])
    x, y, of_texts = people[rated], values[rated], everything[:, items]
    by_system = _system_means(people, values, rated, everything)
    return Agreement(
        metric=metric,
        question=question,
        texts=len(items),
        kendall=_correlated(kendall(x, y, of_texts)),
        spearman=_correlated(spearman(x, y, of_texts)),
        systems=Correlated(None, None) if by_system is None else _correlated(kendall(*by_system)),
    )


def _system_means(
    people: FloatArray, values: FloatArray, rated: NDArray[np.bool_], weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return [draws, systems] means of both and weights of 1, over texts with answers; None for fewer than 3 systems.

    A system without an answer in a draw has weight 0.
    """
    if rated.any(axis=0).sum() < 3:
        return None
    counts = weights @ rated
    answered = counts > 0
    sums = [weights @ np.where(rated, array, 0.0) for array in (people, values)]
    # Sums of thirds that should be equal differ in their last digits.
    means = [np.round(total / np.where(answered, counts, 1.0), DIGITS) for total in sums]
    return means[0], means[1], answered.astype(np.float64)


def _correlated(drawn: FloatArray) -> Correlated:
    """Return the first value, with the interval of the others if there are any."""
    value = float(drawn[0])
    if np.isnan(value):
        return Correlated(None, None)
    return Correlated(value, percentile_interval(drawn[1:]) if len(drawn) > 1 else None)
