"""Topics of conversations: people, days, prices, films, plans and things to borrow, drawn from the mini world.

A source draws one fact in all the forms that a text may use: {x} is the form "", {x_offer} the form "offer".
"""

from collections.abc import Callable, Mapping
from functools import cache

from miniworld.chance import Dice
from miniworld.lexicon import load_lexicon, with_article
from miniworld.phrases import join
from miniworld.world import Activity, Filler, Person, World, load_activities

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS = ("eight", "nine", "ten", "eleven", "twelve", "one", "two", "three", "four", "five", "six", "seven", "eight")
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip


def number_word(number: int) -> str:
    """Return a number from 0 to 999 in words."""
    if number < 20:
        return ONES[number]
    if number >= 100:
        rest = f" and {number_word(number % 100)}" if number % 100 else ""
        return f"{ONES[number // 100]} hundred{rest}"
    return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")


def _person(dice: Dice, world: World, _: str) -> dict[str, str]:
    return about(dice.pick(world.people))


def about(person: Person) -> dict[str, str]:
    """Return what can be said of somebody: names, pronouns, trade and town."""
    he = person.pronoun == "he"
    return {
        "": person.first, "name": person.name, "mr": f"{'Mr.' if he else 'Mrs.'} {person.family}", "he": person.pronoun,
        "his": "his" if he else "her", "him": "him" if he else "her", "twin": f"twin {'brother' if he else 'sister'}",
        "job": person.job.lemma, "town": person.town, "family": person.family,
    }  # fmt: skip


def _day(dice: Dice, world: World, _: str) -> dict[str, str]:
    first, later = dice.sample(range(len(DAYS)), 2)
    return {"": DAYS[first], "next": DAYS[later]}


def _time(dice: Dice, world: World, _: str) -> dict[str, str]:
    hour = int(dice.random() * (len(HOURS) - 1))
    pattern = dice.pick(("{}", "{}", "half past {}", "a quarter past {}"))
    return {"": pattern.format(HOURS[hour]), "later": pattern.format(HOURS[hour + 1])}


