"""What RL4LMs computed, against values that the old libraries themselves printed.

printed_by_rl4lms.jsonl has them, as they need Python packages that no longer install beside today's. Tokens and METEOR
are by nltk 3.7 with WordNet 3.0, sentences by its untrained PunktSentenceTokenizer (no abbreviation occurs), ROUGE by
rouge-score 0.0.4: all against str(list of references), the last one, rouge_combined, against the first reference alone.
Then the best of py-rouge 1.1 with the options of RL4LMs' NarrativeQA.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from support.metric_texts import scored, value

from grue.metrics.registry import make_metric
from grue.metrics.rl4lms import model_sentences
from grue.metrics.treebank import split_sentence, split_sentence_37
from grue.records import Example

SIGNATURES = {
    "meteor": "version:nltk3.7|split:rules|case:lower|tok:treebank3.7|stem:porter|synonyms:wordnet:3.0|refs:printed|corpus:mean",
    "rouge1": "tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
    "rouge2": "tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
    "rougeL": "tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
    "rougeLsum": "split:newline|tok:a-z0-9|stem:porter|refs:printed|corpus:mean",
    "rouge": "mean:rouge1,rouge2,rougeL|tok:a-z0-9|stem:porter|refs:first",
    "rouge_l_max": "version:py-rouge1.1|split:newline|words:100|weight:1.2|stem:porter-original|refs:best",
}
NAMES = [f"{name}:rl4lms" for name in SIGNATURES]
ROWS = [
    json.loads(line) for line in Path(__file__).with_name("printed_by_rl4lms.jsonl").read_text("utf-8").split("\n")[:-1]
]


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_that_the_old_libraries_printed(name):
    examples = [Example(str(i), "", tuple(row["references"])) for i, row in enumerate(ROWS)]
    values, corpus = scored(name, examples, [row["text"] for row in ROWS])
    assert values == pytest.approx([row["printed"][NAMES.index(name)] for row in ROWS], abs=1e-9)
    assert corpus == pytest.approx(np.mean(values)), "where RL4LMs had a bootstrap median"
    assert make_metric(name).signature == f"{name}|{SIGNATURES[name.partition(':')[0]]}"


def test_rouge_l_max_by_hand_and_only_the_first_hundred_words_count():
    references = ["the dogs ran home", "a cat"]
    precision, recall = (3 / 3) ** (1 / 1.2), (3 / 4) ** (1 / 1.2)
    expected = 2 * precision * recall / (precision + recall)
    assert value("rouge_l_max:rl4lms", references, "the dog ran") == pytest.approx(expected)
    assert value("rouge_l_max:rl4lms", references, "the dog sat ran sat") < expected
    hundred = " ".join(f"w{i}" for i in range(100))
    found = [
        value("rouge_l_max:rl4lms", [hundred], text) for text in (f"{hundred} x y", f"{hundred}\nx y", f"x {hundred}")
    ]
    assert found == [1.0, 1.0, pytest.approx((99 / 100) ** (1 / 1.2))]


@pytest.mark.parametrize(
    ("sentence", "now", "then"),  # printed by nltk 3.10.4 and nltk 3.7
    [
        ("['The cat sat.']", "[ ' The cat sat . ' ]", "[ 'The cat sat . ' ]"),
        ("well—known", "well — known", "well—known"),
        ("rock'n roll 'x y'", "rock'n roll ' x y '", "rock'n roll ' x y '"),
        ("O'B it's", "O'B it 's", "O ' B it 's"),
        ("the dog's\nbone", "the dog 's bone", "the dog's bone"),
        ("so.\x1c", "so.", "so ."),
    ],
)
def test_versions_of_the_tokenizer(sentence, now, then):
    assert split_sentence(sentence) == now.split()
    assert split_sentence_37(sentence) == then.split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("['A cat.', 'Two cats. And a dog.']", "['A cat.|', 'Two cats.|And a dog.']|"),
        ("it rains. he stays", "it rains.|he stays"),
        (
            "Mr. X met J. Smith in the U.S. on Sat. at 5 p.m. sharp",
            "Mr. X met J. Smith in the U.S. on Sat.|at 5 p.m. sharp",
        ),
        ('He said "so." Then ... (he left.) Good', 'He said "so."|Then ... (he left.)|Good'),
        ("", ""),
    ],
)
def test_sentences_of_a_printed_list(text, expected):
    assert "|".join(model_sentences(text)) == expected
