"""Making the small models of the mini suite again from nothing: one tokenizer, then each model of `RECIPES`.

The same seeds, library versions and number of threads give the same bytes. Another machine gives other last bits, so
scores are only comparable under the weights that ship.
"""

from __future__ import annotations

import platform
import random
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from grue import files
from grue.errors import UnknownName, did_you_mean
from grue.mini import pretrain
from grue.mini.assets import MANIFEST, SCHEMA, Asset, Manifest, TrainingData, read_manifest, write_manifest
from grue.mini.text import paragraphs, reviews

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WORLD = "1"
HELD_OUT_SEED = 9001
HELD_OUT = 1500  # paragraphs differ much, from 1 to 3 nats a token

VOCABULARY = 4096
PAD, EOS, UNKNOWN, CLASS = "<pad>", "<eos>", "<unk>", "<cls>"
SENTINELS = tuple(f"<extra_id_{i}>" for i in range(32))
TOKENIZER_DATA = TrainingData("paragraphs", WORLD, seed=1000, count=16_000)

LONGEST = 256  # positions of the causal models
LONGEST_REVIEW = 128  # positions of the classifier


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one model is made.

    Attributes:
        architecture: Name of the model class in transformers.
        shape: Sizes, as that class's configuration calls them.
        training: The world text it reads once.
        rate: Peak learning rate.
        tokens: Padded tokens a batch, source and target together.
        boosts: Parameter name, or a part of it → multiple of the rate it learns at, without weight decay.
    """

    description: str
    family: Literal["causal", "seq2seq", "classifier"]
    architecture: str
    shape: dict[str, Any]
    training: TrainingData
    seed: int
    rate: float
    tokens: int
    boosts: Mapping[str, float] = field(default_factory=dict)


RECIPES = {
    "causal": Recipe(
        description="Backbone for continuation: a language model of the world's plain text.",
        family="causal",
        architecture="GPT2LMHeadModel",
        shape={"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": LONGEST},
        training=TrainingData("paragraphs", WORLD, seed=1001, count=24_000),
        seed=1,
        rate=3e-3,
        tokens=768,
    ),
    "seq2seq": Recipe(
        description="Backbone for text to text: an encoder-decoder that restores the world's plain text from parts.",
        family="seq2seq",
        architecture="T5ForConditionalGeneration",
        shape={"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4},
        training=TrainingData("paragraphs", WORLD, seed=1002, count=28_000),
        seed=2,
        rate=2e-3,
        tokens=1024,
        # T5 starts its embeddings fifty times larger than GPT-2 and learns where to look from the bias alone
        boosts={"shared": 6.0, "relative_attention_bias": 15.0},
    ),
    "perplexity": Recipe(
        description="Scorer of fluency: a language model that shares neither text, seed nor shape with the backbone.",
        family="causal",
        architecture="GPT2LMHeadModel",
        shape={"n_embd": 112, "n_layer": 3, "n_head": 4, "n_positions": LONGEST},
        training=TrainingData("paragraphs", WORLD, seed=1003, count=24_000),
        seed=3,
        rate=3e-3,
        tokens=768,
    ),
    "sentiment": Recipe(
        description="Scorer of sentiment: label 1 for a positive film review, trained on whole reviews and on parts.",
        family="classifier",
        architecture="ModernBertForSequenceClassification",
        shape={"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
        training=TrainingData("reviews", WORLD, seed=1004, count=60_000),
        seed=4,
        rate=2e-3,
        tokens=1024,
    ),
}


def build(out: Path, log: Callable[[str], None], only: Sequence[str] | None = None) -> None:
    """Make the small models in `out`, one folder each, and their manifest.

    Args:
        out: Folder to write into.
        log: Takes one line of progress at a time.
        only: The models to make; None means all. Others that the manifest of `out` lists stay as they are.

    Raises:
        UnknownName: `only` names a model that has no recipe.
    """
    for name in only or ():
        if name not in RECIPES:
            close = did_you_mean(name, RECIPES)
            raise UnknownName(f"There is no recipe for a small model {name!r}.{close} Known: {', '.join(RECIPES)}.")
    made = dict(read_manifest(out).assets) if only and (out / MANIFEST).exists() else {}
    log(f"tokenizer: {VOCABULARY} tokens from {TOKENIZER_DATA.count} paragraphs")
    tokenizer = _train_tokenizer(paragraphs(TOKENIZER_DATA.count, TOKENIZER_DATA.seed, WORLD))
    for name in only or RECIPES:
        made[name] = _make(RECIPES[name], tokenizer, out / name, log)
        write_manifest(out, Manifest(SCHEMA, made))


def _make(recipe: Recipe, tokenizer: Any, folder: Path, tell: Callable[[str], None]) -> Asset:
    import torch

    def log(line: str) -> None:
        tell(f"{folder.name}: {line}")

    wrapped = _wrap(tokenizer, recipe)
    rng = random.Random(recipe.seed)
    batches = _BATCHES[recipe.family](recipe, wrapped, recipe.training, rng)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = _new_model(recipe, wrapped)
        log(f"{pretrain.parameter_count(model)} parameters, {len(batches)} steps")
        pretrain.fit(model, batches, recipe.rate, recipe.boosts, log)
    pretrain.round_to_half(model)
    held_out = _FIGURES[recipe.family](recipe, wrapped, model)
    log(", ".join(f"{figure} {value:.4g}" for figure, value in held_out.items()))
    _save(model, wrapped, folder)
    return Asset(
        description=recipe.description,
        family=recipe.family,
        architecture=recipe.architecture,
        parameters=pretrain.parameter_count(model),
        training=recipe.training,
        seed=recipe.seed,
        steps=len(batches),
        held_out={figure: round(value, 4) for figure, value in held_out.items()},
        made_with=_made_with(),
        licence="Apache-2.0",
        files={path.name: files.sha256_file(path) for path in sorted(folder.iterdir())},
    )


def _save(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _name_for_every_version(folder / "tokenizer_config.json")
    for path in folder.iterdir():
        path.chmod(0o644)  # weights are written for their owner alone


def _name_for_every_version(path: Path) -> None:
    """Call the tokenizer's class as transformers 4 and 5 both know it; 5 writes a name that 4 does not."""
    config = {**files.read_json(path), "tokenizer_class": "PreTrainedTokenizerFast"}
    config.pop("backend", None)
    files.write_json(path, config)


