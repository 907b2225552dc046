"""The recipes of the small models: architecture, training text and settings of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from grue.mini.manifest import Family, TrainingData
from miniworld.world import REVISION

HELD_OUT_SEED = 9001
HELD_OUT = 1500  # paragraphs differ much, from 1 to 3 nats a token

PAD, EOS, UNKNOWN, CLASS = "<pad>", "<eos>", "<unk>", "<cls>"
SENTINELS = tuple(f"<extra_id_{i}>" for i in range(32))
MASK = SENTINELS[0]
TABLE_PARTS = ("page_title", "section_title", "table", "cell", "col_header", "row_header")
MARKS = (*(f"[{slash}{part}]" for part in TABLE_PARTS for slash in ("", "/")), "<EOU>")
"""Marks in prompts, one token each; otherwise a table would have three times as many."""

LONGEST = 256  # positions of the models that write
LONGEST_JUDGED = 128  # positions of the models that judge
PROMPT = "translate English to German: "

Lesson = Literal["continue", "restore", "reviews", "acts", "claims", "likenesses", "encode"]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How a tokenizer is trained: byte-level BPE of `size` tokens on these texts."""

    size: int
    training: tuple[TrainingData, ...]


VOCABULARIES = {
    "english": Vocabulary(4608, (TrainingData("paragraphs", REVISION, seed=1000, count=16_000),)),
    "bilingual": Vocabulary(
        5000,
        (
            TrainingData("paragraphs", REVISION, seed=1010, count=8_000),
            TrainingData("german", REVISION, seed=1011, count=8_000),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one model is trained.

    Attributes:
        architecture: Name of the model class in transformers.
        shape: Sizes, as that class's configuration calls them.
        lesson: What the model learns to do.
        training: Its training text, read once; several are mixed.
        rate: Peak learning rate.
        tokens: Padded tokens a batch, source and target together.
        vocabulary: Which tokenizer.
        labels: Names of a classifier's labels, in the order of their indices; none for a regression.
        boosts: Parameter name, or a part of it → multiple of the rate it learns at, without weight decay.
        chapters: In how many parts a model that writes reads its text: part n is drawn from 1000·seed + n.
        ships: Whether it is part of the package.
        grown_from: The smaller model whose computation it begins with; none begins at random.
    """

    description: str
    family: Family
    architecture: str
    shape: dict[str, Any]
    lesson: Lesson
    training: tuple[TrainingData, ...]
    seed: int
    rate: float
    tokens: int
    vocabulary: Literal["english", "bilingual"] = "english"
    labels: tuple[str, ...] = ()
    boosts: Mapping[str, float] = field(default_factory=dict)
    chapters: int = 1
    ships: bool = True
    grown_from: str = ""


# T5 initialises its embeddings fifty times larger than GPT-2 and knows positions from the bias alone
T5_BOOSTS = {"shared": 6.0, "relative_attention_bias": 15.0}

T5_SMALL = {"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4}

SMALL_WRITERS = {
    "causal": Recipe(
        description="Backbone for continuation: a language model of the world's plain text.",
        family="causal",
        architecture="GPT2LMHeadModel",
        shape={"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": LONGEST},
        lesson="continue",
        training=(TrainingData("paragraphs", REVISION, seed=1001, count=600_000),),
        seed=1,
        rate=3e-3,
        tokens=4096,
        chapters=20,
    ),
    "seq2seq": Recipe(
        description="Backbone for text to text: an encoder-decoder that restores the world's plain text from parts.",
        family="seq2seq",
        architecture="T5ForConditionalGeneration",
        shape=T5_SMALL,
        lesson="restore",
        training=(TrainingData("paragraphs", REVISION, seed=1002, count=512_000),),
        seed=2,
        rate=2e-3,
        tokens=4096,
        boosts=T5_BOOSTS,
        chapters=16,
    ),
    "translator": Recipe(
        description="Backbone for translation: an encoder-decoder that restores English and German text and has seen "
        "some translations.",
        family="seq2seq",
        architecture="T5ForConditionalGeneration",
        shape=T5_SMALL,
        lesson="restore",
        training=(
            TrainingData("paragraphs", REVISION, seed=1005, count=50_000),
            TrainingData("german", REVISION, seed=1006, count=100_000),
            TrainingData("translations", REVISION, seed=1007, count=80_000),
        ),
        seed=5,
        rate=2e-3,
        tokens=4096,
        vocabulary="bilingual",
        boosts=T5_BOOSTS,
        chapters=10,
    ),
    "perplexity": Recipe(
        description="Scorer of fluency: a language model that shares neither text, seed nor shape with the backbone.",
        family="causal",
        architecture="GPT2LMHeadModel",
        shape={"n_embd": 96, "n_layer": 3, "n_head": 4, "n_positions": LONGEST},
        lesson="continue",
        training=(TrainingData("paragraphs", REVISION, seed=1003, count=120_000),),
        seed=3,
        rate=3e-3,
        tokens=4096,
        chapters=4,
    ),
}

RESIZED: Mapping[str, Mapping[Family, dict[str, Any]]] = {
    "s": {
        "causal": {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": LONGEST},
        "seq2seq": T5_SMALL | {"d_model": 64, "d_kv": 16, "d_ff": 256},
    },
    "m": {
        "causal": {"n_embd": 256, "n_layer": 6, "n_head": 8, "n_positions": LONGEST},
        "seq2seq": {"d_model": 256, "d_kv": 32, "d_ff": 1024, "num_layers": 3, "num_decoder_layers": 3, "num_heads": 8},
    },
}
"""The shapes of other sizes: a third (beside the embeddings a quarter) and about four times the parameters."""


def _resized(name: str, size: Literal["s", "m"]) -> Recipe:
    """Return the recipe of a backbone of another size: the same lesson on an eighth of the text.

    `-m` grows from the model without a letter, and reads other text. `translator-s` reads all: an eighth does not teach
    it to translate.
    """
    recipe = SMALL_WRITERS[name]
    shape, description = RESIZED[size][recipe.family], f"{recipe.description} Size {size}."
    recipe = replace(recipe, description=description, shape=shape, ships=False)
    if name == "translator" and size == "s":
        return recipe
    further = 100 if size == "m" else 0
    training = tuple(replace(data, seed=data.seed + further, count=data.count // 8) for data in recipe.training)
    recipe = replace(recipe, training=training, chapters=recipe.chapters // 2)
    return recipe if size == "s" else replace(recipe, rate=recipe.rate / 4, grown_from=name)


BACKBONES = ("causal", "seq2seq", "translator")
WRITERS = SMALL_WRITERS | {f"{name}-{size}": _resized(name, size) for size in ("s", "m") for name in BACKBONES}

SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
# with the small initial weights of large models, attention would stay uniform for too long
MIDDLE = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "initializer_range": 0.1}
ENCODER = {**MIDDLE, "intermediate_size": 192}  # twice as much, gated
COMPARING = {**MIDDLE, "intermediate_size": 384}

JUDGES = {
    "sentiment": Recipe(
        description="Scorer of sentiment: label 1 for a positive film review, trained on whole reviews and on parts.",
        family="classifier",
        architecture="ModernBertForSequenceClassification",
        shape=SMALL,
        lesson="reviews",
        training=(TrainingData("reviews", REVISION, seed=1004, count=60_000),),
        seed=4,
        rate=2e-3,
        tokens=1024,
        labels=("negative", "positive"),
    ),
    "acts": Recipe(
        description="Scorer of dialogue acts: what the reply does, read after the utterance before it as one text.",
        family="classifier",
        architecture="ModernBertForSequenceClassification",
        shape=SMALL,
        lesson="acts",
        training=(TrainingData("acts", REVISION, seed=1012, count=60_000),),
        seed=6,
        rate=2e-3,
        tokens=1024,
        labels=("inform", "question", "directive", "commissive"),
    ),
    "entailment": Recipe(
        description="Scorer of entailment: whether a premise contradicts a hypothesis, leaves it open or entails it.",
        family="classifier",
        architecture="BertForSequenceClassification",
        shape=COMPARING,
        lesson="claims",
        training=(TrainingData("claims", REVISION, seed=1013, count=120_000),),
        seed=7,
        rate=2e-3,
        tokens=1536,
        labels=("contradiction", "neutral", "entailment"),
    ),
    "similarity": Recipe(
        description="Scorer of likeness in BLEURT's place: how far a candidate says what its reference says, 0 to 1.",
        family="classifier",
        architecture="BertForSequenceClassification",
        shape=COMPARING,
        lesson="likenesses",
        training=(TrainingData("likenesses", REVISION, seed=1014, count=120_000),),
        seed=8,
        rate=2e-3,
        tokens=1536,
    ),
    "encoder": Recipe(
        description="Encoder for BERTScore: it has filled gaps in the world's English text and told paraphrases from "
        "changed facts.",
        family="encoder",
        architecture="ModernBertForMaskedLM",
        shape=ENCODER,
        lesson="encode",
        training=(
            TrainingData("paragraphs", REVISION, seed=1015, count=16_000),
            TrainingData("contrasts", REVISION, seed=1017, count=24_000),
        ),
        seed=9,
        rate=3e-3,
        tokens=1024,
    ),
    "encoder-de": Recipe(
        description="Encoder for BERTScore in German: it has filled gaps in the world's German text and told "
        "paraphrases from changed facts.",
        family="encoder",
        architecture="ModernBertForMaskedLM",
        shape=ENCODER,
        lesson="encode",
        training=(
            TrainingData("german", REVISION, seed=1016, count=16_000),
            TrainingData("german_contrasts", REVISION, seed=1018, count=24_000),
        ),
        seed=10,
        rate=3e-3,
        tokens=1024,
        vocabulary="bilingual",
    ),
}

RECIPES = WRITERS | JUDGES
