"""Measure the small models that ship: prints the figures that docs/background/mini.md states of them.

All text is drawn from other seeds than those of the training texts of any model or tokenizer.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transformers

from grue.lm.folder import locate_model
from grue.lm.load import load_tokenizer
from grue.lm.quiet import quiet
from grue.metrics.metric import FloatArray
from grue.metrics.registry import make_metric
from grue.mini.assets import read_rows
from grue.mini.manifest import read_manifest
from grue.records import Example

sys.path.insert(0, str(Path(__file__).parent.parent))
from miniworld import cnn_dailymail, damage, pairs, totto, wmt16
from miniworld.build import LESSONS
from miniworld.chance import Dice
from miniworld.recipes import RECIPES
from miniworld.text import german, paragraphs, reviews
from miniworld.world import REVISION

SEED = 9002  # the held-out figures of the recipes have 9001
TRIPLES = 600
LAYERS = (1, 2, 3)
PARAGRAPHS = 2000

Triple = tuple[str, str, str]
ENGLISH: dict[str, Callable[[Dice, str], Triple]] = {
    "events": pairs.near_miss,
    "tables": totto.near_miss,
    "news": cnn_dailymail.near_miss,
}


def held_out_figures() -> None:
    """Print the figures of each model on text that it was not trained on: the manifest's, and measured now."""
    manifest = read_manifest().models
    print(f"{'model':12} {'figure':44} {'manifest':>9} {'now':>9}")
    for name, recipe in RECIPES.items():
        with quiet():
            architecture = getattr(transformers, recipe.architecture)
            where = locate_model(f"mini:{name}")
            model = architecture.from_pretrained(where, dtype="float32", trust_remote_code=False).eval()
            tokenizer: Any = load_tokenizer(f"mini:{name}")
            found = LESSONS[recipe.lesson].figures(recipe, tokenizer, model)
        for figure, value in found.items():
            print(f"{name:12} {figure:44} {manifest[name].held_out[figure]:9.4f} {value:9.4f}", flush=True)


def sentiment_of_task() -> None:
    """Print the accuracy of the sentiment of the IMDB task's reviews, from all of a review and from the prompt."""
    drawn = [row for split in ("validation", "test") for row in read_rows("imdb", split, REVISION)]
    labels = np.array([row["label"] for row in drawn])
    texts = [row["text"].split(" ") for row in drawn]
    metric = make_metric("sentiment", model="mini:sentiment", label=1)
    for kind, part in (("whole", texts), ("first half", [words[: len(words) // 2] for words in texts])):
        examples = [Example(str(number), "", ()) for number in range(len(part))]
        chance = metric.statistics(examples, [" ".join(words) for words in part])[:, 0]
        print(f"sentiment of {len(part)} reviews of IMDB, {kind}: {np.mean((chance > 0.5) == labels):.1%} right")


def exchanged(draw: Callable[[Dice, str], Triple]) -> Callable[[Dice, str], Triple]:
    """Return a draw of the same triples whose changed sentence is built like the first, and the paraphrase is not."""

    def drawn(dice: Dice, revision: str) -> Triple:
        said, same, changed = draw(dice, revision)
        return same, said, changed

    return drawn


def near_misses(model: str, kind: str, draw: Callable[[Dice, str], Triple]) -> None:
    """Print how often BERTScore, by each layer, ranks paraphrase > changed fact > another sentence."""
    dice = Dice(SEED)
    triples = [draw(dice, REVISION) for _ in range(TRIPLES)]
    examples = [Example(str(number), "", (said,)) for number, (said, _, _) in enumerate(triples)]
    same, changed = [triple[1] for triple in triples], [triple[2] for triple in triples]
    others = [same[-1], *same[:-1]]  # of the triple before
    for layer in LAYERS:
        metric = make_metric("bertscore", model=model, layer=layer)
        values = [metric.statistics(examples, texts)[:, 0] for texts in (same, changed, others)]
        above = [_share_above(values[0], values[1]), _share_above(values[1], values[2])]
        means = " ".join(f"{value.mean():10.3f}" for value in values)
        print(f"{model:16} {kind:18} {layer:5} {above[0]:20.1%} {above[1]:17.1%} {means}", flush=True)


def _share_above(values: FloatArray, others: FloatArray) -> float:
    return float(np.mean(values > others))


def whole(dice: Dice, text: str) -> str:
    return text


def damaged_text() -> None:
    """Print what the judges make of each way of damage; `whole` is the text without it."""
    dice = Dice(SEED)
    praise = [text for text, label in reviews(TRIPLES, seed=SEED) if label == 1]
    halves = [text.split(" ") for text in praise]
    starts = [" ".join(words[: len(words) // 2]) for words in halves]
    ends = [" ".join(words[len(words) // 2 :]) for words in halves]
    triples = [draw(dice, REVISION) for draw in ENGLISH.values() for _ in range(TRIPLES // len(ENGLISH))]
    said, same = [triple[0] for triple in triples], [triple[1] for triple in triples]
    begun = [Example(str(number), start, ()) for number, start in enumerate(starts)]
    referred = [Example(str(number), text, (text,)) for number, text in enumerate(said)]
    sentiment = make_metric("sentiment", model="mini:sentiment", label=1)
    likeness = make_metric("bleurt", model="mini:similarity")
    entailment = make_metric("summac", model="mini:entailment", entailment=2)
    ways: dict[str, damage.Way] = {way.__name__: way for way in (whole, *damage.WORTH, damage.cut)}
    print(f"{'way':12} {'sentiment':>10} {'likeness':>10} {'entailment':>10}")
    for name, way in ways.items():
        judged = [
            metric.corpus(metric.statistics(examples, [way(dice, text) for text in texts]))
            for metric, examples, texts in (
                (sentiment, begun, ends), (likeness, referred, same), (entailment, referred, same),
            )
        ]  # fmt: skip
        print(f"{name:12} " + " ".join(f"{value:10.3f}" for value in judged), flush=True)


def whole_words(model: str, texts: Sequence[str]) -> float:
    """Return the share of running words that a model's tokenizer encodes as one token."""
    tokenizer = load_tokenizer(model)
    words = [" " + word for text in texts for word in re.findall(r"(?<= )[^\W\d_]+", text)]
    return float(np.mean([len(row) == 1 for row in tokenizer(words, add_special_tokens=False).input_ids]))


def main() -> None:
    held_out_figures()
    print()
    sentiment_of_task()
    print(f"\nBERTScore with a sentence, {TRIPLES} times; the last three columns are means")
    print(f"{'model':16} {'of':18} layer paraphrase > changed   changed > other paraphrase    changed      other")
    for kind, draw in ENGLISH.items():
        near_misses("mini:encoder", kind, draw)
        near_misses("mini:encoder", f"{kind}, exchanged", exchanged(draw))
    near_misses("mini:encoder-de", "events", wmt16.near_miss)
    near_misses("mini:encoder-de", "events, exchanged", exchanged(wmt16.near_miss))
    print("\nmeans over damaged text: sentiment of reviews with such an end, likeness and entailment of paraphrases")
    damaged_text()
    print("\nrunning words that are one token")
    english, deutsch = paragraphs(PARAGRAPHS, seed=SEED), german(PARAGRAPHS, seed=SEED)
    print(f"English tokenizer (causal), English paragraphs:        {whole_words('mini:causal', english):.1%}")
    print(f"bilingual tokenizer (translator), English paragraphs:  {whole_words('mini:translator', english):.1%}")
    print(f"bilingual tokenizer (translator), German paragraphs:   {whole_words('mini:translator', deutsch):.1%}")


if __name__ == "__main__":
    main()
