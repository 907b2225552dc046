"""Who sees what: items, orders and sides are balanced, names tell nothing, and the same arguments give the same study."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
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


def blocks(key, annotator):
    """Item → the systems shown, in order."""
    found = {}
    for screen in annotator.screens:
        found.setdefault(screen.item, []).append(screen.systems)
    return found


def test_systems_are_balanced_over_an_annotators_items_and_over_an_items_annotators():
    key = a_study(systems=("a", "b", "c", "d"), items=8, annotators=4)
    for annotator in key.annotators:
        seen = blocks(key, annotator)
        assert {item: sorted(shown) for item, shown in seen.items()} == {i: [(0,), (1,), (2,), (3,)] for i in range(8)}
        for place in range(4):
            assert Counter(shown[place] for shown in seen.values()) == {(s,): 2 for s in range(4)}
    for item in range(8):
        assert {blocks(key, annotator)[item][0] for annotator in key.annotators} == {(0,), (1,), (2,), (3,)}
    assert len({tuple(dict.fromkeys(s.item for s in one.screens)) for one in key.annotators}) > 1, "orders of items"


def test_texts_to_an_item_stand_together():
    for annotator in a_study(items=9).annotators:
        items = [screen.item for screen in annotator.screens]
        assert items == [item for item in dict.fromkeys(items) for _ in RUNS]


def test_sides_of_pairs_are_balanced():
    for count in (2, 3, 4):
        square = len(orders(count * (count - 1) // 2))
        shown = [pair for turn in range(2 * square) for pair in shown_together(True, count, turn)]
        assert set(Counter(shown).values()) == {square}, count
        by_place = Counter(
            (p, pair) for t in range(2 * square) for p, pair in enumerate(shown_together(True, count, t))
        )
        assert len(set(by_place.values())) == 1, "nor does the side depend on the place"


@pytest.mark.parametrize(("systems", "items"), [(3, 50), (4, 10), (5, 10), (6, 10)])
def test_sides_of_pairs_are_nearly_balanced_before_a_square_is_through(systems, items):
    for turns in (range(items), range(7, 7 + items)):
        shown = Counter(pair for turn in turns for pair in shown_together(True, systems, turn))
        for one, other in combinations(range(systems), 2):
            assert shown[one, other] + shown[other, one] == items
            assert abs(shown[one, other] - items / 2) <= 2, (one, other)


def test_items_depend_on_the_seed_alone_and_fewer_are_the_first_of_more():
    assert draw_items(100, 10, 3) == draw_items(100, 50, 3)[:10]
    assert draw_items(100, 10, 3) != draw_items(100, 10, 4)
    assert len(set(draw_items(20, 20, 0))) == 20
    with pytest.raises(DataError, match="There are 20 examples to ask about, not 21; lower --items"):
        draw_items(20, 21, 0)


def test_names_are_random_and_none_is_used_twice():
    key = a_study()
    names = [screen.id for annotator in key.annotators for screen in annotator.screens]
    assert len(set(names)) == 3 * 6 * 3
    assert not {name for name in names if any(word in name for word in ("alpha", "id", "1-"))}


def test_equal_arguments_give_equal_studies_and_others_do_not():
    assert a_study() == a_study()
    ids = {a_study(seed=seed).study for seed in range(3)} | {a_study(items=5).study, a_study(annotators=2).study}
    assert len(ids) == 5
    other = [replace(outputs(name, 6), runs=[replace(outputs(name, 6).runs[0], sha256="0" * 64)]) for name in RUNS]
    orders_of = [
        [(s.item, s.systems) for s in key.annotators[0].screens] for key in (a_study(), a_study(systems=other))
    ]
    assert orders_of[0] != orders_of[1], "who knows the seed cannot tell the order without the predictions"


def test_several_seeds_take_turns():
    key = a_study(systems=(outputs("many", 6, seeds=3), "one"), items=6)
    assert Counter(item.seeds[0] for item in key.items) == {"1": 2, "2": 2, "3": 2}
    assert all(item.texts[0] == f"many writes {i} by {item.seeds[0]}" for i, item in enumerate(key.items))


def test_equal_texts_are_not_compared_but_they_are_rated():
    same = [
        outputs("a", 4, texts=lambda seed, item: "all" if item == 0 else f"a{item}"),
        outputs("b", 4, texts=lambda seed, item: "all" if item == 0 else f"b{item}"),
    ]
    assert {s.item for one in a_study(PAIRS, same, 4).annotators for s in one.screens} == {1, 2, 3}
    assert {s.item for one in a_study(SCALES, same, 4).annotators for s in one.screens} == {0, 1, 2, 3}
    equal = [outputs(name, 2, texts=lambda seed, item: "all") for name in ("a", "b")]
    with pytest.raises(DataError, match="wrote the same texts to all items"):
        a_study(PAIRS, equal, 2)


def test_a_metric_that_one_system_lacks_is_left_out():
    bare = replace(outputs("bare", 6), runs=[replace(outputs("bare", 6).runs[0], directions={"length": "higher"})])
    assert set(a_study(systems=(bare, "alpha")).metrics) == {"length"}


# --- the key ---------------------------------------------------------------------------------------------------------


def test_a_key_is_read_as_it_was_written(tmp_path):
    key = a_study()
    files.write_json(tmp_path / KEY, key)
    assert read_key(tmp_path) == key


def test_a_key_that_is_missing_or_changed_is_refused(tmp_path):
    with pytest.raises(DataError, match="there is no such file: name the folder that `grue study make` wrote"):
        read_key(tmp_path)
    text = files.indented_json(a_study())
    for old, new in (("alpha", "omega"), ('"seed": 0', '"seed": 1'), ("Prompt 3", "Prompt 4")):
        (tmp_path / KEY).write_text(text.replace(old, new))
        with pytest.raises(DataError, match=r"was changed after the study was made.* Restore it"):
            read_key(tmp_path)
    (tmp_path / KEY).write_text(text[: len(text) // 2])
    with pytest.raises(DataError, match="not valid JSON"):
        read_key(tmp_path)
