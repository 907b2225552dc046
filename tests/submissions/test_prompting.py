"""Rows that were asked by chat prompts or answered by endpoints, made again; what their results may say."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.factories import a_result
from support.late import late

from grue.errors import SubmissionError
from grue.submissions.checks.prompting import faults_of_endpoint
from grue.task_files import load_task

reproducing = late("grue.submissions.trust.reproduce")
IMDB = load_task("imdb")
ANSWERED = {"url": "https://api.example.org/v1", "model": "m-1", "requests": 9}


def a_row(**changes):
    return SimpleNamespace(result=replace(a_result(IMDB, "m", 1, 40.0), **changes), task=IMDB, seed=1)


def endpoint(**said):
    return {"name": "m", "algorithm": "endpoint", "endpoint": ANSWERED | said}


def test_what_an_endpoint_answered_cannot_be_drawn_again():
    row = a_row(system=endpoint())
    with pytest.raises(
        SubmissionError, match="was answered by an endpoint; there are no weights to draw its texts from"
    ):
        reproducing.reproduce(SimpleNamespace(target=row, place=Path("any")), print)


def test_a_chat_model_is_asked_again_as_it_was(monkeypatch):
    asked = []
    monkeypatch.setattr(reproducing, "external_system", lambda *given, chat: asked.append((*given[1:], chat)))
    for generation in ({"prompting": {"kind": "chat"}}, {}):
        reproducing._load(SimpleNamespace(target=a_row(generation=generation), place="me/model"))
    assert asked == [("me/model", 1, True), ("me/model", 1, False)]


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ({"algorithm": "ppo"}, None),
        (endpoint(), None),
        (endpoint() | {"endpoint": []}, "endpoint: is missing"),
        (endpoint() | {"training": {"tokens": 1}}, "training: stated of a model behind"),
        (endpoint(model=" "), "endpoint: names no model."),
        (endpoint(requests=True), "endpoint: states True requests for 4 answers."),
        (endpoint(url="http://[::1"), "its url is not a plain address"),
        (endpoint(url="javascript:alert(1)"), "its url is not a plain address"),
        (endpoint(url="http://h/\x1b[2m"), "its url is not a plain address"),
    ],
)
def test_what_a_result_may_say_of_an_endpoint(system, told):
    found = list(faults_of_endpoint(a_row(system={"name": "m", **system}, counts={"expected": 4}).result))
    assert found == [] if told is None else len(found) == 1 and told in found[0], found