def _price(dice: Dice, world: World, limits: str) -> dict[str, str]:
    """A price asked, a lower one offered, one in the middle, and a higher one."""
    low, high = map(int, limits.split())
    asked = low + int(dice.random() * (high - low + 1))
    less = max(2, asked // 4 + int(dice.random() * asked / 8))
    money = {"": asked, "offer": asked - less, "deal": asked - less // 2, "more": asked + less}
    return {key: dollars(amount) for key, amount in money.items()}


def _number(dice: Dice, world: World, limits: str) -> dict[str, str]:
    low, high = map(int, limits.split())
    number = low + int(dice.random() * (high - low + 1))
    return {"": number_word(number), "more": number_word(number + 1 + int(dice.random() * 3))}


def _film(dice: Dice, world: World, _: str) -> dict[str, str]:
    film = dice.pick(world.films)
    while " and " in film.title or film.title[:3] in AWKWARD:
        film = dice.pick(world.films)
    return {
        "": film.title, "genre": film.genre, "year": str(film.year), "lead": film.lead.name,
        "support": film.support.name, "director": film.director.name, "hero": film.hero, "goal": film.goal,
        "setting": film.setting,
    }  # fmt: skip


def _town(dice: Dice, world: World, _: str) -> dict[str, str]:
    town = dice.pick(world.towns)
    return {"": town.name, "fame": town.famous_for}


def _plan(dice: Dice, world: World, _: str) -> dict[str, str]:
    return {"": _deed(dice, _plans())[1]}


def _tool(dice: Dice, world: World, _: str) -> dict[str, str]:
    """Something to borrow, what it is needed for, and what its owner does with it."""
    activity, deed = _deed(dice, tuple(_borrowed()))
    tool = dice.pick(_borrowed()[activity])
    others = tuple(other for other, tools in _borrowed().items() if tool in tools)
    use = deed
    while use == deed:
        use = _deed(dice, others)[1]
    return {"": tool, "deed": deed, "use": use}


def _bill(dice: Dice, world: World, limits: str) -> dict[str, str]:
    """Several things at the same price; what is paid, and what comes back."""
    low, high = map(int, limits.split())
    count, price = 2 + int(dice.random() * 4), low + int(dice.random() * (high - low + 1))
    total = count * price
    paid = 10 * (total // 10 + 1)
    return {
        "": dollars(price), "count": number_word(count), "total": dollars(total), "paid": dollars(paid),
        "change": dollars(paid - total),
    }  # fmt: skip


def _eggs(dice: Dice, world: World, _: str) -> dict[str, str]:
    """Eggs for a person and for all."""
    each, count = 2 + int(dice.random() * 2), 3 + int(dice.random() * 6)
    eggs = {"": each, "each": each, "count": count, "all": each * count}
    return {key: number_word(number) for key, number in eggs.items()}


def _double(dice: Dice, world: World, _: str) -> dict[str, str]:
    """A price for one and for two."""
    price = 6 + int(dice.random() * 25)
    return {"": dollars(price), "total": dollars(2 * price)}


def _debt(dice: Dice, world: World, _: str) -> dict[str, str]:
    """A price, what was paid of it and what is left, in tens and fives."""
    price = 20 + 10 * int(dice.random() * 7)
    paid = price // 2
    while 2 * paid == price:
        paid = 5 * (1 + int(dice.random() * (price // 5 - 1)))
    return {"": dollars(price), "paid": dollars(paid), "left": dollars(price - paid)}


def _pills(dice: Dice, world: World, _: str) -> dict[str, str]:
    """Pills a day, and for several days."""
    day, days = 2 + int(dice.random() * 3), 3 + int(dice.random() * 7)
    return {"": number_word(day), "day": number_word(day), "days": number_word(days), "all": number_word(day * days)}


def dollars(amount: int) -> str:
    """Return an amount of money in words."""
    return f"{number_word(amount)} dollar{'s' if amount != 1 else ''}"


SOURCES: Mapping[str, Callable[[Dice, World, str], dict[str, str]]] = {
    "person": _person, "day": _day, "time": _time, "price": _price, "number": _number, "film": _film, "town": _town,
    "plan": _plan, "tool": _tool, "bill": _bill, "eggs": _eggs, "double": _double, "debt": _debt, "pills": _pills,
}  # fmt: skip
DERIVED: Mapping[str, tuple[str, ...]] = {
    "bill_total": ("bill", "bill_count"),
    "bill_change": ("bill_total",),
    "stay_total": ("stay", "stay_count"),
    "eggs_all": ("eggs_each", "eggs_count"),
    "double_total": ("double",),
    "debt_left": ("debt", "debt_paid"),
    "pills_all": ("pills_day", "pills_days"),
}
"""What can be told from other things that have been said."""
AWKWARD = ("A A", "A E", "A I", "A O", "A U")  # titles nobody can say; one with "and" would sound like two films
EVERYONE = ("man", "woman", "neighbor", "friend", "father", "mother", "girl", "boy")
LENT = (
    "shovel hammer ladder rake saw axe rope bucket hose broom mop wrench brush roller net camera lantern map basket "
    "pan pot racket paddle cart truck wheelbarrow"
).split()
PLANNED = (
    "plant water pick rake gather fix bake grill iron knit paint clean sweep decorate move mow photograph ride swim "
    "ski skate row climb draw play catch roast fly build collect shovel explore feed sew wash weave write dance milk "
    "dig fry brush walk saw cut wrap bathe study dive sing change"
).split()
NOT_PLANNED = (
    "card hair beard tooth portrait ladder pole step ocean plane crowd water sheet boxer nest honor frisbee "
    "model couple fence roof ball basketball football coal song tooth child"
).split()
WHERE = ("room", "building", "town", "nature", "height", "waters")  # kinds of places that a plan may name
NEW = ("baked", "dish", "art", "toy", "sweet", "clothes", "boat", "structure", "text")  # kinds of things one makes


@cache
def _plans() -> tuple[Activity, ...]:
    """What everybody can plan to do: no trade's own work."""
    return tuple(
        activity
        for activity in load_activities()
        if activity.verb.lemma in PLANNED and any(filler.noun.lemma in EVERYONE for filler in activity.who)
    )


@cache
def _borrowed() -> dict[Activity, tuple[str, ...]]:
    needs = {a: tuple(f.noun.lemma for f in a.tools if f.noun.lemma in LENT and not f.several) for a in _plans()}
    return {activity: tools for activity, tools in needs.items() if tools}


def _deed(dice: Dice, activities: tuple[Activity, ...]) -> tuple[Activity, str]:
    """Return something to do, as it stands after "to", in the plain words in which people name their plans."""
    while True:
        activity = dice.pick(activities)
        what = dice.pick(activity.what) if activity.what else None
        place = dice.pick(activity.places) if activity.places and (not what or dice.chance(0.35)) else None
        if place and place.noun.kind not in WHERE:
            place = None
        if (what or place) and not (what and what.noun.lemma in NOT_PLANNED):
            doing = activity.verb.lemma
            return activity, join(doing, _plain(what, "", doing) if what else "", _plain(place, "the") if place else "")


def _plain(filler: Filler, determiner: str, doing: str = "") -> str:
    """Return a noun without adjectives, with its preposition if it has one; `doing` is the verb before it, if any."""
    noun, preposition = filler.noun, filler.prepositions[0] if filler.prepositions else ""
    if noun.kind == "fish" or noun.lemma in load_lexicon().bare.get(preposition or doing, ()):
        return join(preposition, noun.lemma)
    if filler.several:
        return join(preposition, determiner, noun.plural)
    if noun.kind in NEW and not preposition and noun.number == "count":
        return with_article(noun.lemma)
    return join(preposition, "" if noun.number == "mass" and not determiner else "the", noun.lemma)
