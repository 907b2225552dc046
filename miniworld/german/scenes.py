"""Who does what when: people with names, moods of the verb and adverbs of time for any event."""

from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.german.clauses import GermanScene, Mood, draw_scene
from miniworld.german.deeds import load_deeds
from miniworld.german.lexicon import feminine, load_german, noun_form
from miniworld.german.phrases import Actor
from miniworld.lexicon import ANIMALS, HERE, load_lexicon, with_article
from miniworld.world import Person, World

Pair = tuple[str, str]
HUMAN: tuple[tuple[float, Mood], ...] = (
    (14, "present"), (26, "past"), (14, "progressive"), (5, "then"), (10, "perfect"), (6, "future"), (4, "can"),
    (3, "could"), (3, "must"), (4, "had to"), (3, "should"), (4, "want"), (4, "wanted"), (3, "like"), (2, "try"),
    (4, "tried"), (4, "decided"), (3, "began"), (2, "forgot"), (2, "refused"), (2, "promised"), (2, "hope"),
    (3, "going"), (3, "allowed"), (2, "would"), (3, "used"), (2, "about"), (2, "prefer"), (2, "glad"), (2, "dared"),
    (2, "planned"), (1, "afraid"), (2, "seems"), (3, "stopped"), (3, "managed"),
)  # fmt: skip
ANIMAL: tuple[tuple[float, Mood], ...] = (
    (20, "present"), (36, "past"), (20, "progressive"), (7, "then"), (8, "perfect"), (4, "future"), (5, "can"),
    (3, "tried"), (3, "began"),
)  # fmt: skip
SEASONS: dict[str, str] = {
    "present": "present", "like": "present", "past": "past", "then": "past", "could": "past", "had to": "past",
    "wanted": "past", "tried": "past", "decided": "past", "began": "past", "refused": "past", "perfect": "perfect",
    "future": "future", "can": "future", "must": "future", "should": "future", "want": "future",
    "progressive": "progressive", "going": "future", "allowed": "past",
}  # fmt: skip


@cache
def event_data() -> dict[str, Any]:
    """Return `events.toml`."""
    return read_toml(HERE / "german" / "events.toml")


def pair_of(text: str) -> Pair:
    """Return the two sides of "English | German"."""
    english, _, german = text.partition(" | ")
    return english, german


@cache
def trade(job: str, woman: bool) -> tuple[str, str]:
    """Return the German word for a trade in the nominative and the dative; nothing where German would not say it."""
    noun = load_german().nouns.get(job)
    if noun is None or noun.gender == "s":
        return "", ""
    return (feminine(job),) * 2 if woman else (noun.singular, noun_form(noun, "D", False))


def titled(person: Person) -> Pair:
    """Return "the baker Laura Vance" and "die Bäckerin Laura Vance", or the name alone."""
    word, _ = trade(person.job.lemma, person.pronoun == "she")
    if not word:
        return person.name, person.name
    return (
        f"the {person.job.lemma} {person.name}",
        f"{'die' if person.pronoun == 'she' else 'der'} {word} {person.name}",
    )


def named(dice: Dice, person: Person, apposition: bool = True) -> Actor:
    """Return a person as a subject: the name, "the baker Laura Vance", or with an apposition between commas."""
    woman = person.pronoun == "she"
    word, dative = trade(person.job.lemma, woman)
    english, german, by = person.name, person.name, person.name
    if word and dice.chance(0.6):
        if apposition and dice.chance(0.5):
            english = f"{person.name}, {with_article(person.job.lemma)} from {person.town},"
            german = f"{person.name}, {'eine' if woman else 'ein'} {word} aus {person.town},"
            by = f"{person.name}, {'einer' if woman else 'einem'} {dative} aus {person.town},"
        else:
            english = f"the {person.job.lemma} {person.name}"
            german, by = (
                f"{'die' if woman else 'der'} {word} {person.name}",
                f"{'der' if woman else 'dem'} {dative} {person.name}",
            )
    return Actor(english, german, person.pronoun, False, int(woman), by)


def act(dice: Dice, world: World, apposition: bool = False, rich: float = 1.0) -> GermanScene:
    """Draw an event of any kind; in one of six, a person of the world acts."""
    deed = dice.pick(load_deeds())
    human = [role for role in deed.who if role.noun.person and not role.several]
    if human and dice.chance(0.17):
        person = dice.pick(world.people)
        fits = [
            r
            for r in human
            if r.noun.pronoun in ("any", person.pronoun)
            and r.noun.kind in ("kid", "adult", "worker", "officer", "artist")
        ]
        if fits:
            return draw_scene(dice, deed, named(dice, person, apposition), rich)
    return draw_scene(dice, deed, None, rich)


def is_animal(scene: GermanScene) -> bool:
    """Return whether an animal acts."""
    who = scene.who.phrase
    return who is not None and load_lexicon().nouns[who.key.partition("@")[0]].kind in ANIMALS


def mood_of(dice: Dice, scene: GermanScene) -> Mood:
    """Draw a mood that the subject can be in."""
    return dice.weighted(ANIMAL if is_animal(scene) else HUMAN)


def time(dice: Dice, mood: Mood, chance: float = 0.35) -> Pair:
    """Return an adverb of time that goes with a mood, or nothing."""
    season = SEASONS.get(mood, "")
    if not season or not dice.chance(chance):
        return "", ""
    return pair_of(dice.favour(event_data()["when"][season]))


def trait(dice: Dice, world: World, kind: str) -> tuple[str, str, str, str]:
    """Return what else can be said of someone: the English predicate, and the German verb, middle and prefix."""
    names = {"town": dice.pick(world.towns).name, "person": dice.pick(world.people).name}
    english, verb_, *rest = dice.pick(event_data()["traits"][kind]).format(**names).split(" | ")
    return english, verb_, rest[0] if rest else "", rest[1].rstrip("+") if len(rest) > 1 else ""