def _made_with() -> dict[str, str]:
    import tokenizers
    import torch
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "threads": str(torch.get_num_threads()),
    }


# --- tokenizer -------------------------------------------------------------------------------------------------------


def _train_tokenizer(texts: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, EOS, UNKNOWN, CLASS, *SENTINELS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _wrap(tokenizer: Any, recipe: Recipe) -> PreTrainedTokenizerFast:
    """Give the shared tokenizer the ends that a family expects: none, a final `<eos>`, or a leading `<cls>`."""
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast

    template = {"causal": "$A", "seq2seq": f"$A {EOS}", "classifier": f"{CLASS} $A"}[recipe.family]
    ends = [(token, tokenizer.token_to_id(token)) for token in (EOS, CLASS) if token in template]
    own = Tokenizer.from_str(tokenizer.to_str())
    own.post_processor = processors.TemplateProcessing(single=template, special_tokens=ends)
    make: Any = PreTrainedTokenizerFast
    wrapped: PreTrainedTokenizerFast = make(
        tokenizer_object=own,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        cls_token=CLASS,
        model_max_length=LONGEST_REVIEW if recipe.family == "classifier" else LONGEST,
        padding_side="left" if recipe.family == "causal" else "right",
        truncation_side="left" if recipe.family == "classifier" else "right",
        clean_up_tokenization_spaces=False,
    )
    return wrapped


def _new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    import transformers as library

    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    common: dict[str, Any] = {"vocab_size": len(tokenizer), "pad_token_id": pad, "eos_token_id": eos}
    if recipe.architecture == "GPT2LMHeadModel":
        # relu: on a CPU the usual gelu costs a third of the time
        off: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        gpt2 = library.GPT2Config(**recipe.shape, **common, **off, activation_function="relu", bos_token_id=eos)
        return library.GPT2LMHeadModel(gpt2)
    if recipe.architecture == "T5ForConditionalGeneration":
        common["decoder_start_token_id"] = pad
        t5 = library.T5Config(**recipe.shape, **common, dropout_rate=0.0)
        return library.T5ForConditionalGeneration(t5)
    labels: dict[str, Any] = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
    common["cls_token_id"] = common["bos_token_id"] = tokenizer.cls_token_id
    bert = library.ModernBertConfig(
        **recipe.shape,
        **common,
        **labels,
        sep_token_id=eos,
        max_position_embeddings=LONGEST_REVIEW,
        classifier_pooling="mean",  # the first token alone learns nothing from scratch
    )
    return library.ModernBertForSequenceClassification(bert)


# --- batches and figures, by family ----------------------------------------------------------------------------------


def _ids(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[list[int]]:
    return [list(row) for row in tokenizer(list(texts), add_special_tokens=False).input_ids]


def _causal_batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, data: TrainingData, rng: random.Random
) -> list[Any]:
    texts = _ids(tokenizer, paragraphs(data.count, data.seed, data.revision))
    rows = pretrain.causal_rows(texts, tokenizer.eos_token_id, LONGEST, rng)
    groups = pretrain.buckets([len(row) for row in rows], recipe.tokens, rng)
    return [pretrain.causal_batch([rows[i] for i in group]) for group in groups]


def _causal_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    texts = _ids(tokenizer, paragraphs(HELD_OUT, HELD_OUT_SEED, recipe.training.revision))
    rows = [[*text, tokenizer.eos_token_id] for text in texts]
    groups = pretrain.buckets([len(row) for row in rows], recipe.tokens, random.Random(0))
    batches = [pretrain.causal_batch([rows[i] for i in group]) for group in groups]
    perplexity, accuracy = pretrain.token_figures(model, batches)
    return {"perplexity": perplexity, "next_token_accuracy": accuracy}


def _windows(texts: Sequence[str], rng: random.Random) -> list[str]:
    """Cut paragraphs into runs of one to three sentences, so that the decoder learns where sentences begin and end."""
    windows: list[str] = []
    for text in texts:
        sentences = re.split(r"(?<=[.!?]) ", text)
        while sentences:
            taken = rng.randint(1, 3)
            windows.append(" ".join(sentences[:taken]))
            sentences = sentences[taken:]
    return windows


# (share of tokens hidden, mean length of a span)
NOISE = ((0.3, 3.0), (0.7, 2.0), (0.7, 4.0))


def _pairs(
    tokenizer: PreTrainedTokenizerFast, data: TrainingData, noise: Sequence[tuple[float, float]], rng: random.Random
) -> list[pretrain.Pair]:
    """Pair each window, T5's sentinels in place of its hidden spans, with the whole of it.

    The target is the text and not only what is hidden, because a model this small would otherwise hardly learn to
    write sentences, nor to take over words that it is given.
    """
    sentinels = [int(tokenizer.vocab[sentinel]) for sentinel in SENTINELS]
    pairs = []
    for row in _ids(tokenizer, _windows(paragraphs(data.count, data.seed, data.revision), rng)):
        density, mean = noise[int(rng.random() * len(noise))]
        hidden = pretrain.spans(len(row), density, mean, len(SENTINELS), rng)
        source = pretrain.corrupt(row, hidden, sentinels)
        pairs.append(([*source, tokenizer.eos_token_id], [*row, tokenizer.eos_token_id]))
    return pairs


def _seq2seq_batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, data: TrainingData, rng: random.Random
) -> list[Any]:
    pairs = _pairs(tokenizer, data, NOISE, rng)
    groups = pretrain.buckets([len(source) + len(target) for source, target in pairs], recipe.tokens, rng)
    return [pretrain.seq2seq_batch([pairs[i] for i in group]) for group in groups]


