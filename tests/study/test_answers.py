"""Answers are read strictly: what does not belong is refused with its file, what is half done is kept."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.studies import PAIRS, a_study, filled, written

from grue.errors import DataError
from grue.render.questionnaire import publish
from grue.study.answers import Answer, AnswerFile, preference_lines, preferences_of, ratings_of, read_answers

KEY = a_study()


def by_place(number, screen, question):
    """Annotator + item + system, on the scale."""
    return (number + screen.item + screen.systems[0]) % 5 + 1


ANSWERS = filled(KEY, by_place)
FIRST = ANSWERS[0].answers[0]


def test_answers_are_put_where_they_belong(tmp_path):
    opinions = read_answers(written(tmp_path, ANSWERS), KEY)
    expected = [[[(n + i + s) % 5 + 1 for n in range(3)] for s in range(3)] for i in range(6)]
    np.testing.assert_array_equal(ratings_of(KEY, opinions, "joy"), expected)


def test_an_annotator_who_sends_twice_loses_nothing(tmp_path):
    whole = ANSWERS[0]
    first, second = replace(whole, answers=whole.answers[:10]), replace(whole, answers=whole.answers[5:])
    together = read_answers(written(tmp_path, [first, second]), KEY)
    assert together.given == read_answers(written(tmp_path, [whole]), KEY).given
    assert together.notes == (f"{tmp_path / '1.json'}: more answers by annotator-1, put together with 0.json.",)
    same = read_answers(written(tmp_path, [whole, whole]), KEY)
    assert same.given == together.given
    assert same.notes == (f"{tmp_path / '1.json'}: the same answers by annotator-1, put together with 0.json.",)
    halves = [replace(whole, answers=(Answer(FIRST.screen, {name: FIRST.values[name]}),)) for name in FIRST.values]
    assert read_answers(written(tmp_path, halves), KEY).given["annotator-1"][FIRST.screen] == FIRST.values


def changed(**values):
    return replace(ANSWERS[0], answers=(Answer(FIRST.screen, {**FIRST.values, **values}),))


def test_what_does_not_belong_is_refused(tmp_path):
    other = a_study(seed=9)
    stranger = replace(ANSWERS[1].answers[0])
    faults = [
        ([replace(ANSWERS[0], study=other.study)], f"answers the study {other.study}, not {KEY.study}"),
        ([replace(ANSWERS[0], study="\x1b[31m")], r"answers the study \\x1b\[31m"),
        ([replace(ANSWERS[0], annotator="mallory")], "is by 'mallory', who was not asked. Known: annotator-1, "),
        ([replace(ANSWERS[0], answers=(stranger,))], f"{stranger.screen}: was not shown to annotator-1"),
        ([replace(ANSWERS[0], answers=(FIRST, FIRST))], "is answered twice in this file"),
        ([changed(joy=6)], "joy is 6; the answers are 1, 2, 3, 4, 5"),
        ([changed(joy=0)], "joy is 0"),
        ([changed(joy="5")], "joy is '5'"),
        ([changed(tone=3)], "answers 'tone', which is no question. Known: coherence, joy"),
        ([replace(ANSWERS[0], schema=2)], "has the schema 2"),
        (
            [changed(), changed(joy=int(FIRST.values["joy"]) % 5 + 1)],
            r"1.json: annotator-1 says otherwise than in .*0.json, 1 times, first joy of ",
        ),
        ([replace(ANSWERS[0], answers=())], "There are no answers: put the files that people saved into .*answers/"),
        ([], "There are no answers"),
    ]
    for answers, said in faults:
        with pytest.raises(DataError, match=said):
            read_answers(written(tmp_path, answers), KEY)


def test_files_that_are_no_answers_are_refused(tmp_path):
    path = written(tmp_path, [ANSWERS[0]])[0]
    good = json.loads(path.read_text())
    value = good["answers"][0]["values"]
    faults = [
        ("{", "not valid JSON"),
        ("[]", "0.json: a file of another kind, not the answers of a person"),
        (json.dumps({**good, "name": "x"}), "unknown key 'name'"),
        (
            json.dumps({**good, "answers": [{"screen": FIRST.screen, "values": {**value, "joy": True}}]}),
            "joy: expected",
        ),
        (json.dumps({**good, "answers": [{"screen": FIRST.screen, "values": {**value, "joy": 2.5}}]}), "joy: expected"),
        (
            json.dumps({**good, "answers": [{"screen": FIRST.screen, "values": {**value, "joy": None}}]}),
            "joy: expected",
        ),
        (json.dumps(good).replace('"joy": ', '"joy": NaN, "x": ', 1), "NaN is not a JSON number"),
        (json.dumps(good).replace('"joy": ', '"joy": 1, "joy": ', 1), "'joy' is repeated"),
    ]
    for text, said in faults:
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            read_answers([path], KEY)
    with pytest.raises(DataError, match="cannot be read"):
        read_answers([tmp_path / "nowhere.json"], KEY)


def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path):
    publish(KEY, tmp_path / "s")
    (tmp_path / "list.json").write_text('{"study": "x"}')
    for path, what in ((tmp_path / "s/key.json", "the key of a study"), (tmp_path / "list.json", "another kind")):
        with pytest.raises(DataError, match=what) as caught:
            read_answers([path], KEY)
        assert "unknown key" not in str(caught.value) and "\n" not in str(caught.value)


def test_answers_of_programs_say_so(tmp_path):
    mixed = [replace(ANSWERS[0], synthetic=True), ANSWERS[1]]
    assert read_answers(written(tmp_path, mixed), KEY).synthetic == ("annotator-1",)


# --- pairs -----------------------------------------------------------------------------------------------------------

DUELS = a_study(PAIRS, ("alpha", "beta"), 4, 2)


def test_choices_are_turned_to_the_systems(tmp_path):
    def likes_beta(number, screen, question):
        if screen.item == 3:
            return "tie"
        return "ab"[screen.systems.index(1)]

    found = preferences_of(DUELS, read_answers(written(tmp_path, filled(DUELS, likes_beta)), DUELS))
    np.testing.assert_array_equal(found[:, 0, 1], [[-1, -1]] * 3 + [[0, 0]])
    np.testing.assert_array_equal(found[:, 1, 0], -found[:, 0, 1])
    assert np.isnan(found[:, 0, 0]).all()


def test_choices_are_written_with_their_texts(tmp_path):
    opinions = read_answers(written(tmp_path, filled(DUELS, lambda number, screen, question: "a")), DUELS)
    lines = list(preference_lines(DUELS, opinions))
    assert len(lines) == 8
    for line in lines:
        first, second = line["systems"]
        item = int(line["item"].split("-")[1]) - 1
        assert {first, second} == {"alpha", "beta"} and line["choice"] == "a"
        assert (line["a"], line["b"]) == (f"{first} writes {item} by 1", f"{second} writes {item} by 1")
        assert (line["prompt"], line["id"]) == (f"Prompt {item}", f"id-{item}")
        assert set(line) == {"item", "annotator", "prompt", "id", "a", "b", "systems", "choice"}
    assert {line["systems"][0] for line in lines} == {"alpha", "beta"}, "as they were shown"


def test_choices_of_programs_say_so(tmp_path):
    first, second = filled(DUELS, lambda number, screen, question: "a")
    mixed = read_answers(written(tmp_path, [replace(first, synthetic=True), second]), DUELS)
    said = {line["annotator"]: line.get("synthetic", False) for line in preference_lines(DUELS, mixed)}
    assert said == {"annotator-1": True, "annotator-2": False}


def test_ratings_have_no_choices(tmp_path):
    opinions = read_answers(written(tmp_path, ANSWERS), KEY)
    with pytest.raises(DataError, match="rate texts one by one"):
        list(preference_lines(KEY, opinions))


def test_a_choice_that_is_none_is_refused(tmp_path):
    for value in ("c", 1, ""):
        wrong = AnswerFile(
            1, DUELS.study, "annotator-1", (Answer(DUELS.annotators[0].screens[0].id, {"better": value}),)
        )
        with pytest.raises(DataError, match="the answers are a, tie, b"):
            read_answers(written(tmp_path, [wrong]), DUELS)
