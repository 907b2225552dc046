"""Who does what, where and with what: a text as tuples, by rules that accept every sentence, grammatical or not.

    tokens → tags     the dogs bark at a cat: determiner noun verb preposition determiner noun
    tags → chunks     thing dog, action bark, preposition at, thing cat
    chunks → clauses  dog, bark, at cat
    clauses → tuples  (dog), (cat), (dog, bark at, cat)

A sentence is split at its verbs. The chunks between two verbs are divided again: the first part completes the clause
before, the rest opens the next clause.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

from grue.metrics.tags import OPENERS, WISHING, Tag, lemma, tag
from grue.metrics.tokens import words

Tuple = tuple[str, ...]
Kind = Literal[
    "thing", "quality", "action", "preposition", "pronoun", "anaphor", "owner", "and", "comma", "relative", "link",
    "to", "stop",
]  # fmt: skip

QUANTITIES = frozenset(
    ("group", "pair", "couple", "lot", "number", "bunch", "crowd", "team", "herd", "flock", "loaf", "slice", "piece")
)
"""Nouns whose role in a clause passes to the noun after "of": a group of boys plays."""
ACCESSORIES = frozenset(("wear", "hold", "carry", "have", "use"))
"""Verbs whose object is not the subject of the next verb: a boy wearing a cap riding a sled."""
MOST = 64
"""Limit of things in one role of a verb: a longer list is no clause, and two such lists have too many pairs."""
_LETTERS: dict[Tag, str] = {"noun": "n", "adjective": "a"}
_PHRASE = ("determiner", "number", "adjective", "noun")
_LEXICAL = ("verb", "ing", "ed")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a sentence with one role.

    Attributes:
        word: Lemma of a thing, quality or action; any other word as it stands.
        attributes: Numbers, adjectives and nouns that stand before a thing.
        form: Of an action: the form of its verb; "ing" only without an auxiliary.
    """

    kind: Kind
    word: str
    attributes: tuple[str, ...] = ()
    form: Literal["", "active", "passive", "ing"] = ""


@dataclass(slots=True)
class SceneClause:
    """A verb and its participants; "be" is the verb of "a dog is on the mat".

    Attributes:
        phrases: (preposition, thing), in order.
        qualities: What the subjects are said to be.
        impersonal: Whether the subject is a pronoun that stands for no thing of the sentence.
    """

    verb: str = ""
    passive: bool = False
    subjects: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    phrases: list[tuple[str, str]] = field(default_factory=list)
    qualities: list[str] = field(default_factory=list)
    impersonal: bool = False


def read(text: str) -> list[Tuple]:
    """Return the tuples of a text, each once: its things, their attributes and the relations between them.

    "Two girls were helped by a man." → (girl), (girl, two), (man), (man, help, girl)
    """
    tokens = words(text.lower().replace("’", "'"))
    chunks = chunk(tokens, tag(tokens))
    tuples: dict[Tuple, None] = {}
    for each in chunks:
        if each.kind == "thing":
            tuples |= dict.fromkeys([(each.word,), *((each.word, attribute) for attribute in each.attributes)])
    joined, relations = join(chunks)
    tuples |= dict.fromkeys(relations)
    for sentence in _split(joined, "stop"):
        tuples |= dict.fromkeys(_sentence_tuples(sentence))
    return list(tuples)


def chunk(tokens: Sequence[str], tags: Sequence[Tag]) -> list[Chunk]:
    """Return the chunks of tagged tokens; adverbs belong to none.

    "a small dog was barking" → thing dog with the attribute small, action bark
    """
    chunks: list[Chunk] = []
    index = 0
    while index < len(tokens):
        end = index + 1
        if tags[index] in _PHRASE:
            end = _end_of_phrase(tags, index)
            chunks += _phrase(tokens[index:end], tags[index:end])
        elif tags[index] in ("auxiliary", "be", *_LEXICAL):
            end = _end_of_verb(tags, index)
            chunks += _verb(tokens[index:end], tags[index:end])
        elif tags[index] != "adverb":
            chunks.append(Chunk(cast(Kind, tags[index]), tokens[index]))  # the other tags are kinds
        index = end
    return chunks


def _end_of_phrase(tags: Sequence[Tag], start: int) -> int:
    """Return where the noun phrase ends that starts at `start`; "a blue and white boat" is one."""
    end, has_noun = start, False
    while end < len(tags):
        if tags[end] not in _PHRASE:
            listing = tags[end] in ("and", "comma") and tags[end - 1] == "adjective"
            if has_noun or not (listing and tags[end + 1 : end + 2] == ["adjective"] and "noun" in tags[end : end + 6]):
                break
        elif has_noun and tags[end] != "noun":
            break
        has_noun = tags[end] == "noun"
        end += 1
    return end


