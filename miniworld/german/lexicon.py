"""German words and their forms: noun phrases by case, verbs by tense.

Genders are written r, e, s for der, die, das; cases N, A, D, G for nominative, accusative, dative, genitive.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from grue.errors import DataError
from grue.files import read_toml
from miniworld.lexicon import HERE, load_lexicon, pluralise

Case = Literal["N", "A", "D", "G"]
Tense = Literal["present", "past"]

ENDINGS = {"N": ("er", "e", "es", "e"), "A": ("en", "e", "es", "e"), "D": ("em", "er", "em", "en"),
           "G": ("es", "er", "es", "er")}  # fmt: skip
ARTICLES = {"N": ("der", "die", "das", "die"), "A": ("den", "die", "das", "die"), "D": ("dem", "der", "dem", "den"),
            "G": ("des", "der", "des", "der")}  # fmt: skip
PRONOUNS = {"N": ("er", "sie", "es", "sie"), "A": ("ihn", "sie", "es", "sie"), "D": ("ihm", "ihr", "ihm", "ihnen")}
EIN_WORDS = {"a": "ein", "no": "kein", "my": "mein", "our": "unser"}
DIES_WORDS = {"this": "dies", "these": "dies", "every": "jed", "all": "all"}
MANY_WORDS = {"some": "einig", "several": "mehrer", "many": "viel"}
FIXED_WORDS = {"": "", "two": "zwei", "three": "drei", "four": "vier", "a few": "ein paar", "more": "mehr"}
CONTRACTIONS = {
    "in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "zu dem": "zum", "zu der": "zur",
    "bei dem": "beim", "von dem": "vom",
}  # fmt: skip
CONTRACTED = re.compile(r"\b(in dem|in das|an dem|an das|zu dem|zu der|bei dem|von dem)\b")
UNSTRESSED = re.compile("be|ver|er|ent|zer|ge|unter|über|umarm")


@dataclass(frozen=True, slots=True)
class GermanNoun:
    """A noun: its gender, its singular, the singular of the other cases, its plural, and whether it is never plural."""

    gender: str
    singular: str
    oblique: str
    plural: str
    single: bool


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """A verb's forms without its separable prefix ("hängt", "hing", "gehangen", and "auf" apart)."""

    infinitive: str
    prefix: str
    third: str
    past: str
    participle: str
    be: bool
    reflexive: bool


@dataclass(frozen=True, slots=True)
class GermanLexicon:
    """All German words by English lemma, "lemma@verb" for the sense that goes with a verb; `news`: adjectives there."""

    nouns: Mapping[str, GermanNoun]
    adjectives: Mapping[str, str]
    news: Mapping[str, tuple[str, ...]]
    dropped: frozenset[str]
    feminine: Mapping[str, str]
    irregular: Mapping[str, tuple[str, ...]]
    be: frozenset[str]


def entries(text: str) -> dict[str, str]:
    """Return the parts of "key: value, key: value" lines."""
    parts = (part.strip().partition(": ") for part in text.replace("\n", " ").split(",") if part.strip())
    return {key: value.strip() for key, _, value in parts}


@cache
def load_german() -> GermanLexicon:
    """Read the German words of `words.toml`, `events.toml`, `news.toml` and `turns.toml`."""
    words, events, news, turns = (
        read_toml(HERE / "german" / f"{name}.toml") for name in ("words", "events", "news", "turns")
    )
    nouns = {key: noun for block in words["nouns"].values() for key, noun in entries(block).items()}
    nouns = {**entries(turns["nouns"]["words"]), **entries(news["nouns"]["words"]), **nouns}
    return GermanLexicon(
        nouns={key: _noun(key, text) for key, text in nouns.items()},
        adjectives={**entries(words["adjectives"]["words"]), **entries(news["nouns"]["extra"])},
        news={key: tuple(text.split()) for key, text in entries(news["nouns"]["adjectives"]).items()},
        dropped=frozenset(words["adjectives"]["dropped"].split()),
        feminine=words["feminine"],
        irregular={key: tuple(text.split()) for key, text in entries(events["verbs"]["irregular"]).items()},
        be=frozenset(events["verbs"]["be"].split()),
    )


def _noun(key: str, text: str) -> GermanNoun:
    gender, singular, *rest = text.split()
    if gender not in ("r", "e", "s"):
        raise DataError(f"{HERE}: the German noun {key!r} has no gender r, e or s; write {key}: r Wort Wörter.")
    weak, bare = singular.endswith("*"), singular.rstrip("*")
    mark = rest[0] if rest else ""
    plural = {"": "", "=": bare, "-": bare}.get(mark, bare + mark[1:] if mark.startswith("+") else mark)
    return GermanNoun(gender, bare, plural if weak else bare, plural, mark in ("", "="))


def german_key(lemma: str, verb: str = "") -> str:
    """Return the key of a noun's German word next to a verb, or "" if German has none."""
    nouns = load_german().nouns
    return next((key for key in (f"{lemma}@{verb}", lemma) if key in nouns), "")


@cache
def adjectives_of(key: str) -> tuple[str, ...]:
    """Return the English adjectives of a noun that have a German word beside it."""
    lemma = key.partition("@")[0]
    noun = load_lexicon().nouns.get(lemma)
    options = load_german().news.get(lemma) or (noun.adjectives if noun else ())
    return tuple(adjective for adjective in options if german_adjective(key, adjective))


