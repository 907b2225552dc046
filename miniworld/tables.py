"""The facts of the mini world's tables: 22 kinds of page, each with a subject and records.

Facts know nothing of sentences; `tables.toml` has the words. Towns and films are the world's own; what is counted,
played or sold is drawn anew for each page.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from miniworld.chance import Dice
from miniworld.table_names import (
    Record,
    clock,
    draw_different_people,
    draw_number,
    draw_people,
    draw_person,
    draw_runs,
    draw_several,
    draw_some_people,
    draw_titles,
    draw_town,
    draw_year,
    draw_years,
    fill,
    pool,
    records_of,
)
from miniworld.world import World, load_world

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ILL_SPELT = re.compile("A [AEIOU]")  # a title of the world that lacks an "n"
HIGHS = (3, 5, 9, 14, 19, 23, 26, 25, 20, 14, 8, 4)


@dataclass(frozen=True, slots=True)
class TablePage:
    """The facts of a page.

    Attributes:
        kind: Its kind in `tables.toml`.
        title: The page's title.
        context: What the title says, by the names that sentences use: "who", "town", "edition" and so on.
        records: The rows, each a value for every column; at least as many as were asked for unless the world has fewer.
    """

    kind: str
    title: str
    context: Mapping[str, str]
    records: tuple[Record, ...]


Drawn = tuple[str, Record, list[Record]]  # title, context, records
Maker = Callable[[Dice, World, int], Drawn]


def draw_page(dice: Dice, kind: str, count: int, revision: str) -> TablePage:
    """Draw a page of a kind with about `count` records."""
    title, context, records = KINDS[kind](dice, load_world(revision), count)
    return TablePage(kind, title, context, tuple(records))


# --- the kinds of page -----------------------------------------------------------------------------------------------


def _actor(dice: Dice, world: World, count: int) -> Drawn:
    who = dice.pick(world.people)
    years, titles = draw_years(dice, count, 1950, 2019), draw_titles(dice, world, "film", count)
    roles, directors = draw_titles(dice, world, "role", count), draw_some_people(dice, world, count)
    job = {"he": "actor", "she": "actress"}[who.pronoun]
    title = f"{who.name} ({job})" if dice.chance(0.4) else who.name
    return title, {"who": who.name}, records_of("year film role director", years, titles, roles, directors)


def _awards(dice: Dice, world: World, count: int) -> Drawn:
    year, name = draw_year(dice), f"{dice.pick(pool('award_name'))} Awards"
    awards, winners = draw_several(lambda: dice.pick(pool("award")), count), draw_people(dice, world, count)
    titles, presenters = draw_titles(dice, world, "film", count), draw_some_people(dice, world, count)
    records = records_of("award winner film presenter", awards, winners, titles, presenters)
    return f"{year} {name}", {"edition": year, "awards": name}, records


def _films(dice: Dice, world: World, count: int) -> Drawn:
    decade = dice.pick([str(year) for year in range(1950, 2020, 10)])
    films = [film for film in world.films if str(film.year)[:3] == decade[:3] and not ILL_SPELT.match(film.title)]
    films = sorted(dice.sample(films, min(count, len(films))), key=lambda film: (film.year, film.title))
    records = [
        {"year": str(film.year), "film": film.title, "director": film.director.name, "lead": film.lead.name,
         "genre": film.genre} for film in films
    ]  # fmt: skip
    return f"Films of the {decade}s", {"decade": f"the {decade}s"}, records


def _towns(dice: Dice, world: World, count: int) -> Drawn:
    region = dice.pick(pool("region"))
    towns = dice.sample(world.towns, count)
    mayors = draw_people(dice, world, count)
    records = [
        {"town": town.name, "people": f"{town.people + 7 * draw_number(dice, 0, 13):,}", "founded": str(town.founded),
         "where": town.near, "mayor": mayor, "known": town.famous_for.removeprefix("its ")}
        for town, mayor in zip(towns, mayors, strict=True)
    ]  # fmt: skip
    return f"Towns of {region}", {"region": region}, records


def _census(dice: Dice, world: World, count: int) -> Drawn:
    town, year, step = draw_town(dice, world), draw_number(dice, 1750, 1850), dice.pick((10, 10, 20))
    people, schools, records = draw_number(dice, 200, 3000), 2, []
    for index in range(count):
        people += people * draw_number(dice, 4, 60) // 100
        schools += draw_number(dice, 0, 2)
        houses = str(people // 5 + 3 * index)
        year_text = str(year + index * step)
        records.append({"year": year_text, "people": f"{people:,}", "houses": houses, "schools": str(schools)})
    return town, {"town": town}, records


def _terms(dice: Dice, count: int) -> tuple[list[str], list[str]]:
    """Return the first and last years of people who follow one another in office."""
    years = [draw_number(dice, 1820, 1940)]
    while len(years) <= count:
        years.append(years[-1] + draw_number(dice, 2, 14))
    return [str(year) for year in years[:-1]], [str(year) for year in years[1:]]


def _heads(dice: Dice, world: World, count: int) -> Drawn:
    school = f"{dice.pick(pool('school'))} School"
    subjects = draw_runs(dice, lambda: dice.pick(pool("subject")), count)
    records = records_of("from until head subject", *_terms(dice, count), draw_people(dice, world, count), subjects)
    return school, {"school": school}, records


def _mayors(dice: Dice, world: World, count: int) -> Drawn:
    town = draw_town(dice, world)
    people = [who for who in draw_different_people(dice, world, count + 1) if who.job.lemma != "mayor"][:count]
    names, jobs = [who.name for who in people], [who.job.lemma for who in people]
    records = records_of("mayor from until job", names, *_terms(dice, len(names)), jobs)
    return f"Mayors of {town}" if dice.chance(0.5) else town, {"town": town}, records


def _club(dice: Dice, world: World) -> str:
    return f"{draw_town(dice, world)} {dice.pick(pool('club'))}"


def _league(dice: Dice, world: World, count: int) -> Drawn:
    """Draw a season in which each of the teams met every other one twice."""
    year, league = draw_year(dice), dice.pick(pool("league"))
    results = [[0, 0, 0] for _ in range(count)]  # won, drawn, lost
    for one in range(count):
        for other in range(count):
            if one != other:
                outcome = dice.weighted(((5, 0), (2, 1), (3, 2)))
                results[one][outcome] += 1
                results[other][2 - outcome] += 1
    teams = zip(draw_several(lambda: _club(dice, world), count), results, strict=True)
    ranked = sorted(teams, key=lambda team: (-3 * team[1][0] - team[1][1], -team[1][0], team[0]))
    records = [
        {"place": str(place), "team": team, "won": str(won), "drawn": str(drawn), "lost": str(lost),
         "points": str(3 * won + drawn)} for place, (team, (won, drawn, lost)) in enumerate(ranked, start=1)
    ]  # fmt: skip
    return f"{year} {league}", {"edition": year, "league": league}, records


def _race(dice: Dice, world: World, count: int) -> Drawn:
    year, race = draw_year(dice), f"{draw_town(dice, world)} {dice.pick(pool('race'))}"
    seconds, runners = draw_number(dice, 1500, 3000), draw_different_people(dice, world, count)
    towns, times = draw_runs(dice, lambda: draw_town(dice, world), count), []
    for _ in range(count):
        seconds += draw_number(dice, 2, 90)
        times.append(f"{seconds // 60}:{seconds % 60:02d}")
    places = [str(place) for place in range(1, count + 1)]
    names, jobs = [who.name for who in runners], [who.job.lemma for who in runners]
    records = records_of("place runner job time town", places, names, jobs, times, towns)
    return f"{year} {race}", {"edition": year, "race": race}, records


def _election(dice: Dice, world: World, count: int) -> Drawn:
    year, town, count = draw_year(dice), draw_town(dice, world), min(count, 7)
    votes = sorted(map(int, draw_several(lambda: str(draw_number(dice, 40, 4000)), count)), reverse=True)
    shares = [(2000 * vote + sum(votes)) // (2 * sum(votes)) for vote in votes]  # thousandths, rounded
    percents = [f"{share // 10}.{share % 10}%" for share in shares]
    parties = draw_several(lambda: dice.pick(pool("party")), count)
    counts = [f"{vote:,}" for vote in votes]
    records = records_of("name party votes share", draw_people(dice, world, count), parties, counts, percents)
    return f"{year} {town} election", {"edition": year, "town": town}, records


def _museum(dice: Dice, world: World, count: int) -> Drawn:
    museum = f"{draw_town(dice, world)} {dice.pick(('Museum', 'Town Museum', 'Castle Museum', 'Art Museum'))}"
    objects = draw_several(lambda: _object(dice, world), count)
    makers, givers = draw_people(dice, world, count), draw_people(dice, world, count)
    years = draw_several(lambda: str(draw_number(dice, 1500, 1949)), count)
    rooms = draw_runs(dice, lambda: dice.pick(pool("room")), count)
    records = records_of("object made maker giver room", objects, years, makers, givers, rooms)
    return museum, {"museum": museum}, records


def _object(dice: Dice, world: World) -> str:
    if dice.chance(0.4):
        return fill(dice, world, dice.pick(pool("artwork")))
    return f"{dice.pick(pool('material'))} {dice.pick(pool('object'))}"


def _trains(dice: Dice, world: World, count: int) -> Drawn:
    start, goal = draw_several(lambda: draw_town(dice, world), 2)
    lasts, minutes, records = draw_number(dice, 25, 150), draw_number(dice, 300, 480), []
    for train in draw_several(lambda: dice.pick(pool("train")), count):
        arrives = minutes + lasts + draw_number(dice, 0, 12)
        fare = f"${draw_number(dice, 3, 29)}.{dice.pick(('00', '20', '40', '50', '80'))}"
        times = {"departs": clock(minutes), "arrives": clock(arrives)}
        records.append({"train": train, **times, "platform": str(draw_number(dice, 1, 9)), "fare": fare})
        minutes += draw_number(dice, 20, 75)
    return f"{start} to {goal} Railway", {"start": start, "goal": goal}, records


def _discs(dice: Dice, world: World, count: int) -> Drawn:
    ensemble = f"{draw_town(dice, world)} {dice.pick(pool('ensemble'))}"
    years, albums = draw_years(dice, count, 1960, 2019), draw_titles(dice, world, "album", count)
    conductors, labels = draw_some_people(dice, world, count), draw_runs(dice, lambda: dice.pick(pool("label")), count)
    records = records_of("year album conductor label", years, albums, conductors, labels)
    return ensemble, {"ensemble": ensemble}, records


def _weather(dice: Dice, world: World, count: int) -> Drawn:
    town, first, warmer, records = draw_town(dice, world), draw_number(dice, 0, 11), draw_number(dice, -2, 9), []
    for index in range(first, first + count):
        high = HIGHS[index % 12] + warmer + draw_number(dice, -2, 2)
        low = high - draw_number(dice, 5, 12)
        rain, sunny = str(draw_number(dice, 9, 149)), str(draw_number(dice, 3, 26))
        record = {"month": MONTHS[index % 12], "high": str(high), "low": str(low), "rain": rain, "sunny": sunny}
        records.append(record)
    return town, {"town": town}, records


def _market(dice: Dice, world: World, count: int) -> Drawn:
    market = f"{draw_town(dice, world)} {dice.pick(('Market', 'Farmers Market', 'Harbor Market', 'Christmas Market'))}"
    goods = [good.split(":") for good in draw_several(lambda: dice.pick(pool("good")), count)]
    prices = [f"${draw_number(dice, 1, 12)}.{dice.pick(('00', '20', '25', '50', '75', '90'))}" for _ in goods]
    sellers, days = draw_people(dice, world, count), draw_runs(dice, lambda: dice.pick(DAYS), count)
    names, units = [name for name, _ in goods], [unit for _, unit in goods]
    return market, {"market": market}, records_of("good price unit seller day", names, prices, units, sellers, days)


def _festival(dice: Dice, world: World, count: int) -> Drawn:
    year, festival = draw_year(dice), f"{draw_town(dice, world)} {dice.pick(pool('festival'))}"
    acts = draw_several(
        lambda: draw_person(dice, world) if dice.chance(0.4) else fill(dice, world, dice.pick(pool("act"))), count
    )
    shows, minutes, times = draw_several(lambda: dice.pick(pool("show")), count), 540, []
    for _ in acts:
        minutes += 15 * draw_number(dice, 1, 5)
        times.append(clock(minutes))
    tickets = [str(draw_number(dice, 20, 990)) for _ in acts]
    stages = draw_runs(dice, lambda: dice.pick(pool("stage")), count)
    records = records_of("time act show tickets stage", times, acts, shows, tickets, stages)
    return f"{year} {festival}", {"edition": year, "festival": festival}, records


def _matches(dice: Dice, world: World, count: int) -> Drawn:
    year, club, day, records = draw_year(dice), _club(dice, world), draw_number(dice, 1, 20), []
    others = [name for name in draw_several(lambda: _club(dice, world), count + 1) if name != club][:count]
    for other in others:
        day += draw_number(dice, 4, 24)
        date = f"{day % 28 + 1} {MONTHS[2 + day // 28 % 10]} {year}"
        score = f"{draw_number(dice, 0, 5)}-{draw_number(dice, 0, 4)}"
        ground = dice.pick(("home", "away"))
        record = {"date": date, "opponent": other, "ground": ground, "score": score, "scorer": draw_person(dice, world)}
        records.append(record)
    return f"{year} {club} season", {"edition": year, "club": club}, records


def _schools(dice: Dice, world: World, count: int) -> Drawn:
    region, names = dice.pick(pool("region")), draw_several(lambda: f"{dice.pick(pool('school'))} School", count)
    years, heads = draw_years(dice, count, 1700, 1999), draw_people(dice, world, count)
    pupils = draw_several(lambda: str(draw_number(dice, 24, 980)), count)
    towns = draw_runs(dice, lambda: draw_town(dice, world), count)
    records = records_of("school founded pupils head town", names, years, pupils, heads, towns)
    return f"Schools of {region}", {"region": region}, records


def _lights(dice: Dice, world: World, count: int) -> Drawn:
    region, names = dice.pick(pool("coast")), draw_several(lambda: dice.pick(pool("lighthouse")), count)
    years, heights = draw_years(dice, count, 1700, 1949), draw_several(lambda: str(draw_number(dice, 13, 79)), count)
    architects, towns = draw_people(dice, world, count), draw_runs(dice, lambda: draw_town(dice, world), count)
    records = records_of("light built height architect near", names, years, heights, architects, towns)
    return f"Lighthouses of {region}", {"region": region}, records


def _directors(dice: Dice, world: World, count: int) -> Drawn:
    who, titles = dice.pick(world.people), draw_titles(dice, world, "film", count)
    years, leads = draw_years(dice, count, 1950, 2019), draw_people(dice, world, count)
    genres = draw_runs(dice, lambda: dice.pick(world.films).genre, count)
    return who.name, {"who": who.name}, records_of("film year lead genre", titles, years, leads, genres)


def _buildings(dice: Dice, world: World, count: int) -> Drawn:
    town, names = draw_town(dice, world), draw_several(lambda: dice.pick(pool("building")), count)
    architects, years = draw_people(dice, world, count), draw_several(lambda: str(draw_number(dice, 1500, 1989)), count)
    heights = draw_several(lambda: str(draw_number(dice, 13, 79)), count)
    return town, {"town": town}, records_of("building architect height built", names, architects, heights, years)


def _books(dice: Dice, world: World, count: int) -> Drawn:
    who, titles = dice.pick(world.people), draw_titles(dice, world, "book", count)
    years, genres = draw_years(dice, count, 1950, 2019), draw_several(lambda: dice.pick(pool("book_kind")), count)
    publishers = draw_runs(dice, lambda: dice.pick(pool("label")), count)
    title = f"{who.name} (writer)" if dice.chance(0.4) else who.name
    return title, {"who": who.name}, records_of("year book genre publisher", years, titles, genres, publishers)


KINDS: Mapping[str, Maker] = {
    "actor": _actor, "awards": _awards, "films": _films, "towns": _towns, "census": _census, "heads": _heads,
    "league": _league, "race": _race, "election": _election, "museum": _museum, "trains": _trains, "discs": _discs,
    "weather": _weather, "market": _market, "festival": _festival, "matches": _matches, "schools": _schools,
    "lights": _lights, "mayors": _mayors, "directors": _directors, "buildings": _buildings, "books": _books,
}  # fmt: skip
