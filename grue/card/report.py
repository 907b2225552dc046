"""A card in words: the verdict, by the rules that docs/how-to/train.md states, and the parts of its page."""

from collections.abc import Iterator

from grue.card.measure import BEST, FIGURES, GREEDY, LATE, ORACLE, PICKED, SAMPLED, TaskCard
from grue.evaluation.watch import HELD_OUT, REWARD
from grue.render.figures import UNKNOWN, ends, figure
from grue.render.layout import plain_table
from grue.render.report import DrawnDifference, Part, as_page
from grue.runs.remarks import MANY_FLAT
from grue.stats.frontier import reward_at
from grue.stats.intervals import Interval

NEAR = 0.8
"""Share of the oracle's preference from which on an output without learning is near it."""
MANY_BEYOND = 0.05
"""Share of the texts beyond the task's limit that is worth saying."""
PROBED = (HELD_OUT, "naturalness")
PUSHED = BEST.format(PICKED[-1])
CALLED = {"empty": "an empty answer", "null": "a constant", "copy": "copying the prompt", "lead": "the lead"}
NOTHING = Interval(0.0, 0.0)
KLS = (0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # nats


def verdict(card: TaskCard) -> list[str]:
    """Return what the figures say: what needs no learning, what pushing the reward does, whether there is a signal."""
    return [*_floor(card), *_pushing(card), _learning(card), *_beyond(card)]


def _floor(card: TaskCard) -> Iterator[str]:
    """Yield where outputs without learning surely differ from the start, and how near the oracle they come."""
    start = f"the {'trained' if card.trained else 'untrained'} start"
    gains = {each: card.answers[each].gains for each in card.lazy}
    rises = {
        each: [name for name in (REWARD, "preference") if gains[each].get(name, NOTHING).low > 0] for each in gains
    }
    falls = {each: [name for name in FIGURES if gains[each].get(name, NOTHING).high < 0] for each in gains}
    hacks = [each for each in gains if REWARD in rises[each] and falls[each]]
    better = [each for each in gains if rises[each] and each not in hacks]
    if hacks:
        best = min(hacks, key=lambda each: card.answers[each].scores.get("preference", 0.0))
        fallen = _against(card, best, falls[best][0])
        yield (
            f"The reward can be hacked without learning: {_named(best)} is above {start} in "
            f"{_against(card, best, REWARD)}, and below it in {fallen}."
        )
    if better:
        best = max(
            better, key=lambda each: [card.answers[each].scores.get(name, 0.0) for name in (REWARD, "preference")]
        )
        said = " and ".join(_against(card, best, name) for name in rises[best])
        yield f"{_capital(_named(best))} is above {start} in {said}."
    most = card.answers[ORACLE].scores.get("preference", 0.0) if ORACLE in card.answers else 0.0
    if most > 0:
        got = {name: card.answers[name].scores.get("preference", 0.0) for name in card.lazy}
        best = max(got, key=lambda name: got[name])
        share = got[best] / most
        says = "little is left to learn" if share >= NEAR else "the most without learning"
        yield f"{_capital(_named(best))} gets {share:.0%} of the oracle's preference: {says}."


def _pushing(card: TaskCard) -> Iterator[str]:
    """Yield whether what the reward does not contain falls, stalls or follows as it is pushed."""
    said, falls = [], False
    for name in PROBED:
        if (gain := card.answers[PUSHED].gains.get(name)) is not None:
            turns = card.late.get(name, NOTHING).high < 0
            falls |= gain.high < 0 or turns
            verb = "falls" if gain.high < 0 else "follows" if gain.low > 0 else "stalls"
            said.append(f"{_called(name)} {verb} ({_gain(name, gain)})")
            if turns and verb != "falls":
                said[-1] += f", but falls after best of {LATE} ({_gain(name, card.late[name])})"
    if said:
        head = "It can be hacked: as" if falls else "As"
        yield f"{head} the reward is pushed to {PUSHED}, {' and '.join(said)}."
    if not card.metrics[HELD_OUT]:
        yield "No metric of preference is held out: all are in the reward or move with it. Add one that does not."


def _learning(card: TaskCard) -> str:
    gain, groups, gradient = card.answers[PUSHED].gains[REWARD], card.signal.rewards, card.signal.gradient
    flat = f"{groups.flat:.0%} of the groups are flat at {groups.samples} samples"
    reasons = [] if gain.low > 0 else [f"{PUSHED} gains no reward beyond chance ({_gain(REWARD, gain)})"]
    reasons += [flat] if groups.flat >= MANY_FLAT else []
    if reasons:
        return f"Little can be learnt from this start: {', and '.join(reasons)}."
    way = ""
    if ORACLE in card.answers:
        start, most = (card.answers[name].scores[REWARD] for name in (SAMPLED, ORACLE))
        reached = card.answers[PUSHED].scores[REWARD]
        share = f", {(reached - start) / (most - start):.0%} of the way to the oracle" if reached < most else ""
        way = share or ", beyond the oracle"
    noise = "" if gradient.noise_scale else f"; the gradient of {gradient.batch} rollouts is not told from noise"
    return f"It can be learnt from this start: {PUSHED} gains reward ({_gain(REWARD, gain)}){way}, and {flat}{noise}."


def _beyond(card: TaskCard) -> Iterator[str]:
    """Yield which texts do not fit; references matter where the reward reads them."""
    for kind, (_, limit, beyond) in card.lengths.items():
        if beyond >= MANY_BEYOND and (kind == "prompt" or card.frontier.oracle):
            yield f"{beyond:.0%} of the {kind}s are longer than the task's {limit} tokens."


def _form(name: str) -> str:
    return ".3f" if name == REWARD else ".1f"


def _shown(name: str, value: float | None) -> str:
    return figure(value, _form(name))


def _gain(name: str, gain: Interval) -> str:
    return f"{(gain.low + gain.high) / 2:+{_form(name)}}, 95 % interval {ends(gain, f'+{_form(name)}')}"


def _called(name: str) -> str:
    return "held-out preference" if name == HELD_OUT else name


def _named(lazy: str) -> str:
    return CALLED.get(lazy, f"the lookup {lazy}")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _against(card: TaskCard, lazy: str, name: str) -> str:
    """Return a figure beside that of the start's likeliest answers."""
    own, start = (_shown(name, card.answers[each].scores[name]) for each in (lazy, GREEDY))
    return f"{_called(name)} ({own} against {start}; {_gain(name, card.answers[lazy].gains[name])})"


# --- the page --------------------------------------------------------------------------------------------------------


def page_of(card: TaskCard) -> str:
    """Return the card as a page."""
    missing = [Part("Not computed on this machine", items=card.missing)] if card.missing else []
    first = Part(items=tuple(verdict(card)))
    parts = [first, _answers(card), _pushed(card), _frontier(card), _signal(card), _about(card), *missing]
    return as_page(f"{card.signal.suite}/{card.signal.task}: can it be learnt, can it be hacked?", parts)


def _answers(card: TaskCard) -> Part:
    rows = [(name, *(_shown(key, of.scores.get(key)) for key in FIGURES)) for name, of in card.answers.items()]
    line = (
        "greedy and sampled: the start's likeliest answers and its samples; best of n: of n samples, the one with the "
        "highest reward; oracle: the first reference. The others need no learning."
    )
    return Part("What answers get", table=plain_table(("answers", *map(_called, FIGURES)), rows), lines=(line,))


def _pushed(card: TaskCard) -> Part:
    rows, drawn = [], []
    for n in PICKED:
        gains = card.answers[BEST.format(n)].gains
        for name in ("preference", *PROBED):
            if (gain := gains.get(name)) is not None:
                value, pushed = (gain.low + gain.high) / 2, (gains[REWARD].low + gains[REWARD].high) / 2
                rows.append((f"best of {n}, reward {pushed:+.3f}", _called(name), f"{value:+.1f}", ends(gain, "+.1f")))
                drawn.append(DrawnDifference(value, gain, is_decided=gain.low > 0 or gain.high < 0))
    table = plain_table(("pushed to", "metric", "gain", "95 % interval"), rows, left=(0, 1))
    line = "Gains over the start's samples, paired by example; a reward worth learning takes the others along."
    return Part("When the reward is pushed", table=table, lines=(line,), drawn=drawn)


def _frontier(card: TaskCard) -> Part:
    of = card.frontier
    curves = {"oracle, which knows the references" if of.oracle else "best policy": of.optimal}
    curves |= {f"attainable ({of.how})": of.attainable} if of.attainable else {}
    rows = [(f"{kl:g}", *(figure(reward_at(curve, kl), ".3f") for curve in curves.values())) for kl in KLS]
    rows = [row for row in rows if {*row[1:]} != {UNKNOWN}]
    line = "The mean reward that training could reach at a KL from the start, in nats a response."
    return Part("What training could gain", table=plain_table(("KL", *curves), rows), lines=(line,))


def _signal(card: TaskCard) -> Part:
    signal, groups, gradient = card.signal, card.signal.rewards, card.signal.gradient
    rows = [
        (f"gradient's signal to noise, {gradient.batch} rollouts", figure(gradient.ratio, ".2g")),
        ("its 95 % interval", f"[{figure(gradient.low, '.2g')}, {figure(gradient.high, '.2g')}]"),
        (f"flat groups, {groups.prompts} prompts with {groups.samples} samples", f"{groups.flat:.0%}"),
        ("variance of the reward within prompts", figure(groups.within, ".0%")),
        *((f"one {name}", f"{1e3 * seconds:.3g} ms") for name, seconds in card.seconds.items()),
        ("rollouts an hour, learning included", f"{3600 * gradient.batch / signal.move.seconds:,.0f}"),
    ]
    line = "Of GRPO with the task's recipe, as `grue tools diagnose` measures it; times are of the machine as it was."
    return Part("Signal and cost", table=plain_table(("", ""), rows), lines=(line,))


def _about(card: TaskCard) -> Part:
    of, start = card.frontier, f"{card.signal.start}{'' if card.trained else ', untrained'}"
    rows = [("task", f"{card.title}, sha256 {card.task_sha256[:12]}"), ("start", start), (REWARD, of.reward)]
    rows += [(_called(name), ", ".join(metrics) or UNKNOWN) for name, metrics in card.metrics.items()]
    rows += [("examples", ", ".join(f"{name} {count or UNKNOWN}" for name, count in card.splits.items()))]
    for kind, (mean, limit, beyond) in card.lengths.items():
        rows.append((f"tokens of a {kind}", f"{mean:.1f}; {beyond:.0%} above the limit of {limit}"))
    drawn = f"{of.prompts} validation examples, {of.samples} samples each at temperature {of.temperature:g}"
    line = f"Measured on {drawn}, seed {card.signal.seed}."
    return Part("The task", table=plain_table(("", ""), rows, left=(0, 1)), lines=(line,))