def _phrase(tokens: Sequence[str], tags: Sequence[Tag]) -> Iterator[Chunk]:
    """Yield the thing of a noun phrase, or its adjectives if it has no noun."""
    described = [lemma(_LETTERS[each], word) for word, each in zip(tokens, tags, strict=True) if each in _LETTERS]
    if "noun" in tags:
        numbers = [word for word, each in zip(tokens, tags, strict=True) if each == "number"]
        yield Chunk("thing", described[-1], (*numbers, *described[:-1]))
    else:
        yield from (Chunk("quality", each) for each in described)


def _end_of_verb(tags: Sequence[Tag], start: int) -> int:
    """Return where the verb ends that starts at `start`: behind the first verb that is neither be nor auxiliary."""
    end = start
    while end < len(tags) and tags[end] in ("auxiliary", "be", "adverb"):
        end += 1
    return end + 1 if end < len(tags) and tags[end] in _LEXICAL else end


def _verb(tokens: Sequence[str], tags: Sequence[Tag]) -> Iterator[Chunk]:
    """Yield the action of a verb with its auxiliaries; auxiliaries by themselves are none."""
    last = tags[-1]
    if last == "ed" and "be" in tags:
        yield Chunk("action", lemma("v", tokens[-1]), form="passive")
    elif last in _LEXICAL:
        yield Chunk("action", lemma("v", tokens[-1]), form="ing" if list(tags) == ["ing"] else "active")
    elif "be" in tags:
        yield Chunk("action", "be", form="active")


def join(chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[Tuple]]:
    """Return the chunks with one thing for every two that "of" or an owner's 's joins, and these relations.

    "the dog's bone" → bone and (dog, have, bone); "a group of boys" → boy and (group, of, boy)
    """
    joined: list[Chunk] = []
    relations: list[Tuple] = []
    for each in chunks:
        if each.kind == "thing" and len(joined) > 1 and joined[-2].kind == "thing":
            first, link = joined[-2:]
            if link.kind == "owner":
                relations.append((first.word, "have", each.word))
                joined[-2:] = [each]
                continue
            if link.word == "of":
                relations.append((first.word, "of", each.word))
                joined[-2:] = [each if first.word in QUANTITIES else first]
                continue
        joined.append(each)
    return joined, relations


def _split(chunks: Sequence[Chunk], kind: Kind) -> Iterator[Sequence[Chunk]]:
    """Yield the pieces between chunks of a kind."""
    start = 0
    for end, each in enumerate(chunks):
        if each.kind == kind:
            yield chunks[start:end]
            start = end + 1
    yield chunks[start:]


def _sentence_tuples(chunks: Sequence[Chunk]) -> Iterator[Tuple]:
    """Yield the relations and qualities of a sentence."""
    verbs = [each for each in chunks if each.kind == "action"]
    *gaps, rest = _split(chunks, "action")
    current = SceneClause()
    mentioned = ""  # what "it" would be
    main: list[str] = []  # the subjects of a verb that is still to come: a girl *who sings* …
    clauses: list[SceneClause] = []
    for gap, verb in zip(gaps, verbs, strict=True):
        own, opening = divide(gap, verb, first=not current.verb)
        complete(current, own, mentioned)
        mentioned = current.objects[-1] if current.objects else mentioned
        yield from beside(opening)
        following = SceneClause(verb.word, verb.form == "passive")
        leading, kinds = heads(opening), {each.kind for each in opening}
        following.impersonal = not leading and "pronoun" in kinds
        chained = bool(current.verb) and _is_chained(current, own, opening)
        if leading:
            following.subjects = leading
            for clause in (*clauses, current):  # after singing, a girl …
                clause.subjects = clause.subjects or ([] if clause.impersonal else leading)
            main = leading if verb.form == "ing" or "relative" in kinds else []
        elif not opening and not chained and main and verb.form != "ing":
            following.subjects, main = main, []
        elif not following.impersonal:
            following.subjects = current.subjects if chained else _inherited_subjects(current, own, opening, verb)
        if chained or not current.verb:
            following.phrases = current.phrases
        else:
            clauses.append(current)
        current = following
    if not verbs:
        yield from beside(rest)
    complete(current, rest, mentioned)
    for clause in (*clauses, current):
        yield from relations_of(clause)


def divide(gap: Sequence[Chunk], verb: Chunk, first: bool) -> tuple[Sequence[Chunk], Sequence[Chunk]]:
    """Divide the chunks before a verb: those that complete the clause before, and those that open the verb's own.

    Before the first verb of a sentence, all chunks open the clause, except those before a comma: in the park, | two
    girls.
    """
    for index in reversed(range(len(gap))):
        if _opens(gap, index, verb, first):
            opening = gap[index:]
            return gap[:index], opening[1:] if opening[0].word in OPENERS and len(opening) > 1 else opening
    if not first:
        return gap, ()
    return (), gap[1:] if gap and gap[0].word in OPENERS else gap


