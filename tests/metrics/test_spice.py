"""The adapter to the official SPICE program, run with a program that stands in for Java."""

import json
import sys
from pathlib import Path

import pytest
from support.metric_texts import prepared

from grue.errors import ConfigError, DataError, Unavailable
from grue.metrics.registry import make_metric
from grue.metrics.spice import CORENLP, HOME, JAR, JAVA, problems, settings
from grue.records import Example

FAKE = '''#!{python} -SE
"""Answers as Java and the jar do; the score of a text is the share of its words that the first reference has."""
import json, pathlib, sys

if sys.argv[1:] == ["-version"]:
    sys.stderr.write({banner!r})
    sys.exit(0)
memory, jar_option, jar, given, out_option, out, *flags = sys.argv[1:]
assert [jar_option, out_option, *flags] == ["-jar", "-out", "-detailed", "-silent"], sys.argv
assert memory == "-Xmx{memory}" and pathlib.Path(jar) == pathlib.Path({jar!r}), sys.argv
assert pathlib.Path(given).parent == pathlib.Path.cwd() == pathlib.Path(out).parent
items = json.loads(pathlib.Path(given).read_bytes().decode("ascii"))
assert all(sorted(item) == ["image_id", "refs", "test"] for item in items)
assert all(item["test"].strip() and all(ref.strip() for ref in item["refs"]) and item["refs"] for item in items)
pathlib.Path({log!r}).write_text(json.dumps(items))
answers = []
for item in items:
    said, wanted = item["test"].split(), item["refs"][0].split()
    f = sum(word in wanted for word in said) / len(said)
    of_all = {{"pr": f, "re": f, "f": f, "fn": 0.0, "numImages": 1}}
    of_colors = {{"pr": float("nan"), "re": float("nan"), "f": float("nan"), "fn": 0.0, "numImages": 0}}
    scores = {{"All": of_all, "Color": of_colors}}
    answers.append({{"image_id": item["image_id"], "test_tuples": [], "ref_tuples": [], "scores": scores}})
{spoil}
pathlib.Path(out).write_text(json.dumps(answers))
'''
EIGHT = 'openjdk version "1.8.0_292"\nOpenJDK Runtime Environment (build 1.8.0_292-b10)\n'
EXAMPLES = [
    Example("a", "", ("a dog runs", "the dog is running")),
    Example("b", "", ("two cats sleep",)),
    Example("c", "", ("a dog runs",)),
]
TEXTS = ["a dog sleeps", "two cats sleep", "cats"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder that looks like SPICE's; the environment names none."""
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.delenv(JAVA, raising=False)
    folder = tmp_path / "SPICE 1.0"
    (folder / "lib").mkdir(parents=True)
    for path in (folder / JAR, *(folder / "lib" / name for name in CORENLP)):
        path.write_bytes(b"not really a jar")
    return folder


@pytest.fixture
def java(home, tmp_path):
    def write(spoil="", banner=EIGHT, memory="8G"):
        path, jar, log = tmp_path / "java", str(home / JAR), str(tmp_path / "log.json")
        written = FAKE.format(python=sys.executable, banner=banner, memory=memory, jar=jar, log=log, spoil=spoil)
        path.write_text(written, "utf-8")
        path.chmod(0o755)
        return str(path)

    return write


def logged(java):
    return json.loads(Path(java).with_name("log.json").read_text())


def score(texts, examples=EXAMPLES, **options):
    metric = prepared("spice", examples, **options)
    statistics = metric.statistics(examples, texts)
    return metric.corpus(statistics), list(metric.per_example(statistics))


def test_values_and_what_is_sent(home, java):
    """Whatever the answers' order is."""
    written = java(spoil="answers.reverse()\nanswers[0]['image_id'] = str(answers[0]['image_id'])")
    assert problems(str(home), written) == []
    corpus, values = score(TEXTS, home=str(home), java=written)
    assert values == [pytest.approx(2 / 3), 1.0, 0.0]
    assert corpus == pytest.approx(5 / 9)
    assert logged(written) == [
        {"image_id": 0, "test": "a dog sleeps", "refs": ["a dog runs", "the dog is running"]},
        {"image_id": 1, "test": "two cats sleep", "refs": ["two cats sleep"]},
        {"image_id": 2, "test": "cats", "refs": ["a dog runs"]},
    ]


def test_settings_from_the_environment_the_path_and_the_working_directory(tmp_path, home, java, monkeypatch):
    monkeypatch.setenv(HOME, str(home))
    monkeypatch.setenv(JAVA, java(memory="2G"))
    assert score(["a", "two", "a"], memory="2G") == (1.0, [1.0, 1.0, 1.0])
    assert settings("here", "this") == ("here", "this")
    monkeypatch.delenv(HOME)
    monkeypatch.delenv(JAVA)
    java()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert settings() == ("", "java")
    assert score(["a", "two", "a"], home=str(home))[0] == 1.0
    monkeypatch.chdir(tmp_path)
    assert score(["a", "two", "a"], home=home.name, java="./java")[0] == 1.0


def test_empty_texts_score_nothing_and_are_not_sent_and_strange_ones_are_cleaned(home, java):
    written = java()
    assert score(["", "two", " \n\x00"], home=str(home), java=written)[1] == [0.0, 1.0, 0.0]
    assert [item["image_id"] for item in logged(written)] == [1]
    empty = [Example("a", "", ("", " ")), Example("b", "", ("", "two cats"))]
    assert score(["a dog", "two"], empty, home=str(home), java=written)[1] == [0.0, 1.0]
    assert logged(written) == [{"image_id": 1, "test": "two", "refs": ["two cats"]}]
    cleaned = {"a\r\nb\x85c\u2028d\te": "a b c d e", "a\x00\x07b": "a b", "\ud800 a \udfff": "a"}
    cleaned |= {text: text for text in ("größe 😀 東京 كلب", '"quotes" \\ {braces}')}
    examples = [Example(text, "", (text,)) for text in cleaned]
    assert score([*cleaned], examples, home=str(home), java=written) == (1.0, [1.0] * 5)
    assert [(item["test"], item["refs"]) for item in logged(written)] == [(text, [text]) for text in cleaned.values()]
    nothing = java(spoil="raise SystemExit(7)")  # which is not started
    assert score(["", "", ""], home=str(home), java=nothing) == (0.0, [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "spoil",
    [
        "sys.stderr.write('line\\n' * 30 + 'java.lang.OutOfMemoryError: heap\\n'); sys.exit(3)",
        "sys.exit(0)",
        "del answers[1]",
    ],
)
def test_a_crash_a_quiet_end_and_too_few_answers(home, java, spoil, refused):
    with refused(DataError):
        score(["a", "b", "c"], home=str(home), java=java(spoil=spoil))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("answers = {'a': 1}", "TypeError: "),
        ("del answers[0]['scores']['All']", "KeyError: 'All'"),
        ("answers[0]['scores']['All']['f'] = None", "TypeError: "),
        ("pathlib.Path(out).write_text('[{'); sys.exit(0)", "JSONDecodeError: "),
    ],
)
def test_answers_of_another_format(home, java, spoil, reason):
    with pytest.raises(DataError) as error:
        score(["a", "b", "c"], home=str(home), java=java(spoil=spoil))
    assert str(error.value).startswith(f"SPICE's scores are not of its format ({reason}")


def test_what_java_has_to_be(tmp_path, home, java, refused):
    for banner in ('java version "14.0.2" 2020-07-14\n', 'openjdk version "11" 2018-09-25\n'):
        assert problems(str(home), java(banner=banner)) == []
    for version in ('openjdk version "17.0.9" 2023-10-17', 'openjdk version "15"', 'java version "1.7.0_80"', "hello"):
        refused.message("\n".join(problems(str(home), java(banner=version))))
    (tmp_path / "java").write_bytes(b"\x7fnothing")
    for program in (str(tmp_path / "java"), "no-such-java"):
        refused.message("\n".join(problems(str(home), program)))


def test_all_that_can_be_missing(tmp_path, home, java, refused):
    refused.message("\n".join(problems("", "no-such-java")))
    refused.message("\n".join(problems(str(tmp_path), java())))
    with refused(Unavailable):
        make_metric("spice", home=str(home), java="no-such-java")
    with refused(ConfigError):
        make_metric("spice", home=3)
    metric = make_metric("spice", home=str(home), java=java())
    assert (metric.signature, metric.direction) == ("spice|jar:1.0|corenlp:3.6.0|refs:merged", "higher")
    with refused(DataError):
        metric.prepare([Example("e", "", ())])
