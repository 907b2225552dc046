"""The adapter to the official SPICE program, run with a program that stands in for Java."""

import json
import math
import sys
from pathlib import Path

import pytest

from grue.errors import ConfigError, DataError, Unavailable
from grue.metrics.registry import make_metric
from grue.metrics.spice import CORENLP, HOME, JAR, JAVA, clean, problems, settings
from grue.records import Example

FAKE = '''#!{python}
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


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.delenv(JAVA, raising=False)


@pytest.fixture
def home(tmp_path):
    """A folder that looks like SPICE's."""
    folder = tmp_path / "SPICE 1.0"
    (folder / "lib").mkdir(parents=True)
    for path in (folder / JAR, *(folder / "lib" / name for name in CORENLP)):
        path.write_bytes(b"not really a jar")
    return folder


def write_java(folder, home, spoil="", banner=EIGHT, memory="8G"):
    path = folder / "java"
    log = str(folder / "log.json")
    jar = str(home / JAR)
    path.write_text(
        FAKE.format(python=sys.executable, banner=banner, memory=memory, jar=jar, log=log, spoil=spoil), "utf-8"
    )
    path.chmod(0o755)
    return str(path)


def logged(java):
    return json.loads(Path(java).with_name("log.json").read_text())


def score(texts, examples=EXAMPLES, **options):
    metric = make_metric("spice", **options)
    metric.prepare(examples)
    statistics = metric.statistics(examples, texts)
    return metric.corpus(statistics), list(metric.per_example(statistics))


def test_values(tmp_path, home):
    java = write_java(tmp_path, home)
    corpus, values = score(["a dog sleeps", "two cats sleep", "cats"], home=str(home), java=java)
    assert values == [pytest.approx(2 / 3), 1.0, 0.0]
    assert corpus == pytest.approx(5 / 9)
    assert logged(java) == [
        {"image_id": 0, "test": "a dog sleeps", "refs": ["a dog runs", "the dog is running"]},
        {"image_id": 1, "test": "two cats sleep", "refs": ["two cats sleep"]},
        {"image_id": 2, "test": "cats", "refs": ["a dog runs"]},
    ]


def test_the_answers_order_does_not_matter(tmp_path, home):
    java = write_java(tmp_path, home, spoil="answers.reverse()\nanswers[0]['image_id'] = str(answers[0]['image_id'])")
    _, values = score(["a dog sleeps", "two cats sleep", "cats"], home=str(home), java=java)
    assert values == [pytest.approx(2 / 3), 1.0, 0.0]


def test_settings_from_the_environment(tmp_path, home, monkeypatch):
    monkeypatch.setenv(HOME, str(home))
    monkeypatch.setenv(JAVA, write_java(tmp_path, home, memory="2G"))
    assert score(["a", "two", "a"], memory="2G") == (1.0, [1.0, 1.0, 1.0])
    assert settings("here", "this") == ("here", "this")


def test_java_from_the_path(tmp_path, home, monkeypatch):
    write_java(tmp_path, home)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert settings() == ("", "java")
    assert score(["a", "two", "a"], home=str(home))[0] == 1.0


def test_a_relative_home(tmp_path, home, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert score(["a", "two", "a"], home=home.name, java=write_java(tmp_path, home))[0] == 1.0


def test_a_relative_java(tmp_path, home, monkeypatch):
    write_java(tmp_path, home)
    monkeypatch.chdir(tmp_path)
    assert score(["a", "two", "a"], home=str(home), java="./java")[0] == 1.0


def test_empty_texts_score_nothing_and_are_not_sent(tmp_path, home):
    java = write_java(tmp_path, home)
    assert score(["", "two", " \n\x00"], home=str(home), java=java)[1] == [0.0, 1.0, 0.0]
    assert [item["image_id"] for item in logged(java)] == [1]
    empty = [Example("a", "", ("", " ")), Example("b", "", ("", "two cats"))]
    assert score(["a dog", "two"], empty, home=str(home), java=java)[1] == [0.0, 1.0]
    assert logged(java) == [{"image_id": 1, "test": "two", "refs": ["two cats"]}]


def test_with_nothing_to_score_nothing_is_started(tmp_path, home):
    java = write_java(tmp_path, home, spoil="raise SystemExit(7)")
    assert score(["", "", ""], home=str(home), java=java) == (0.0, [0.0, 0.0, 0.0])
    assert not Path(java).with_name("log.json").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\x85c\u2028d\te", "a b c d e"),
        ("a\x00\x07b", "a b"),
        ("\ud800 a \udfff", "a"),
        ("größe 😀 東京 كلب", "größe 😀 東京 كلب"),
        ('"quotes" \\ {braces}', '"quotes" \\ {braces}'),
    ],
)
def test_strange_texts(tmp_path, home, text, expected):
    assert clean(text) == expected
    java = write_java(tmp_path, home)
    assert score([text], [Example("a", "", (text,))], home=str(home), java=java) == (1.0, [1.0])
    assert logged(java) == [{"image_id": 0, "test": expected, "refs": [expected]}]


def test_a_crash_shows_what_java_said(tmp_path, home):
    crash = "sys.stderr.write('line\\n' * 30 + 'java.lang.OutOfMemoryError: heap\\n'); sys.exit(3)"
    with pytest.raises(DataError) as error:
        score(["a", "b", "c"], home=str(home), java=write_java(tmp_path, home, spoil=crash))
    said = "line\n" * 19 + "java.lang.OutOfMemoryError: heap"
    assert str(error.value) == (
        f"SPICE stopped with code 3 and wrote no scores; run spice-1.0.jar by hand to see why. It said:\n{said}"
    )


def test_a_quiet_end_without_scores(tmp_path, home):
    with pytest.raises(DataError, match=r"stopped with code 0 and wrote no scores; .* It said:\nnothing$"):
        score(["a", "b", "c"], home=str(home), java=write_java(tmp_path, home, spoil="sys.exit(0)"))


def test_fewer_answers_than_texts(tmp_path, home):
    with pytest.raises(DataError) as error:
        score(["a", "b", "c"], home=str(home), java=write_java(tmp_path, home, spoil="del answers[1]"))
    assert str(error.value) == (
        "SPICE scored 2 of 3 texts, not the one at 1; check that spice-1.0.jar is the official release."
    )


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ("answers = {'a': 1}", "TypeError: "),
        ("del answers[0]['scores']['All']", "KeyError: 'All'"),
        ("answers[0]['scores']['All']['f'] = None", "TypeError: "),
        ("pathlib.Path(out).write_text('[{'); sys.exit(0)", "JSONDecodeError: "),
    ],
)
def test_answers_of_another_format(tmp_path, home, spoil, reason):
    with pytest.raises(DataError) as error:
        score(["a", "b", "c"], home=str(home), java=write_java(tmp_path, home, spoil=spoil))
    assert str(error.value).startswith(f"SPICE's scores are not of its format ({reason}")
    assert str(error.value).endswith("; check that spice-1.0.jar is the official release.")


def test_nan_of_all_tuples_is_left_for_scoring_to_refuse(tmp_path, home):
    java = write_java(tmp_path, home, spoil="answers[0]['scores']['All']['f'] = float('nan')")
    assert math.isnan(score(["a", "b", "c"], home=str(home), java=java)[0])


def test_no_problems(tmp_path, home):
    assert problems(str(home), write_java(tmp_path, home)) == []


@pytest.mark.parametrize("banner", ['java version "14.0.2" 2020-07-14\n', 'openjdk version "11" 2018-09-25\n', EIGHT])
def test_versions_that_do(tmp_path, home, banner):
    assert problems(str(home), write_java(tmp_path, home, banner=banner)) == []


CURE = "install Java 8 to 14 and name the program in GRUE_SPICE_JAVA or the option java."


@pytest.mark.parametrize(
    ("banner", "problem"),
    [
        ('openjdk version "17.0.9" 2023-10-17\n', "is Java 17, which SPICE does not run on"),
        ('openjdk version "15" 2020-09-15\n', "is Java 15, which SPICE does not run on"),
        ('java version "1.7.0_80"\n', "is Java 7, which SPICE does not run on"),
        ("hello\n", "does not say its version as Java does"),
    ],
)
def test_versions_that_do_not(tmp_path, home, banner, problem):
    java = write_java(tmp_path, home, banner=banner)
    assert problems(str(home), java) == [f"{java!r} {problem}; {CURE}"]


def test_java_that_is_missing_or_no_program(tmp_path, home):
    assert problems(str(home), "no-such-java") == [f"There is no program 'no-such-java'; {CURE}"]
    broken = tmp_path / "java"
    broken.write_bytes(b"\x7fnothing")
    broken.chmod(0o755)
    assert problems(str(home), str(broken)) == [f"{str(broken)!r} does not start (Exec format error); {CURE}"]


def test_all_that_can_be_missing(tmp_path):
    assert problems("", "no-such-java") == [
        f"There is no program 'no-such-java'; {CURE}",
        "No folder is named; unpack SPICE-1.0.zip and name its folder in GRUE_SPICE_HOME or the option home.",
    ]
    java = write_java(tmp_path, tmp_path)
    assert problems(str(tmp_path), java) == [
        f"{tmp_path}/spice-1.0.jar is missing; unpack SPICE-1.0.zip from https://panderson.me/spice there.",
        *(
            f"{tmp_path}/lib/stanford-corenlp-3.6.0{end}.jar is missing; it is in stanford-corenlp-full-2015-12-09.zip "
            "from https://nlp.stanford.edu."
            for end in ("", "-models")
        ),
    ]


def test_unavailable(home):
    with pytest.raises(Unavailable) as error:
        make_metric("spice", home=str(home), java="no-such-java")
    assert str(error.value) == (
        f"spice cannot run here:\n- There is no program 'no-such-java'; {CURE}\n"
        "spice_lite needs none of this, but is another metric."
    )


def test_no_references(tmp_path, home):
    metric = make_metric("spice", home=str(home), java=write_java(tmp_path, home))
    with pytest.raises(DataError, match=r"The example 'e' has no reference, which spice needs"):
        metric.prepare([Example("e", "", ())])


def test_signature_and_options(tmp_path, home):
    metric = make_metric("spice", home=str(home), java=write_java(tmp_path, home))
    assert metric.signature == "spice|jar:1.0|corenlp:3.6.0|refs:merged"
    assert metric.direction == "higher"
    with pytest.raises(ConfigError, match=r"The metric 'spice': the option 'home' must be a string, found 3"):
        make_metric("spice", home=3)
