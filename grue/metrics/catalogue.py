"""The list of all metrics: what each measures, its range, its source, and the module that makes it.

`grue metrics list` and `grue metrics show` print it, docs/reference/metrics.md is generated from it, and the registry
finds modules through it, so that looking up a name loads no model library.
"""

from dataclasses import dataclass
from math import inf
from typing import Literal

from grue.records import Direction

Family = Literal["overlap", "captions", "tables", "models", "diversity", "rl4lms"]
FAMILIES: dict[Family, str] = {
    "overlap": "Words and n-grams shared with references",
    "captions": "Descriptions of scenes",
    "tables": "Descriptions of tables",
    "models": "Metrics that ask a model",
    "diversity": "How varied the texts are, whatever the references",
    "rl4lms": "What RL4LMs really computed, to compare with published numbers; never a default",
}


@dataclass(frozen=True, slots=True)
class Card:
    """What a metric is.

    Attributes:
        module: Module of `grue.metrics` that registers it.
        range: Lowest and highest value.
        source: Where it was defined, and the implementation that ours is equal to.
        needs: What an example must carry beside a prompt, or what must be installed; empty if nothing.
        direction: Whether higher or lower values are better.
    """

    module: str
    family: Family
    range: tuple[float, float]
    definition: str
    source: str
    needs: str = "references"
    direction: Direction = "higher"

    @property
    def arrow(self) -> str:
        """↑ where higher is better, else ↓."""
        return "↑" if self.direction == "higher" else "↓"

    @property
    def bounds(self) -> str:
        """The range, for people: 0–1, 1–∞."""
        low, high = (f"{end:g}".replace("inf", "∞").replace("-", "−") for end in self.range)
        return f"{low}–{high}"


_ROUGE = "Lin 2004; rouge-score 0.1.2"
_SACREBLEU = "sacrebleu 2.6"
_DHINGRA = "Dhingra et al. 2019, as modified for ToTTo (google-research/language, totto_parent_eval)"
_TABLE = "references, meta.table, meta.highlighted"
_GEM = "GEM-metrics; NLG-diversity"
_ALL_TEXTS = "all texts together"


def _bleu(order: int) -> Card:
    precision = (
        f"Geometric mean of clipped precisions of n-grams of 1 to {order} words"
        if order > 1
        else ("Clipped precision of words")
    )
    return Card(
        "lexical",
        "overlap",
        (0, 1),
        f"{precision}, times the brevity penalty against the "
        "shortest reference; words are what stands between white space, a corpus is not smoothed. "
        "A single text is smoothed by one for orders above 1.",
        "Papineni et al. 2002; tensorflow/nmt and RL4LMs' bleu",
    )


def _rouge_n(order: int) -> Card:
    shared = "words" if order == 1 else "pairs of neighbouring words"
    return Card(
        "lexical",
        "overlap",
        (0, 1),
        f"F1 of the {shared} shared with the best reference, after Porter stemming; mean over examples.",
        _ROUGE,
    )


def _of_all_texts(definition: str, highest: float = inf) -> Card:
    return Card("diversity", "diversity", (0, highest), f"{definition}; {_ALL_TEXTS}.", _GEM, needs="")


def _length(definition: str) -> Card:
    return Card("diversity", "diversity", (0, inf), definition, _GEM, needs="")


def _rouge_rl4lms(name: str) -> Card:
    return Card(
        "rl4lms",
        "rl4lms",
        (0, 1),
        f"{name} F1 against the references written as a Python list: one reference in brackets and quotation marks, "
        "several as one long reference, line ends as the letters \\n.",
        "RL4LMs with datasets 2.5.1 and rouge-score; mean instead of its bootstrap median",
    )


