"""Rows that were asked by chat prompts or answered by endpoints, made again."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.factories import a_result
from support.late import late

from grue.errors import SubmissionError
from grue.task_files import load_task

models = late("grue.submissions.trust.models")
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
        models.load(row, Path("any"))


def test_a_chat_model_is_asked_again_as_it_was(monkeypatch):
    asked = []
    monkeypatch.setattr(models, "external_system", lambda *given, chat: asked.append((*given[1:], chat)))
    for generation in ({"prompting": {"kind": "chat"}}, {}):
        models._load(a_row(generation=generation), "me/model")
    assert asked == [("me/model", 1, True), ("me/model", 1, False)]
