"""Parts of speech by a few rules over WordNet, for metrics that need to know who does what; no model, no training.

Function words are listed here. Any other word can be what WordNet lists it as, and its neighbours decide: no verb
follows "the", no noun follows "to". If they leave it open, the more common use decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from grue.metrics.tokens import CachedByWord
from grue.metrics.wordnet import readings

Tag = Literal[
    "noun", "verb", "ing", "ed", "adjective", "adverb", "determiner", "number", "pronoun", "anaphor", "preposition",
    "be", "auxiliary", "to", "owner", "and", "comma", "relative", "link", "stop", "start",
]  # fmt: skip
Form = Literal["base", "s", "ing", "ed"]

_WORDS: dict[Tag, str] = {
    "determiner": "a an the this that these those some any each every no another both all my your his her its our "
    "their whose",
    "number": "one two three four five six seven eight nine ten eleven twelve several many few multiple more",
    "pronoun": "i you we me us there here someone everyone somebody everybody something everything nobody nothing "
    "myself yourself ourselves what",
    "anaphor": "he she it they him them himself herself itself themselves",
    "preposition": "in on at of by with from into onto over under near behind beside besides between through across "
    "along against around above below down up off outside inside during before after for about like past without "
    "upon among atop underneath beneath towards toward until out away since than as within beyond",
    "be": "is are was were be been being am 're 'm",
    "auxiliary": "can could will would shall should may might must do does did ca wo 'll 'd 've",
    "adverb": "not n't then now today yesterday tomorrow very too again once twice also just only so ago soon always "
    "never often together apart alone home",
    "and": "and or but nor & while",
    "comma": ", ; : -",
    "relative": "who which",
    "link": "because if when where although though whether how why",
    "to": "to",
    "stop": ". ! ?",
}
CLOSED: dict[str, Tag] = {word: tag for tag, listed in _WORDS.items() for word in listed.split()}


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


HAVE = _set("have has had having")
WATCHING = _set("see watch hear show feel notice let make help")
"""Verbs after which a noun and the bare verb are a clause: saw a dog swim."""
WISHING = _set("want try like decide have love learn hope need refuse forget prefer begin start go use")
"""Verbs after which "to" precedes a verb."""
OPENERS = _set("before after until since as")
"""Prepositions that can open a clause."""
_INSIDE = ("determiner", "number", "adjective", "owner")
_GOVERNING = ("verb", "ing", "ed", "preposition")
_CLAUSAL = OPENERS | _set("by for from without about than like")
_OBJECT = ("determiner", "number", "anaphor", "pronoun")
_ENDS = ("be", "auxiliary", "stop", "comma")
_TAGS: dict[str, Tag] = {"n": "noun", "v": "verb", "a": "adjective", "r": "adverb"}


@dataclass(slots=True)
class Context:
    """The state of a sentence up to the current word.

    Attributes:
        word: The last word that is not an adverb.
        before: Its tag.
        adverb: Whether adverbs follow that word.
        paired: Whether "and" joins the last noun and the one before.
        plural: Whether the last noun is a plural, or paired.
        article: First determiner of the last noun if neither a verb nor a preposition governs it, else empty.
        verb: Lemma of the last verb.
        forms: Forms of all verbs.
        finite: Whether the clause has a verb, other than one in -ing.
        predicate: Whether a form of be or have, or an auxiliary, is still to come.
    """

    word: str = ""
    before: Tag = "start"
    adverb: bool = False
    paired: bool = False
    plural: bool = False
    article: str = ""
    verb: str = ""
    forms: set[Form] = field(default_factory=set)
    finite: bool = False
    predicate: bool = False


def tag(tokens: Sequence[str]) -> list[Tag]:
    """Return the tag of each token, all in lower case: "the dogs bark" → determiner, noun, verb."""
    tags: list[Tag] = []
    context = Context()
    for word, ahead, beyond, predicate in zip(
        tokens, [*tokens[1:], ""], [*tokens[2:], "", ""], _predicates(tokens), strict=False
    ):
        context.predicate = predicate
        label = _listed(word, ahead, beyond, context) or _open(word, ahead, beyond, context)
        tags.append(label)
        if label == "stop":
            context = Context()
        elif label == "adverb":
            context.adverb = True
        else:
            _note(word, label, context)
    return tags


def _predicates(tokens: Sequence[str]) -> list[bool]:
    """Return for each token whether a form of be or have, or an auxiliary, comes after it in its sentence."""
    flags, ahead = [], False
    for word in reversed(tokens):
        flags.append(ahead)
        listed = CLOSED.get(word)
        ahead = listed != "stop" and (ahead or word in HAVE or listed in ("be", "auxiliary"))
    return flags[::-1]


def _note(word: str, label: Tag, context: Context) -> None:
    """Update the context with a word that is not an adverb."""
    if label in ("verb", "ed", "be"):
        context.finite = True
    elif label == "link" or word in OPENERS:
        context.finite = False
    if label in ("verb", "ing", "ed"):
        context.verb = lemma("v", word)
        context.forms.add(form(word) or "base")
    elif label == "noun":
        context.plural = context.paired or lemma("n", word) != word or word == "people"
    elif label in ("determiner", "number") and context.before not in _INSIDE:
        context.article = "" if context.before in _GOVERNING and context.word not in OPENERS else word
    if label not in (*_INSIDE, "noun"):
        context.article = ""
        context.paired = label == "and" and context.before == "noun"
    context.word, context.before, context.adverb = word, label, False


def _listed(word: str, ahead: str, beyond: str, context: Context) -> Tag | None:
    """Return the tag of a function word or punctuation mark, or None for any other word."""
    if word == "'s":
        is_verb = context.before in ("pronoun", "anaphor") or CLOSED.get(ahead) == "determiner" or form(ahead) == "ing"
        return "be" if is_verb else "owner"
    if word == "'" and context.before == "noun" and context.plural:
        return "owner"
    if word in HAVE:
        helps = ahead in ("been", "n't", "not") or ahead.endswith("ly") or (form(ahead) == "ed" and _best(ahead) == "v")
        return "auxiliary" if helps else "verb"
    if word == "that" and context.before == "noun":
        return "relative"
    if word == "to":
        return "to" if _is_infinitive(ahead, beyond, context) else "preposition"
    if (word, ahead) in (("next", "to"), ("close", "to"), ("front", "of")):
        return "preposition"
    if (word, ahead) == ("like", "to"):
        return "verb"
    if word == "her" and not ahead.isalnum():
        return "anaphor"
    if word[0].isdigit():
        return "number"
    return CLOSED.get(word) or (None if word[0].isalnum() else "stop")


def _is_infinitive(ahead: str, beyond: str, context: Context) -> bool:
    """Whether "to" precedes a verb: to bark at, but not to school."""
    if form(ahead) != "base" or ahead in CLOSED:
        return ahead in ("be", "have", "do")
    return context.verb in WISHING or CLOSED.get(beyond) in _OBJECT or uses("v", ahead) >= uses("n", ahead)


def _open(word: str, ahead: str, beyond: str, context: Context) -> Tag:
    """Return the tag of a word that is not listed."""
    parts = readings(word)
    if not parts:
        return _guess(word)
    if context.before in _INSIDE and not (context.before == "adjective" and "n" not in parts and "a" not in parts):
        return _inside(word, ahead, beyond)
    verbal = form(word)
    if verbal in ("ing", "ed"):
        return _participle(word, verbal, ahead, context)
    if verbal and _acts(word, verbal, ahead, context):
        return "verb"
    if "r" in parts and (CLOSED.get(ahead) == "adverb" or (word.endswith("ly") and not is_nominal(ahead))):
        return "adverb"
    if "a" in parts and context.before == "be" and uses("a", word) >= uses("n", word):
        return "adjective"
    part = max((part for part in "nar" if part in parts), key=lambda part: parts[part][1], default="v")
    if "a" in parts and part == "n" and context.before != "noun" and is_nominal(ahead):
        return "adjective"
    return _TAGS[part]


def _guess(word: str) -> Tag:
    """Return the tag that the ending of an unknown word suggests; one with a hyphen is an adjective: hard-working."""
    if "-" in word:
        return "adjective"
    if word.endswith("ing"):
        return "ing"
    if word.endswith("ed"):
        return "ed"
    if word.endswith("ly"):
        return "adverb"
    return "adjective" if word.endswith(("ful", "ous", "ish", "less")) else "noun"


def _inside(word: str, ahead: str, beyond: str) -> Tag:
    """Return the tag of a word after a determiner, number, adjective or owner: the *painted* fence, the *painting*."""
    parts = readings(word)
    if form(word) in ("ing", "ed") and uses("n", word) < uses("v", word):
        return "adjective" if is_nominal(ahead) or "n" not in parts else "noun"
    is_plain = lemma("a", word) == word and uses("a", word) >= uses("n", word)  # unlike a cleaner
    if CLOSED.get(ahead) in ("and", "comma"):
        can_go_on = beyond not in CLOSED and "a" in readings(beyond)  # a blue and white boat
    else:
        can_go_on = ahead not in CLOSED and (form(ahead) in ("ing", "ed") or uses("n", ahead) >= 0)
    if "a" in parts and ("n" not in parts or is_nominal(ahead) or (is_plain and can_go_on)):
        return "adjective"
    return "adverb" if "r" in parts and "n" not in parts else "noun"


def _participle(word: str, verbal: Form, ahead: str, context: Context) -> Tag:
    """Return the tag of a word like "painting" or "painted" that no determiner or adjective precedes."""
    follows_plural = context.before == "noun" and context.plural
    if uses("n", word) > uses("v", word) and not (follows_plural or CLOSED.get(ahead) in _OBJECT):
        return "noun"
    opens = context.before in ("start", "preposition")
    if verbal == "ing":
        is_thing = opens and "n" in readings(word) and (ahead in ("", "next", "has") or CLOSED.get(ahead) in _ENDS)
        if context.before == "preposition" and context.word not in _CLAUSAL and is_nominal(ahead):
            return "adjective"
        return "noun" if is_thing else "ing"
    if context.before == "be":
        return "adjective" if uses("a", word) > uses("v", word) else "ed"
    if context.before in ("start", *_GOVERNING):
        return "adjective" if "a" in readings(word) or is_nominal(ahead) else "ed"
    return "ed"


def _acts(word: str, verbal: Form, ahead: str, context: Context) -> bool:
    """Whether a word that can be a bare verb, or one with an s, is a verb here: the dog *barks*, but tree *barks*."""
    verb, nominal = uses("v", word), max(uses("n", word), uses("a", word))
    has_object = CLOSED.get(ahead) in _OBJECT
    if nominal < 0 or context.before in ("pronoun", "anaphor", "auxiliary", "to", "relative"):
        return True
    if context.before == "noun":
        if has_object or context.adverb:
            return True
        alone = bool(context.article) and not (context.finite or context.predicate)
        if verbal == "base":
            return context.verb in WATCHING or (context.plural and (alone or verb >= nominal))
        one_thing = context.article in ("a", "an", "another", "every", "each", "one")
        return not context.plural and (one_thing or alone or (1 if context.forms else 3) * verb > nominal)
    if context.before in ("and", "comma"):
        return verb > nominal and bool(context.forms) and (has_object or verbal in context.forms)
    return context.adverb and context.before not in ("be", "preposition") and verb > nominal


@CachedByWord
def form(word: str) -> Form | None:
    """Return the form of the verb that `word` can be, or None: bark base, barks s, barking ing, barked and ran ed."""
    reading = readings(word).get("v")
    if reading is None:
        return None
    if reading[0] == word:
        return "base"
    return "ing" if word.endswith("ing") else "s" if word.endswith("s") else "ed"


def uses(part: str, word: str) -> int:
    """Return how common `word` is as that part of speech, -1 if it never is."""
    reading = readings(word).get(part)
    return -1 if reading is None else reading[1]


def lemma(part: str, word: str) -> str:
    """Return the lemma of `word` as that part of speech, the word itself if it has none."""
    reading = readings(word).get(part)
    return word if reading is None else reading[0]


def is_nominal(word: str) -> bool:
    """Whether `word` is a noun or adjective at least as often as anything else; unknown words are nouns."""
    return word.isalnum() and word not in CLOSED and _best(word) in "na"


@CachedByWord
def _best(word: str) -> str:
    parts = readings(word)
    return max(parts, key=lambda part: parts[part][1]) if parts else "n"