def _opens(gap: Sequence[Chunk], index: int, verb: Chunk, first: bool) -> bool:
    """Whether a clause opens at `index`."""
    kind, before = gap[index].kind, gap[index - 1].kind if index else "stop"
    if kind in ("comma", "link"):
        return True
    if kind in ("pronoun", "thing"):
        return before == "thing" or (kind == "pronoun" and before != "preposition")
    if first:
        return False
    at_verb = index + 1 == len(gap)
    if kind == "anaphor":
        return at_verb and verb.form != "ing" and before in ("preposition", "and", "thing")
    if kind == "and" or gap[index].word in OPENERS:
        return at_verb or verb.form != "ing"
    return kind in ("relative", "to")


def heads(opening: Sequence[Chunk]) -> list[str]:
    """Return the things that no preposition governs, the last one and those joined to it: a man and a dog in a car."""
    things: list[str] = []
    before: Kind = "stop"
    for each in opening:
        if each.kind == "thing" and before != "preposition":
            things = [*things, each.word] if before == "and" else [each.word]
        before = each.kind
    return things


def beside(chunks: Sequence[Chunk]) -> Iterator[Tuple]:
    """Yield the relations of things without a verb: a man with a hat, a sky full of clouds."""
    head = preposition = ""
    for each in chunks:
        if each.kind == "preposition":
            preposition = f"{preposition} {each.word}".lstrip()
            continue
        if each.kind == "thing" and not preposition:
            head = each.word
        elif each.kind == "thing" and head:
            yield (head, preposition, each.word)
        elif each.kind == "quality" and head:
            yield (head, each.word)
        preposition = ""


def complete(clause: SceneClause, chunks: Sequence[Chunk], mentioned: str) -> None:
    """Add to a clause what follows its verb: objects, phrases and qualities; "it" stands for what was `mentioned`."""
    preposition = last = ""
    before: Kind = "stop"
    for each in chunks:
        if each.kind == "preposition":
            preposition = f"{preposition} {each.word}".lstrip()
        else:
            word = each.word if each.kind == "thing" else mentioned if each.kind == "anaphor" else ""
            if word:
                last = preposition or (last if before == "and" else "")
                if last:
                    clause.phrases.append((last, word))
                elif clause.verb:
                    clause.objects.append(word)
            elif each.kind == "quality" and not preposition and not clause.objects:
                clause.qualities.append(each.word)
            preposition = ""
        before = each.kind


def _is_chained(current: SceneClause, own: Sequence[Chunk], opening: Sequence[Chunk]) -> bool:
    """Whether a verb only leads to the next: wants to bark, starts barking, is about to bark."""
    if own or any(each.kind not in ("to", "preposition") or each.word in OPENERS for each in opening):
        return False
    return not opening or current.verb == "be" or current.verb in WISHING


def _agents(clause: SceneClause) -> list[str]:
    """Return the things after "by" of a passive verb."""
    return [thing for preposition, thing in clause.phrases if clause.passive and preposition == "by"]


def _inherited_subjects(current: SceneClause, own: Sequence[Chunk], opening: Sequence[Chunk], verb: Chunk) -> list[str]:
    """Return the subjects of a verb that has none of its own."""
    if any(each.kind == "relative" for each in opening):
        return [each.word for each in own if each.kind == "thing"][-1:] or current.subjects
    if opening and opening[0].kind == "to":
        return _agents(current) or current.subjects
    if opening or not current.objects or (verb.form == "ing" and current.verb in ACCESSORIES):
        return current.subjects
    return current.objects[-1:]


def relations_of(clause: SceneClause) -> Iterator[Tuple]:
    """Yield the tuples of a clause; a passive with "by" becomes active, a bare verb an attribute."""
    subjects, objects, phrases = clause.subjects[:MOST], clause.objects[:MOST], clause.phrases[:MOST]
    agents = _agents(clause)
    if agents:
        subjects, objects = agents, subjects
        phrases = [phrase for phrase in phrases if phrase[0] != "by"]
    elif clause.verb != "be" and not (objects or phrases or clause.qualities):
        yield from ((subject, clause.verb) for subject in subjects)
    yield from ((subject, quality) for subject in subjects for quality in clause.qualities)
    if clause.verb == "be":
        yield from ((subject, thing) for subject in subjects for thing in objects)
        yield from ((subject, preposition, thing) for subject in subjects or objects for preposition, thing in phrases)
    else:
        yield from ((subject, clause.verb, thing) for subject in subjects for thing in objects)
        yield from ((subject, f"{clause.verb} {word}", thing) for subject in subjects for word, thing in phrases)
