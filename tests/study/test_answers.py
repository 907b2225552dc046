"""Answers are read strictly: what does not belong is refused with its file, what is half done is kept."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.studies import PAIRS, a_study, filled, opinions, written

from grue.errors import DataError
from grue.study.answers import Answer, AnswerFile, preference_lines, preferences_of, ratings_of, read_answers

KEY, DUELS = a_study(), a_study(PAIRS, ("alpha", "beta"), 4, 2)
# Annotator + item + system, on the scale.
ANSWERS = filled(KEY, lambda number, screen, question: (number + screen.item + screen.systems[0]) % 5 + 1)
WHOLE, FIRST = ANSWERS[0], ANSWERS[0].answers[0]


def test_answers_are_put_where_they_belong(tmp_path):
    found = read_answers(written(tmp_path, ANSWERS), KEY)
    expected = [[[(n + i + s) % 5 + 1 for n in range(3)] for s in range(3)] for i in range(6)]
    np.testing.assert_array_equal(ratings_of(KEY, found, "joy"), expected)


def test_an_annotator_who_sends_twice_loses_nothing(tmp_path):
    parts = [replace(WHOLE, answers=part) for part in (WHOLE.answers[:10], WHOLE.answers[5:])]
    for given, what in ((parts, "more"), ([WHOLE, WHOLE], "the same")):
        together = read_answers(written(tmp_path, given), KEY)
        assert together.answers == {"annotator-1": {one.screen: one.values for one in WHOLE.answers}}
        assert together.notes == (f"{tmp_path / '1.json'}: {what} answers by annotator-1, put together with 0.json.",)
    halves = [replace(WHOLE, answers=(Answer(FIRST.screen, {name: FIRST.values[name]}),)) for name in FIRST.values]
    assert read_answers(written(tmp_path, halves), KEY).answers["annotator-1"][FIRST.screen] == FIRST.values


def changed(**values):
    return replace(WHOLE, answers=(Answer(FIRST.screen, {**FIRST.values, **values}),))


OTHER_JOY = changed(joy=int(FIRST.values["joy"]) % 5 + 1)
MISPLACED = {
    "nobody who was asked": [replace(WHOLE, annotator="mallory")],
    "another's screen": [replace(WHOLE, answers=(ANSWERS[1].answers[0],))],
    "a screen twice": [replace(WHOLE, answers=(FIRST, FIRST))],
    **{f"joy {value!r}": [changed(joy=value)] for value in (6, 0, "5")},
    "no question": [changed(tone=3)],
    "another schema": [replace(WHOLE, schema=2)],
    "another study": [replace(WHOLE, study="\x1b[31m")],
    "a contradiction": [changed(), OTHER_JOY],
    "no answers": [replace(WHOLE, answers=())],
    "no file": [],
    **{f"choice {value!r}": value for value in ("c", 1, "")},
}


@pytest.mark.parametrize("name", MISPLACED)
def test_what_does_not_belong_is_refused(tmp_path, refused, name):
    given, key = MISPLACED[name], KEY
    if not isinstance(given, list):
        wrong = Answer(DUELS.annotators[0].screens[0].id, {"better": given})
        given, key = [AnswerFile(1, DUELS.study, "annotator-1", (wrong,))], DUELS
    with refused(DataError):
        read_answers(written(tmp_path, given), key)


def test_files_that_are_no_answers_are_refused(tmp_path, refused):
    path = written(tmp_path, [WHOLE])[0]
    good = json.loads(path.read_text())
    (tmp_path / "key.json").write_text('{"study": "x"}')
    joys = [f'"joy": {joy}, "x": ' for joy in ("true", "2.5", "null", "NaN")]
    for text in (
        *("[]", '{"study": "x"}', json.dumps({**good, "name": "x"})),
        *(json.dumps(good).replace('"joy": ', joy, 1) for joy in (*joys, '"joy": 1, "joy": ')),
    ):
        path.write_text(text)
        with refused(DataError):
            read_answers([path], KEY)
    for other in ("key.json", "nowhere.json"):
        with refused(DataError):
            read_answers([tmp_path / other], KEY)


def test_choices_are_turned_to_the_systems(tmp_path):
    """Beta is chosen, but for the last item."""
    found = opinions(DUELS, lambda n, s, q: "tie" if s.item == 3 else "ab"[s.systems.index(1)], tmp_path)
    found = preferences_of(DUELS, found)
    np.testing.assert_array_equal(found[:, 0, 1], [[-1, -1]] * 3 + [[0, 0]])
    np.testing.assert_array_equal(found[:, 1, 0], -found[:, 0, 1])
    assert np.isnan(found[:, 0, 0]).all()


def test_choices_are_written_with_their_texts_and_those_of_programs_say_so(tmp_path, refused):
    first, second = filled(DUELS, lambda number, screen, question: "a")
    mixed = read_answers(written(tmp_path, [replace(first, synthetic=True), second]), DUELS)
    assert mixed.synthetic == ("annotator-1",)
    lines = list(preference_lines(DUELS, mixed))
    assert len(lines) == 8
    for line in lines:
        one, other = line["systems"]
        item = int(line["item"].split("-")[1]) - 1
        assert {one, other} == {"alpha", "beta"} and line["choice"] == "a"
        assert (line["a"], line["b"]) == (f"{one} writes {item} by 1", f"{other} writes {item} by 1")
        assert (line["prompt"], line["id"]) == (f"Prompt {item}", f"id-{item}")
        synthetic = {"synthetic"} if line["annotator"] == "annotator-1" else set()
        assert set(line) == {"item", "annotator", "prompt", "id", "a", "b", "systems", "choice"} | synthetic
    assert {line["systems"][0] for line in lines} == {"alpha", "beta"}, "as they were shown"
    with refused(DataError):
        list(preference_lines(KEY, read_answers(written(tmp_path, ANSWERS), KEY)))
