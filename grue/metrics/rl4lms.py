"""METEOR and ROUGE as RL4LMs actually computed them, to compare with its published numbers; never a default.

RL4LMs passed its libraries lists of references where they expect one string. So METEOR always, and ROUGE with
`use_single_ref: False`, compared a text with the list as Python prints it, `['the cat', 'a cat']`: one long reference
with brackets, quotation marks, and each line end as a backslash and an n. Its ROUGE-Lmax is py-rouge's, which raises
precision and recall of ROUGE-L to the power meant for ROUGE-W.

The value of a text is that of nltk 3.7, rouge-score 0.0.4 and py-rouge 1.1. Of 6,193 real, disturbed and adversarial
pairs, ROUGE is equal to the last bit in all. Given the same sentences, METEOR is, too, except for 17 pairs with words
such as "adss", from which nltk 3.7 removes two endings. nltk splits sentences by a model, which `model_sentences`
replaces. Against such a model with nltk's own abbreviations, METEOR differs in 1 of 993 pairs of CommonGen (each with
several references), 14 of 400 of CNN/DailyMail and 5 of 700 of DailyDialog, and its means by less than 0.0003.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np

from grue.metrics import meteor, rouge, tables, wordnet
from grue.metrics.metric import Average, Metric, MetricFactory, best_of_references, references_of
from grue.metrics.tokens import ABBREVIATIONS, CachedByWord, porter
from grue.metrics.treebank import split_sentence_37
from grue.records import Example

References = tuple[str, ...]


def printed(references: References) -> References:
    """Return the one string that RL4LMs compared a text with: the list of references as Python prints it."""
    return (str(list(references)),)


def with_references(change: Callable[[References], References], signature: str, *metrics: Metric) -> Average:
    """Return the mean of `metrics`, computed with the references `change(references)` of every example."""
    name = signature.partition("|")[0]

    def convert(examples: Sequence[Example]) -> list[Example]:
        return [replace(example, references=change(references_of(example, name))) for example in examples]

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        converted = convert(examples)
        return list(np.mean([metric.per_example(metric.statistics(converted, texts)) for metric in metrics], axis=0))

    def prepare(examples: Sequence[Example]) -> None:
        converted = convert(examples)
        for metric in metrics:
            metric.prepare(converted)

    return Average(signature, values, prepare)


# --- METEOR and ROUGE ------------------------------------------------------------------------------------------------

ROUGE_TOKENS = "tok:a-z0-9|stem:porter"
REFERENCES = "refs:printed|corpus:mean"
ROUGES = {"rouge1": 1, "rouge2": 2, "rougeL": None}


def meteor_rl4lms() -> Average:
    """Return METEOR against the printed list, 0–1: a copy of a lone reference of seven words reaches 0.617."""
    details = f"version:nltk3.7|split:rules|case:lower|tok:treebank3.7|stem:porter|synonyms:{wordnet.DATA}"

    def read(text: str) -> meteor.Words:
        return meteor.from_words([word for sentence in model_sentences(text) for word in split_sentence_37(sentence)])

    compared = best_of_references("meteor:rl4lms", details, read, meteor.meteor)
    return with_references(printed, f"meteor:rl4lms|{details}|{REFERENCES}", compared)


_STOP = re.compile(r"""[.?!](?=[)";}\]*:@'({\[!?]|\s+\S)(?:\s*["')\]}]+(?=\s|--|$))?""")
_NO_STOP = re.compile(r"[^\W\d_](?:\.[^\W\d_])*|.*\.")  # an initial, initials, a stop before the stop
_ABBREVIATIONS = ABBREVIATIONS | {"tue", "wed", "fri"}


def model_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text much as nltk's English model finds them.

    Unlike in `sentences`, a full stop also ends one before a word in lower case and directly before a closing mark: in
    a printed list, every reference with a full stop ends a sentence.
    """
    start = 0
    for stop in _STOP.finditer(text):
        before = text[max(start, stop.start() - 16) : stop.start()].split()
        word = before[-1].lstrip("(\"'[{").lower() if before else ""
        if stop[0][0] == "." and (word in _ABBREVIATIONS or (word != "i" and _NO_STOP.fullmatch(word))):
            continue
        yield text[start : stop.end()].strip()
        start = stop.end()
    yield text[start:].strip()


def printed_rouge(name: str, order: int | None) -> Average:
    """Return the F1 of `grue.metrics.rouge.rouge` against the printed list, 0–1."""
    signature = f"{name}:rl4lms|{ROUGE_TOKENS}|{REFERENCES}"
    return with_references(printed, signature, rouge.rouge(name, order))


def printed_rouge_lsum() -> Average:
    """Return ROUGE-Lsum F1 against the printed list, 0–1, where only the text can still have several lines."""
    return with_references(printed, f"rougeLsum:rl4lms|split:newline|{ROUGE_TOKENS}|{REFERENCES}", rouge.rouge_lsum())


def rouge_combined() -> Average:
    """Return the mean of ROUGE-1, ROUGE-2 and ROUGE-L F1 with the first reference, 0–1: the reward rouge_combined."""
    metrics = [rouge.rouge(name, order) for name, order in ROUGES.items()]
    return with_references(
        lambda references: references[:1], f"rouge:rl4lms|mean:{','.join(ROUGES)}|{ROUGE_TOKENS}|refs:first", *metrics
    )


# --- ROUGE-Lmax ------------------------------------------------------------------------------------------------------

LIMIT = 100
WEIGHT = 1.2
_NO_WORD = re.compile("[^a-z0-9]")


def rouge_l_max() -> Average:
    """Return py-rouge's ROUGE-L F1 against the best reference, 0–1, with the options of RL4LMs' NarrativeQA.

    Only the first hundred words of a text count, line by line; precision and recall are raised to the power 1 / 1.2.
    """
    details = f"version:py-rouge1.1|split:newline|words:{LIMIT}|weight:{WEIGHT}|stem:porter-original"
    return best_of_references("rouge_l_max:rl4lms", details, read_lines, weighted_f1)


def read_lines(text: str) -> rouge.Lines:
    """Read the first hundred words of a text as one sequence of stems per line; lines without a word share nothing."""
    read, left = [], LIMIT
    for line in text.split("\n"):
        if words := line.split()[:left]:
            left -= len(words)
            read.append(_stems(" ".join(words)))
    return read


def weighted_f1(reference: rouge.Lines, candidate: rouge.Lines) -> float:
    """Compare two texts by what each reference line shares with any candidate line."""
    hits = rouge.union_lcs(reference, candidate)
    if not hits:
        return 0.0
    precision: float = (hits / sum(map(len, candidate))) ** (1 / WEIGHT)
    recall: float = (hits / sum(map(len, reference))) ** (1 / WEIGHT)
    return precision * recall / (0.5 * precision + 0.5 * recall)


def _stems(line: str) -> tuple[str, ...]:
    """Split a line without its punctuation and stem its words; "cannot" stays whole, unlike in nltk."""
    cleaned = _NO_WORD.sub(" ", line.lower()).replace("cannot", "_cannot_")
    return tuple(_stem(word).replace("_cannot_", "cannot") for word in split_sentence_37(cleaned))


@CachedByWord
def _stem(word: str) -> str:
    if len(word) <= 3:
        return word
    return exceptions().get(word) or porter("ORIGINAL_ALGORITHM")(word)


@cache
def exceptions() -> dict[str, str]:
    """Return what py-rouge 1.1 looks up before it stems: irregular forms, and words whose stem is the Perl script's.

    Its irregular forms are those of an older WordNet, the first base of each; among plain words, our WordNet has six
    more forms and one different base.
    """
    lists = wordnet.exceptions()
    table = {form: bases[0] for part in "arnv" for form, bases in lists[part].items() if bases}
    table["comics"] = "comic_strip"
    for newer in ("ashes", "cognosenti", "halfpence", "lisente", "morses", "staretsy"):
        del table[newer]
    return table | {entry.replace("/", ""): entry.partition("/")[0] for entry in _LIKE_PERL.split()}


_LIKE_PERL = """
    accid/entally agreem/ent agreem/ents anthropolog/y apolog/ies apolog/y argum/ent argum/ents assembl/y bubbl/y
    cardiolog/y coincid/entally commiss/ioner commiss/ioners compass/ionate compon/entized congress/ional
    contin/ental detrim/ental dimens/ional disproport/ionate divis/ional docum/ent docum/entation docum/ented
    docum/enting docum/ents elem/ent elem/ents environ/mental experi/mentation fundam/ental fundam/entalism
    govern/mental ideolog/ies ideolog/y immim/ent implem/ent implem/entation implem/ented implem/enters
    implem/enting imposs/ibly impress/ionable incred/ibly instrum/ent instrum/ental instrum/ents intent/ionally
    intergovern/mental internat/ionalize internat/ionally judgem/ent monum/ent monum/ental movem/ent movem/ents
    mytholog/y neurobiolog/y occas/ional occas/ionally ostens/ibly parliam/ent pharmacolog/y physiolog/y placem/ent
    possibl/y profess/ional profess/ionals psycholog/y repres/entation respons/ibly revolutionari/ze
    revolutionari/zed revolut/ionize revolut/ionized sentim/ent sentim/ental sentim/ents settlem/ent settlem/ents
    statem/ent statem/ents supplem/ent supplem/ents technolog/ies technolog/y terribl/y testam/ent tournam/ent
    toxicolog/y tradit/ionally transnat/ionalism unconstitut/ionally unintent/ionally unrep/entant vacat/ioners
    visibl/y
"""


METRICS: dict[str, MetricFactory] = {
    "meteor:rl4lms": meteor_rl4lms,
    "rouge:rl4lms": rouge_combined,
    **{f"{name}:rl4lms": partial(printed_rouge, name, order) for name, order in ROUGES.items()},
    "rougeLsum:rl4lms": printed_rouge_lsum,
    "rouge_l_max:rl4lms": rouge_l_max,
    # References filled up to three with "<null>", as the official script does. No n-gram of "<null>" is backed by a
    # table, so that its recall is 1 and only the table counts: a text that copies the table gets 1 in any case.
    "parent:rl4lms": lambda: tables.parent("parent:rl4lms", "f1", 3),
}
