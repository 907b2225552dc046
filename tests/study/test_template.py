"""Questionnaires: those that ship are whole, those of one's own are checked."""

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
        assert (template.name, template.tasks) == (task, (task,))
        assert [question.name for question in template.questions] == ["coherence", axis]
        assert all(points(question) == (1, 2, 3, 4, 5) for question in template.questions)
        assert "Ramamurthy et al." in template.source and "is ours" in template.source
    for name, template in shipped().items():
        assert template.name == name and template.source and template.title and template.instructions.strip()


def test_a_task_without_one_gets_the_general_one_and_pairs_theirs(refused):
    assert find_template(None, "scales", "wmt16", 2).name == "general"
    assert find_template(None, "pairs", "imdb", 2).name == "pairs"
    assert find_template("general", None, "imdb", 2).kind == "scales", "a name says the kind itself"
    for given in (("general", "pairs", "imdb", 2), (None, "pairs", "imdb", 1), ("imdb", "scales", "totto", 2)):
        with refused(ConfigError):
            find_template(*given)
    with refused(UnknownName):
        find_template("comongen", "scales", "imdb", 2)


def test_one_of_ones_own_is_read_and_checked(tmp_path, refused):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    assert points(find_template(str(path), "scales", "imdb", 2).questions[0]) == (1, 2, 3)
    for text in (
        OWN.replace('"scales"', '"pairs"').replace('"very"', '"very", "too"'),
        OWN.replace('["not", "a little", "very"]', '["not"]'),
        OWN + OWN[OWN.index("[[") :],
        OWN.replace("title", "titel"),
        OWN.replace('kind = "scales"', 'kind = "stars"'),
    ):
        path.write_text(text)
        with refused(ConfigError):
            find_template(str(path), "scales", "imdb", 2)
    with refused(ConfigError):
        find_template(str(tmp_path / "nowhere.toml"), "scales", "imdb", 2)
