"""Questionnaires: those that ship are whole, those of one's own are checked."""

import pytest

from grue.errors import ConfigError, UnknownName
from grue.study.template import find_template, points, shipped

OWN = """
name = "own"
kind = "scales"
source = "ours"
title = "T"
instructions = "I"
prompt_label = "P"
text_label = "X"
[[questions]]
name = "wit"
text = "How witty?"
anchors = ["not", "a little", "very"]
"""


def test_the_papers_axes_ship_with_five_points_and_their_source():
    """Table 9, 14, 20, 25, 34: coherence and the task's own axis."""
    own = {"imdb": "sentiment", "commongen": "commonsense", "cnn_dailymail": "quality", "totto": "correctness"}
    for task, axis in {**own, "dailydialog": "quality"}.items():
        template = find_template(None, "scales", task, 2)
        assert template.name == task and template.tasks == (task,)
        assert [question.name for question in template.questions] == ["coherence", axis]
        assert all(points(question) == (1, 2, 3, 4, 5) for question in template.questions)
        assert "Ramamurthy et al." in template.source and "is ours" in template.source


def test_every_file_is_named_as_it_is_and_says_where_it_is_from():
    for name, template in shipped().items():
        assert template.name == name and template.source and template.title and template.instructions.strip()


def test_a_task_without_one_gets_the_general_one_and_pairs_theirs():
    assert find_template(None, "scales", "wmt16", 2).name == "general"
    assert find_template(None, "pairs", "imdb", 2).name == "pairs"
    assert find_template("general", None, "imdb", 2).kind == "scales", "a name says the kind itself"
    with pytest.raises(ConfigError, match="The questionnaire general asks for scales, not for pairs"):
        find_template("general", "pairs", "imdb", 2)


def test_one_of_ones_own_is_read_and_checked(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    assert points(find_template(str(path), "scales", "imdb", 2).questions[0]) == (1, 2, 3)
    faults = [
        (OWN.replace('"scales"', '"pairs"').replace('"very"', '"very", "too"'), "pairs have one question, with three"),
        (OWN.replace('["not", "a little", "very"]', '["not"]'), "wit has 1 anchors; write 2 to 9"),
        (OWN + OWN[OWN.index("[[") :], "each only once"),
        (OWN.replace("title", "titel"), "unknown key 'titel'. Did you mean 'title'"),
        (OWN.replace('kind = "scales"', 'kind = "stars"'), "'stars' is not one of scales, pairs"),
        (OWN + "=", "not valid TOML"),
    ]
    for text, said in faults:
        path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            find_template(str(path), "scales", "imdb", 2)
    with pytest.raises(ConfigError, match="cannot be read"):
        find_template(str(tmp_path / "nowhere.toml"), "scales", "imdb", 2)
    with pytest.raises(UnknownName, match="No questionnaire 'comongen'. Did you mean 'commongen'"):
        find_template("comongen", "scales", "imdb", 2)


def test_one_that_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="Pairs need two systems"):
        find_template(None, "pairs", "imdb", 1)
    with pytest.raises(ConfigError, match="The questionnaire imdb is for imdb, not for totto"):
        find_template("imdb", "scales", "totto", 2)