def _seq2seq_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    data = replace(recipe.training, seed=HELD_OUT_SEED, count=HELD_OUT)
    figures = {}
    for density, mean in NOISE[:2]:
        pairs = _pairs(tokenizer, data, [(density, mean)], random.Random(0))
        batches = [pretrain.seq2seq_batch(pairs[i : i + 16]) for i in range(0, len(pairs), 16)]
        perplexity, accuracy = pretrain.token_figures(model, batches)
        figures[f"perplexity_hidden_{density:.0%}"] = perplexity
        figures[f"next_token_accuracy_hidden_{density:.0%}"] = accuracy
    return figures


def _partial(text: str, rng: random.Random) -> str:
    """Keep the whole review, its beginning, or a stretch of it: what a scorer of continuations meets."""
    words = text.split(" ")
    kind = rng.random()
    if kind < 0.4:
        return text
    end = rng.randint(min(8, len(words)), len(words))
    start = 0 if kind < 0.8 else rng.randint(0, max(end - 8, 0))
    return " ".join(words[start:end])


def _classifier_batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, data: TrainingData, rng: random.Random
) -> list[Any]:
    labelled = reviews(data.count, data.seed, data.revision)
    return _labelled_batches(recipe, tokenizer, [(_partial(text, rng), label) for text, label in labelled], rng)


def _labelled_batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, labelled: Sequence[tuple[str, int]], rng: random.Random
) -> list[Any]:
    rows = tokenizer([text for text, _ in labelled], truncation=True).input_ids
    groups = pretrain.buckets([len(row) for row in rows], recipe.tokens, rng)
    return [pretrain.classifier_batch([rows[i] for i in group], [labelled[i][1] for i in group]) for group in groups]


def _classifier_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    rng = random.Random(0)
    whole = reviews(2 * HELD_OUT, HELD_OUT_SEED, recipe.training.revision)
    halves = [(" ".join(text.split(" ")[: len(text.split(" ")) // 2]), label) for text, label in whole]
    accuracy, error = pretrain.class_figures(model, _labelled_batches(recipe, tokenizer, whole, rng))
    half_accuracy, half_error = pretrain.class_figures(model, _labelled_batches(recipe, tokenizer, halves, rng))
    return {
        "accuracy": accuracy,
        "calibration_error": error,
        "accuracy_first_half": half_accuracy,
        "calibration_error_first_half": half_error,
    }


_BATCHES = {"causal": _causal_batches, "seq2seq": _seq2seq_batches, "classifier": _classifier_batches}
_FIGURES = {"causal": _causal_figures, "seq2seq": _seq2seq_figures, "classifier": _classifier_figures}