@cache
def german_adjective(key: str, adjective: str) -> str:
    """Return the stem of an adjective beside a noun, or "" where it would be odd."""
    german, lemma = load_german(), key.partition("@")[0]
    noun = load_lexicon().nouns.get(lemma)
    named = [f"{lemma}.{adjective}", f"{noun.kind}.{adjective}" if noun else "", adjective]
    for name in named:
        if name in german.dropped:
            return ""
        if name in german.adjectives:
            return german.adjectives[name]
    return ""


def is_plural(key: str, plural: bool) -> bool:
    """Return whether German says the plural where English does, or not."""
    return plural and not load_german().nouns[key].single


def column(key: str, plural: bool) -> int:
    """Return the column of a phrase in a table of endings: masculine, feminine, neuter, plural."""
    return 3 if is_plural(key, plural) else "res".index(load_german().nouns[key].gender)


def noun_form(noun: GermanNoun, case: Case, plural: bool) -> str:
    """Return a noun in a case."""
    if plural:
        return noun.plural + ("n" if case == "D" and not noun.plural.endswith(("n", "s")) else "")
    if case == "N" or noun.gender == "e":
        return noun.singular
    if noun.oblique != noun.singular:
        return noun.oblique
    return noun.singular + (_genitive(noun) if case == "G" else "")


def _genitive(noun: GermanNoun) -> str:
    word = noun.singular
    if word.endswith(("nis", "Bus")):
        return "ses"
    if word.endswith(("s", "ß", "x", "z", "sch")):
        return "" if word == "Virus" else "es"
    short = len(re.findall("[aeiouäöü]+", word.lower())) == 1 and word[-1] not in "aeiouähmlrn"
    return "es" if short and noun.plural != word + "s" else "s"


@cache
def noun_phrase(key: str, determiner: str, adjective: str, plural: bool, case: Case) -> str:
    """Return a noun phrase in a case; determiner and adjective are the English ones, "sein" and "ihr" the German.

    Raises:
        DataError: A determiner that German has no word for here.
    """
    noun, where, many = load_german().nouns[key], column(key, plural), is_plural(key, plural)
    if determiner == "some" and not many:
        word, kind = "etwas", "strong"
    elif determiner in MANY_WORDS:
        word, kind = MANY_WORDS[determiner] + ENDINGS[case][where], "strong"
    elif determiner == "most":
        word, kind = ARTICLES[case][where] + " meisten", "weak"
    elif determiner in FIXED_WORDS:
        word, kind = FIXED_WORDS[determiner], "strong"
    elif determiner == "the":
        word, kind = ARTICLES[case][where], "weak"
    elif determiner in DIES_WORDS:
        word, kind = DIES_WORDS[determiner] + ENDINGS[case][where], "weak"
    elif determiner in EIN_WORDS or determiner in ("sein", "ihr"):
        bare = (where in (0, 2) and case == "N") or (where == 2 and case == "A")
        word, kind = EIN_WORDS.get(determiner, determiner) + ("" if bare else ENDINGS[case][where]), "mixed"
    else:
        raise DataError(f"German has no determiner for {determiner!r} before {key!r}.")
    stem = german_adjective(key, adjective) if adjective else ""
    described = stem.removesuffix("e") + _adjective_ending(kind, case, where) if stem else ""
    return " ".join(part for part in (word, described, noun_form(noun, case, many)) if part)


def _adjective_ending(kind: str, case: Case, where: int) -> str:
    if kind == "strong":
        return "en" if case == "G" and where in (0, 2) else ENDINGS[case][where]
    if where == 3 or case in ("D", "G") or (case == "A" and where == 0):
        return "en"
    return ENDINGS["N"][where] if kind == "mixed" else "e"


@cache
def german_verb(text: str) -> GermanVerb:
    """Return the forms of a verb: "führen", "auf|hängen", "sich verstecken"."""
    german = load_german()
    reflexive, bare = text.startswith("sich "), text.removeprefix("sich ")
    prefix, _, infinitive = bare.rpartition("|")
    if infinitive in german.irregular:
        third, past, participle = german.irregular[infinitive]
    else:
        stem = infinitive[:-2] if infinitive.endswith("en") else infinitive[:-1]
        link = "e" if re.search(r"[td]$|chn$|ffn$|[^aeiouäöülrmnh][mn]$", stem) else ""
        third, past = stem + link + "t", stem + link + "te"
        silent = infinitive.endswith("ieren") or UNSTRESSED.match(infinitive)
        participle = third if silent else "ge" + third
    return GermanVerb(infinitive, prefix, third, past, participle, bool({bare, infinitive} & german.be), reflexive)


def finite(verb: GermanVerb, tense: Tense, plural: bool) -> str:
    """Return the third person without the prefix."""
    if tense == "present":
        return ("sind" if verb.infinitive == "sein" else verb.infinitive) if plural else verb.third
    return verb.past + (("n" if verb.past.endswith("e") else "en") if plural else "")


def with_zu(verb: GermanVerb) -> str:
    """Return the infinitive with "zu": zu führen, aufzuhängen."""
    return f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"


def feminine(lemma: str) -> str:
    """Return the word for a woman of a trade."""
    german = load_german()
    word = german.nouns[lemma].singular
    return german.feminine.get(lemma, word if german.nouns[lemma].gender == "e" else word.removesuffix("e") + "in")


def contract(text: str) -> str:
    """Contract prepositions and articles: "in dem Haus" becomes "im Haus"."""
    return CONTRACTED.sub(lambda found: CONTRACTIONS[found[1]], text)


def english_noun(lemma: str, plural: bool) -> str:
    """Return an English noun of the world or of the news in its number; "_" is the space of a compound."""
    noun = load_lexicon().nouns.get(lemma)
    word = (noun.plural if noun else pluralise(lemma)) if plural else lemma
    return word.replace("_", " ")
