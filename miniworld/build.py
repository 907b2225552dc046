"""Training the small models of the mini suite from nothing: the tokenizers, then each model of `RECIPES`.

The same seeds, library versions and number of threads give the same bytes. Another machine gives other last bits, so
scores are only comparable under the weights that ship.
"""

import platform
import random
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from grue import files
from grue.errors import ConfigError
from grue.lm.load import load_language_model
from grue.mini.manifest import SmallModel
from miniworld import growing, pretrain, reading, scorers, writers
from miniworld.reading import Course
from miniworld.recipes import (
    CLASS,
    EOS,
    LONGEST,
    LONGEST_JUDGED,
    MARKS,
    MASK,
    PAD,
    RECIPES,
    SENTINELS,
    UNKNOWN,
    VOCABULARIES,
    Lesson,
    Recipe,
    Vocabulary,
)
from miniworld.ship import record, recorded

JUDGES = ("classifier", "encoder")


@dataclass(frozen=True, slots=True)
class Teaching:
    """How a lesson is taught: the batches to train on, the figures of the result, and the loss."""

    batches: Callable[[Recipe, PreTrainedTokenizerFast, random.Random], list[pretrain.Batch]]
    figures: Callable[[Recipe, PreTrainedTokenizerFast, PreTrainedModel], dict[str, float]]
    loss: pretrain.Loss = pretrain.own_loss


LESSONS: dict[Lesson, Teaching] = {
    "continue": Teaching(writers.continuations, writers.continuation_figures),
    "restore": Teaching(writers.restorations, writers.restoration_figures),
    "reviews": Teaching(scorers.review_batches, scorers.review_figures),
    "acts": Teaching(scorers.act_batches, scorers.act_figures),
    "claims": Teaching(scorers.claim_batches, scorers.claim_figures, pretrain.comparing_loss),
    "likenesses": Teaching(scorers.likeness_batches, scorers.likeness_figures, pretrain.comparing_loss),
    "encode": Teaching(scorers.encoder_batches, scorers.encoder_figures, pretrain.encoding_loss),
}


def build(folder: Path, log: Callable[[str], None], only: Collection[str] = ()) -> None:
    """Train the small models and write them and their manifest.

    Args:
        folder: Where to write: `models/<name>` and `manifest.json`.
        log: Takes one line of progress at a time.
        only: The models to train; none means all. The manifest's other entries stay as they are.
    """
    reading.keep_memory()
    made = dict(recorded(folder).models) if only else {}
    trained: dict[str, Any] = {}
    for name in only or RECIPES:
        vocabulary = RECIPES[name].vocabulary
        if vocabulary not in trained:
            log(f"tokenizer: {VOCABULARIES[vocabulary].size} tokens, {vocabulary}")
            trained[vocabulary] = _train_tokenizer(VOCABULARIES[vocabulary])
        made[name] = _make(RECIPES[name], trained[vocabulary], folder / "models" / name, log)
        record(folder, models=made)


def _make(recipe: Recipe, tokenizer: Any, folder: Path, tell: Callable[[str], None]) -> SmallModel:
    def log(line: str) -> None:
        tell(f"{folder.name}: {line}")

    wrapped = _wrap(tokenizer, recipe)
    state = folder.parent.parent / "unfinished" / f"{folder.name}.pt"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = _new_model(recipe, wrapped)
        if recipe.grown_from:
            growing.grow(_loaded(recipe.grown_from, folder.parent, wrapped), model)
        log(f"{pretrain.parameter_count(model)} parameters")
        seconds = _teach(model, recipe, wrapped, state, log)
    pretrain.round_to_half(model)
    held_out = LESSONS[recipe.lesson].figures(recipe, wrapped, model)
    log(", ".join(f"{figure} {value:.4g}" for figure, value in held_out.items()))
    parameters = pretrain.parameter_count(model)
    _save(model, wrapped, folder)
    state.unlink(missing_ok=True)
    return SmallModel(
        description=recipe.description,
        family=recipe.family,
        architecture=recipe.architecture,
        parameters=parameters,
        training=recipe.training[0],
        besides=recipe.training[1:],
        seed=recipe.seed,
        chapters=recipe.chapters,
        held_out={figure: round(value, 4) for figure, value in held_out.items()},
        made_with=_made_with(),
        licence="Apache-2.0",
        files={path.name: files.sha256_file(path) for path in sorted(folder.iterdir())},
        ships=recipe.ships,
        grown_from=recipe.grown_from,
        minutes=round(seconds / 60, 1),
    )


