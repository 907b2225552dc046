"""Who sees what: items, orders and sides are balanced, names tell nothing, and the same arguments give the same study."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

from support.studies import PAIRS, RUNS, SCALES, a_study, outputs

from grue import files
from grue.errors import DataError
from grue.study.design import draw_items, orders, shown_together
from grue.study.key import KEY, read_key


def test_each_stands_equally_often_at_each_place_and_behind_each_other_one():
    for count in range(1, 8):
        square = orders(count)
        assert all(sorted(row) == list(range(count)) for row in square)
        for place in range(count):
            assert len(set(Counter(row[place] for row in square).values())) == 1
        behind = Counter(pair for row in square for pair in zip(row, row[1:], strict=False))
        assert len(behind) == count * (count - 1) and len(set(behind.values())) <= 1


def blocks(annotator):
    """Item → the systems shown, in order."""
    found = {}
    for screen in annotator.screens:
        found.setdefault(screen.item, []).append(screen.systems)
    return found


def test_systems_are_balanced_over_an_annotators_items_and_over_an_items_annotators():
    key = a_study(systems=("a", "b", "c", "d"), items=8, annotators=4)
    for annotator in key.annotators:
        seen = blocks(annotator)
        assert {item: sorted(shown) for item, shown in seen.items()} == {i: [(0,), (1,), (2,), (3,)] for i in range(8)}
        for place in range(4):
            assert Counter(shown[place] for shown in seen.values()) == {(s,): 2 for s in range(4)}
        items = [screen.item for screen in annotator.screens]
        assert items == [item for item in dict.fromkeys(items) for _ in range(4)], "texts to an item stand together"
    for item in range(8):
        assert {blocks(annotator)[item][0] for annotator in key.annotators} == {(0,), (1,), (2,), (3,)}
    assert len({tuple(blocks(one)) for one in key.annotators}) > 1, "orders of items"


def test_sides_of_pairs_are_balanced_nearly_so_before_a_square_is_through():
    for count in (2, 3, 4):
        square = len(orders(count * (count - 1) // 2))
        turns = [shown_together(True, count, turn) for turn in range(2 * square)]
        assert set(Counter(pair for shown in turns for pair in shown).values()) == {square}, count
        by_place = Counter((place, pair) for shown in turns for place, pair in enumerate(shown))
        assert len(set(by_place.values())) == 1, "nor does the side depend on the place"
    for systems, items in ((3, 50), (4, 10), (5, 10), (6, 10)):
        for turns in (range(items), range(7, 7 + items)):
            shown = Counter(pair for turn in turns for pair in shown_together(True, systems, turn))
            for one, other in combinations(range(systems), 2):
                assert shown[one, other] + shown[other, one] == items
                assert abs(shown[one, other] - items / 2) <= 2, (one, other)


def test_items_depend_on_the_seed_alone_and_fewer_are_the_first_of_more(refused):
    assert draw_items(100, 10, 3) == draw_items(100, 50, 3)[:10]
    assert draw_items(100, 10, 3) != draw_items(100, 10, 4)
    assert len(set(draw_items(20, 20, 0))) == 20
    with refused(DataError):
        draw_items(20, 21, 0)


def test_equal_arguments_give_equal_studies_whose_names_tell_nothing_and_others_do_not():
    key = a_study()
    assert key == a_study()
    names = [screen.id for annotator in key.annotators for screen in annotator.screens]
    assert len(set(names)) == 3 * 6 * 3
    assert not {name for name in names if any(word in name for word in ("alpha", "id", "1-"))}
    ids = {a_study(seed=seed).study for seed in range(3)} | {a_study(items=5).study, a_study(annotators=2).study}
    assert len(ids) == 5
    other = [replace(outputs(name, 6), runs=[replace(outputs(name, 6).runs[0], sha256="0" * 64)]) for name in RUNS]
    shown = [[(s.item, s.systems) for s in one.annotators[0].screens] for one in (key, a_study(systems=other))]
    assert shown[0] != shown[1], "who knows the seed cannot tell the order without the predictions"


def test_several_seeds_take_turns_and_a_metric_that_one_system_lacks_is_left_out():
    key = a_study(systems=(outputs("many", 6, seeds=3), "one"), items=6)
    assert Counter(item.seeds[0] for item in key.items) == {"1": 2, "2": 2, "3": 2}
    assert all(item.texts[0] == f"many writes {i} by {item.seeds[0]}" for i, item in enumerate(key.items))
    bare = replace(outputs("bare", 6), runs=[replace(outputs("bare", 6).runs[0], directions={"length": "higher"})])
    assert set(a_study(systems=(bare, "alpha")).metrics) == {"length"}


def test_equal_texts_are_not_compared_but_they_are_rated(refused):
    def both(same):
        return [outputs(n, 4, texts=lambda seed, item, n=n: "all" if item in same else f"{n}{item}") for n in "ab"]

    for template, items in ((PAIRS, {1, 2, 3}), (SCALES, {0, 1, 2, 3})):
        assert {s.item for one in a_study(template, both({0}), 4).annotators for s in one.screens} == items
    with refused(DataError):
        a_study(PAIRS, both({0, 1, 2, 3}), 4)


def test_a_key_is_read_as_it_was_written_and_refused_if_it_is_missing_or_changed(tmp_path, refused):
    with refused(DataError):
        read_key(tmp_path)
    key = a_study()
    text = files.indented_json(key)
    (tmp_path / KEY).write_text(text)
    assert read_key(tmp_path) == key
    for old, new in (("alpha", "omega"), ('"seed": 0', '"seed": 1'), ("Prompt 3", "Prompt 4")):
        (tmp_path / KEY).write_text(text.replace(old, new))
        with refused(DataError):
            read_key(tmp_path)
