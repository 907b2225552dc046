"""Measure the small models that ship: `python benchmarks/mini_scorers.py` prints the figures of docs/mini.md on them.

All texts have other seeds than the training texts of the models and tokenizers.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
import transformers

from grue.lm.load import load_tokenizer, locate_model, quiet
from grue.metrics.metric import FloatArray, make_metric
from grue.mini import pairs, wmt16
from grue.mini.assets import read_manifest
from grue.mini.build import LESSONS
from grue.mini.chance import Dice
from grue.mini.draw import rows
from grue.mini.recipes import RECIPES
from grue.mini.text import german, paragraphs
from grue.records import Example

SEED = 9002  # the held-out figures of the recipes have 9001
TRIPLES = 600
LAYERS = (1, 2, 3)
PARAGRAPHS = 2000

Triple = tuple[str, str, str]


def held_out_figures() -> None:
    """Print what each model gets right of text that it has not read, as the manifest has it and as measured now."""
    manifest = read_manifest().assets
    print(f"{'model':12} {'figure':44} {'manifest':>9} {'now':>9}")
    for name, recipe in RECIPES.items():
        with quiet():
            architecture = getattr(transformers, recipe.architecture)
            model = architecture.from_pretrained(locate_model(f"mini:{name}"), dtype="float32").eval()
            found = LESSONS[recipe.lesson].figures(recipe, load_tokenizer(f"mini:{name}"), model)
        for figure, value in found.items():
            print(f"{name:12} {figure:44} {manifest[name].held_out[figure]:9.4f} {value:9.4f}", flush=True)


def sentiment_of_task() -> None:
    """Print how often the sentiment of a review of the IMDB task is told right, from all of it and from the prompt."""
    drawn = [row for split in ("validation", "test") for row in rows("imdb", split, "1")]
    labels = np.array([row["label"] for row in drawn])
    texts = [row["text"].split(" ") for row in drawn]
    metric = make_metric("sentiment", model="mini:sentiment", label=1)
    for kind, part in (("whole", texts), ("first half", [words[: len(words) // 2] for words in texts])):
        examples = [Example(str(number), "", ()) for number in range(len(part))]
        chance = metric.statistics(examples, [" ".join(words) for words in part])[:, 0]
        print(f"sentiment of {len(part)} reviews of IMDB, {kind}: {np.mean((chance > 0.5) == labels):.1%} right")


def near_misses(model: str, draw: Callable[[Dice, str], Triple]) -> None:
    """Print how often BERTScore, by each layer, puts a sentence's paraphrase, a changed fact and another in order."""
    dice = Dice(SEED)
    triples = [draw(dice, "1") for _ in range(TRIPLES)]
    examples = [Example(str(number), "", (said,)) for number, (said, _, _) in enumerate(triples)]
    same, changed = [triple[1] for triple in triples], [triple[2] for triple in triples]
    others = [same[-1], *same[:-1]]  # of the triple before
    for layer in LAYERS:
        metric = make_metric("bertscore", model=model, layer=layer)
        values = [metric.statistics(examples, texts)[:, 0] for texts in (same, changed, others)]
        above = [_share_above(values[0], values[1]), _share_above(values[1], values[2])]
        means = " ".join(f"{value.mean():10.3f}" for value in values)
        print(f"{model:16} {layer:5} {above[0]:20.1%} {above[1]:17.1%} {means}", flush=True)


def _share_above(values: FloatArray, others: FloatArray) -> float:
    return float(np.mean(values > others))


def whole_words(model: str, texts: Sequence[str]) -> float:
    """Return the share of running words, as they stand after a blank, that a model's tokenizer reads as one token."""
    tokenizer = load_tokenizer(model)
    words = [" " + word for text in texts for word in re.findall(r"(?<= )[^\W\d_]+", text)]
    return float(np.mean([len(row) == 1 for row in tokenizer(words, add_special_tokens=False).input_ids]))


def main() -> None:
    held_out_figures()
    print()
    sentiment_of_task()
    print(f"\nBERTScore with a sentence, {TRIPLES} times; the last three columns are means")
    print(f"{'model':16} layer paraphrase > changed   changed > other paraphrase    changed      other")
    near_misses("mini:encoder", pairs.near_miss)
    near_misses("mini:encoder-de", wmt16.near_miss)
    print("\nrunning words that are one token")
    english, deutsch = paragraphs(PARAGRAPHS, seed=SEED), german(PARAGRAPHS, seed=SEED)
    print(f"English tokenizer (causal), English paragraphs:        {whole_words('mini:causal', english):.1%}")
    print(f"bilingual tokenizer (translator), English paragraphs:  {whole_words('mini:translator', english):.1%}")
    print(f"bilingual tokenizer (translator), German paragraphs:   {whole_words('mini:translator', deutsch):.1%}")


if __name__ == "__main__":
    main()