def _loaded(name: str, folder: Path, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Return a model that was made before, which another grows from.

    Raises:
        ConfigError: It is not there, or has another tokenizer.
    """
    path = folder / name
    if not path.is_dir():
        raise ConfigError(f"{folder} has no {name}, from which this model grows. Make it first: --only {name}.")
    model, its = load_language_model("causal" if RECIPES[name].family == "causal" else "seq2seq", str(path))
    if its.get_vocab() != tokenizer.get_vocab():
        raise ConfigError(f"The tokenizer of {path} is not that of today's recipe. Make it again: --only {name}.")
    return model


def _teach(
    model: PreTrainedModel, recipe: Recipe, tokenizer: PreTrainedTokenizerFast, state: Path, log: Callable[[str], None]
) -> float:
    """Train a model in place and return the seconds it took; one that reads in chapters continues a saved state."""
    lesson = LESSONS[recipe.lesson]
    if recipe.chapters > 1:

        def chapter(number: int) -> Sequence[pretrain.Batch]:
            part = writers.part(recipe, number)
            return lesson.batches(part, tokenizer, random.Random(part.seed))

        identity = files.sha256_json([recipe, tokenizer.get_vocab()])
        course = Course(chapter, recipe.chapters, recipe.rate, recipe.boosts, identity)
        return reading.read(model, course, state, log)
    started = time.monotonic()
    batches = lesson.batches(recipe, tokenizer, random.Random(recipe.seed))
    log(f"{len(batches)} steps")
    pretrain.fit(model, batches, recipe.rate, recipe.boosts, log, lesson.loss)
    return time.monotonic() - started


def _save(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _name_for_every_version(folder / "tokenizer_config.json")
    _compact(folder / "tokenizer.json")
    for path in folder.iterdir():
        path.chmod(0o644)  # weights are written for their owner alone


def _name_for_every_version(path: Path) -> None:
    """Name the tokenizer class that transformers 4 and 5 both know; 5 writes a name that 4 does not."""
    config = {**files.read_json(path), "tokenizer_class": "PreTrainedTokenizerFast"}
    config.pop("backend", None)
    files.write_json(path, config)


def _compact(path: Path) -> None:
    """Rewrite a JSON file without the line breaks and indents that are half of its size."""
    files.write_text(path, files.canonical_json(files.read_json(path)) + "\n")


def _made_with() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "threads": str(torch.get_num_threads()),
    }


# --- tokenizers ------------------------------------------------------------------------------------------------------


def _train_tokenizer(vocabulary: Vocabulary) -> Any:
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary.size,
        special_tokens=[PAD, EOS, UNKNOWN, CLASS, *SENTINELS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for data in vocabulary.training for text in writers.drawn(data)], trainer)
    tokenizer.add_tokens([AddedToken(mark, lstrip=True, normalized=False) for mark in MARKS])
    return tokenizer


def _wrap(tokenizer: Any, recipe: Recipe) -> PreTrainedTokenizerFast:
    """Add the special tokens that a model expects to a shared tokenizer.

    None for a causal model, a final `<eos>` for an encoder-decoder, a leading `<cls>` for a classifier; for pairs of
    texts and for encoders, `<eos>` also separates and ends.
    """
    parted = recipe.lesson in ("claims", "likenesses", "encode")
    judged = f"{CLASS} $A {EOS}" if parted else f"{CLASS} $A"
    template = {"causal": "$A", "seq2seq": f"$A {EOS}"}.get(recipe.family, judged)
    ends = [(token, tokenizer.token_to_id(token)) for token in (EOS, CLASS) if token in template]
    own = Tokenizer.from_str(tokenizer.to_str())
    pair = {"pair": f"{template} $B:1 {EOS}:1"} if parted else {}
    own.post_processor = processors.TemplateProcessing(single=template, **pair, special_tokens=ends)
    marks = {"sep_token": EOS, "mask_token": MASK} if parted else {}
    make: Any = PreTrainedTokenizerFast
    wrapped: PreTrainedTokenizerFast = make(
        tokenizer_object=own,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        cls_token=CLASS,
        **marks,
        model_max_length=LONGEST_JUDGED if recipe.family in JUDGES else LONGEST,
        padding_side="left" if recipe.family == "causal" else "right",
        truncation_side="left" if recipe.family == "classifier" and not parted else "right",
        clean_up_tokenization_spaces=False,
    )
    return wrapped


# --- architectures ---------------------------------------------------------------------------------------------------


def _new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    common: dict[str, Any] = {"vocab_size": len(tokenizer), "pad_token_id": pad, "eos_token_id": eos}
    if recipe.architecture == "GPT2LMHeadModel":
        # relu: on a CPU the usual gelu costs a third of the time
        off: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        gpt2 = transformers.GPT2Config(**recipe.shape, **common, **off, activation_function="relu", bos_token_id=eos)
        return transformers.GPT2LMHeadModel(gpt2)
    if recipe.architecture == "T5ForConditionalGeneration":
        common["decoder_start_token_id"] = pad
        t5 = transformers.T5Config(**recipe.shape, **common, dropout_rate=0.0)
        return transformers.T5ForConditionalGeneration(t5)
    common |= _heads(recipe)
    if recipe.architecture == "BertForSequenceClassification":
        still: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        pairs = transformers.BertConfig(
            **recipe.shape, **common, **still, hidden_act="relu", max_position_embeddings=LONGEST_JUDGED
        )
        return transformers.BertForSequenceClassification(pairs)
    common["cls_token_id"] = common["bos_token_id"] = tokenizer.cls_token_id
    bert = transformers.ModernBertConfig(
        **recipe.shape,
        **common,
        sep_token_id=eos,
        max_position_embeddings=LONGEST_JUDGED,
        classifier_pooling="mean",  # the first token alone learns nothing from scratch
    )
    architecture: Any = getattr(transformers, recipe.architecture)
    model: PreTrainedModel = architecture(bert)
    return model


def _heads(recipe: Recipe) -> dict[str, Any]:
    """Return the labels of a classifier's configuration: their names, or that it is a regression."""
    if recipe.family != "classifier":
        return {}
    if not recipe.labels:
        return {"num_labels": 1, "problem_type": "regression"}
    return {
        "id2label": dict(enumerate(recipe.labels)),
        "label2id": {label: index for index, label in enumerate(recipe.labels)},
    }