CARDS: dict[str, Card] = {
    # --- overlap ---
    **{f"bleu{order}": _bleu(order) for order in (1, 2, 3, 4)},
    "sacrebleu": Card(
        "lexical",
        "overlap",
        (0, 100),
        "BLEU of the library sacrebleu: its tokenizers, exponential smoothing, the closest reference length. "
        "A single text counts only the n-gram orders it is long enough for.",
        f"Post 2018; {_SACREBLEU}",
    ),
    "chrf": Card(
        "lexical",
        "overlap",
        (0, 100),
        "chrF2: F-score, recall weighing twice, of character n-grams up to 6, white space left out.",
        f"Popović 2015; {_SACREBLEU}",
    ),
    "chrfpp": Card(
        "lexical",
        "overlap",
        (0, 100),
        "chrF++: chrF2 with word n-grams up to 2 beside the character n-grams.",
        f"Popović 2017; {_SACREBLEU}",
    ),
    "ter": Card(
        "lexical",
        "overlap",
        (0, inf),
        "Translation edit rate: insertions, deletions, substitutions and shifts of blocks to the nearest reference, "
        "for a hundred words of the references' mean length; lower-cased.",
        f"Snover et al. 2006; {_SACREBLEU}",
        direction="lower",
    ),
    "rouge1": _rouge_n(1),
    "rouge2": _rouge_n(2),
    "rougeL": Card(
        "lexical",
        "overlap",
        (0, 1),
        "F1 of the longest common subsequence of words with the best reference, line ends ignored; mean over examples.",
        _ROUGE,
    ),
    "rougeLsum": Card(
        "lexical",
        "overlap",
        (0, 1),
        "F1 of the union of longest common subsequences, line by line (or sentence by sentence), with the best "
        "reference; mean over examples.",
        _ROUGE,
    ),
    "rougeLmax": Card(
        "lexical",
        "overlap",
        (0, 1),
        "ROUGE-L against the best of several references, the name that NarrativeQA's evaluations use; our rougeL takes "
        "the best reference too, so the two are equal.",
        _ROUGE,
    ),
    "meteor": Card(
        "lexical",
        "overlap",
        (0, 1),
        "Harmonic mean of word recall and precision (9:1), words aligned by form, Porter stem and WordNet synonym, "
        "less a penalty for scattered matches; best reference, mean over examples.",
        "Banerjee & Lavie 2005; nltk 3.10.4 (alpha 0.9, beta 3, gamma 0.5)",
    ),
    # --- captions ---
    "cider": Card(
        "cider",
        "captions",
        (0, 10),
        "Mean cosine of tf-idf weighted n-grams up to 4 with the references, counts clipped, times a Gaussian penalty "
        "of the difference in length, times ten. Document frequencies are those of the prepared examples.",
        "Vedantam et al. 2015, CIDEr-D; pycocoevalcap 1.2",
    ),
    "coverage": Card(
        "coverage",
        "captions",
        (0, 1),
        "Share of an example's concepts that the text uses in any inflection; lemmas by WordNet's rules.",
        "Lin et al. 2020 (CommonGen)",
        needs="meta.concepts",
    ),
    "spice": Card(
        "spice",
        "captions",
        (0, 1),
        "F1 of the objects, attributes and relations in the scene graph of the text and in that of all references.",
        "Anderson et al. 2016; the official SPICE-1.0 jar",
        needs="references; Java 8 to 14, the SPICE-1.0 jar and Stanford CoreNLP 3.6.0 models",
    ),
    "spice_lite": Card(
        "scenes",
        "captions",
        (0, 1),
        "F1 of objects, attributes and relations like SPICE's, found by a few rules over WordNet parts of speech "
        "instead of a parser. Not SPICE: never compare the two.",
        "our own rules, after the idea of Anderson et al. 2016",
    ),
    # --- tables ---
    "parent": Card(
        "tables",
        "tables",
        (0, 1),
        "F1 of n-grams that the reference or the table backs, and of the reference and the highlighted cells recalled; "
        "the weight of the two recalls follows from the reference; best reference, mean over examples.",
        _DHINGRA,
        needs=_TABLE,
    ),
    "parent_precision": Card(
        "tables", "tables", (0, 1), "Precision of PARENT at its best reference.", _DHINGRA, needs=_TABLE
    ),
    "parent_recall": Card(
        "tables", "tables", (0, 1), "Recall of PARENT at its best reference.", _DHINGRA, needs=_TABLE
    ),
    "parent_overlap": Card(
        "tables",
        "tables",
        (0, 1),
        "PARENT over the examples whose table headers occur in training.",
        _DHINGRA,
        needs=f"{_TABLE}, meta.overlap",
    ),
    "parent_nonoverlap": Card(
        "tables",
        "tables",
        (0, 1),
        "PARENT over the examples whose table headers do not occur in training.",
        _DHINGRA,
        needs=f"{_TABLE}, meta.overlap",
    ),
    "sacrebleu_overlap": Card(
        "tables",
        "tables",
        (0, 100),
        "sacreBLEU over the examples whose table headers occur in training.",
        f"Parikh et al. 2020 (ToTTo); {_SACREBLEU}",
        needs="references, meta.overlap",
    ),
    "sacrebleu_nonoverlap": Card(
        "tables",
        "tables",
        (0, 100),
        "sacreBLEU over the examples whose table headers do not occur in training.",
        f"Parikh et al. 2020 (ToTTo); {_SACREBLEU}",
        needs="references, meta.overlap",
    ),
    # --- models ---
    "bertscore": Card(
        "neural.bertscore",
        "models",
        (-1, 1),
        "F1 of greedy cosine matching of the contextual embeddings of one layer; the best reference; an empty text "
        "is 0.",
        "Zhang et al. 2020; bert-score 0.3.13",
    ),
    "bleurt": Card(
        "neural.bleurt",
        "models",
        (-inf, inf),
        "Score of a regression model that reads reference and text; mean over references by default. Checkpoints are "
        "different metrics: the signature names the one used.",
        "Sellam et al. 2020; BERT-type checkpoints converted for transformers",
    ),
    "summac": Card(
        "neural.summac",
        "models",
        (-1, 1),
        "For each sentence of the text the highest entailment probability by any sentence of the document "
        "(meta.document, else the prompt), under a natural-language-inference model; mean over the text's sentences, "
        "then over examples; an empty text is 0.",
        "Laban et al. 2022, SummaC-ZS; summac 0.0.4",
        needs="",
    ),
    "sentiment": Card(
        "neural.classify",
        "models",
        (0, 1),
        "Probability that a classifier gives to one label for prompt and text together.",
        "Ramamurthy et al. 2023 (RL4LMs' learned_reward)",
        needs="",
    ),
    "intent": Card(
        "neural.classify",
        "models",
        (0, 1),
        "Share of texts whose dialogue act, told by a classifier from the last utterance and the text, is the one "
        "that the example asks for.",
        "Ramamurthy et al. 2023 (RL4LMs' intent_accuracy)",
        needs="meta.intent, meta.last_utterance",
    ),
    "perplexity": Card(
        "neural.perplexity",
        "models",
        (1, inf),
        "exp of the mean negative log-likelihood of the texts' tokens, given their prompts, under a language model "
        "that is not the policy.",
        "Jelinek et al. 1977",
        needs="",
        direction="lower",
    ),
    # --- diversity ---
    "msttr": _of_all_texts("Mean share of distinct words in windows of 100 words (MSTTR-100)", 1),
    "distinct1": _of_all_texts("Distinct words per word", 1),
    "distinct2": _of_all_texts("Distinct pairs of neighbouring words per pair", 1),
    "distinct3": _of_all_texts("Distinct triples of neighbouring words per triple", 1),
    "entropy1": _of_all_texts("Shannon entropy of the words, in bits"),
    "entropy2": _of_all_texts("Shannon entropy of pairs of neighbouring words, in bits"),
    "entropy3": _of_all_texts("Shannon entropy of triples of neighbouring words, in bits"),
    "conditional_entropy2": _of_all_texts(
        "Entropy of a word given the word before it, in bits; GEM counts a text's last word as one before, too"
    ),
    "conditional_entropy3": _of_all_texts("Entropy of a word given the two words before it, in bits, likewise"),
    "unique1": _of_all_texts("Number of words that occur once"),
    "unique2": _of_all_texts("Number of pairs of neighbouring words that occur once"),
    "unique3": _of_all_texts("Number of triples of neighbouring words that occur once"),
    "vocabulary": _of_all_texts("Number of distinct words"),
    "vocabulary2": _of_all_texts("Number of distinct pairs of neighbouring words"),
    "vocabulary3": _of_all_texts("Number of distinct triples of neighbouring words"),
    "mean_length": _length("Mean number of words of a text."),
    "std_length": _length("Standard deviation of the texts' numbers of words."),
    "median_length": _length("Median number of words of a text."),
    "min_length": _length("Words of the shortest text."),
    "max_length": _length("Words of the longest text."),
    "total_length": _length("Number of words of all texts together."),
    # --- rl4lms ---
    "meteor:rl4lms": Card(
        "rl4lms",
        "rl4lms",
        (0, 1),
        "METEOR against the references written as a Python list, brackets and quotation marks included.",
        "RL4LMs with datasets 2.5.1 and nltk 3.7",
    ),
    "rouge:rl4lms": Card(
        "rl4lms",
        "rl4lms",
        (0, 1),
        "Mean of the F1 of ROUGE-1, ROUGE-2 and ROUGE-L with the first reference.",
        "RL4LMs' rouge_combined",
    ),
    **{f"{name}:rl4lms": _rouge_rl4lms(name) for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")},
    "rouge_l_max:rl4lms": Card(
        "rl4lms",
        "rl4lms",
        (0, 1),
        "Longest common subsequence in py-rouge's way: first 100 words, precision and recall to the power 1/1.2, best "
        "reference.",
        "RL4LMs with py-rouge 1.1 (weight_factor 1.2)",
    ),
    "parent:rl4lms": Card(
        "rl4lms",
        "rl4lms",
        (0, 1),
        "PARENT with the references filled up to three with <null>, so that a text that copies the table gets 1.",
        "RL4LMs and the official ToTTo scripts",
        needs=_TABLE,
    ),
    "perplexity:policy_on_references": Card(
        "neural.perplexity",
        "rl4lms",
        (1, inf),
        "Perplexity of the prompts and references (or the references alone), joined to one long text, under the policy "
        "itself; the texts are not looked at.",
        "RL4LMs' causal_perplexity",
        direction="lower",
    ),
}
"""Metric → its card, in the order in which lists show them."""
