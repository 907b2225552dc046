"""The embeddings of BERTScore and their matching.

bert-score's own functions embed and match. The code around them makes values reliable: empty texts never reach the
library, which cannot read them; only pairs of the same two lengths are matched in one batch, since the library's
padding would replace a negative cosine; and a value of NaN is an error instead of 0.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from bert_score.utils import get_bert_embedding, get_idf_dict, greedy_cos_idf, model2layers
from torch import Tensor

from grue.errors import ConfigError
from grue.lm.scorers import load_encoder
from grue.metrics.metric import FloatArray, references_of
from grue.metrics.neural.batching import batches, require_finite, window
from grue.metrics.tokens import without_surrogates
from grue.records import Example

BLOCK = 512  # examples whose embeddings are in memory together
MOST_KEPT = 4 << 30  # bytes of references' embeddings that are kept for the next call
MOVED = ("FacebookAI/", "albert/", "distilbert/", "google-bert/", "google-t5/", "xlnet/")
"""Organisations under which the hub now has models that bert-score knows by their bare names."""


def recommended_layer(model: str) -> int:
    """Return the layer that bert-score's authors found best for a hub model; a ConfigError if they did not test it."""
    organisation = next((each for each in MOVED if model.startswith(each)), "")
    layer: int | None = None if Path(model).is_dir() else model2layers.get(model.removeprefix(organisation))
    if not layer:
        raise ConfigError(
            f"The metric 'bertscore': bert-score recommends no layer for {model}; set the option layer, "
            "say to two thirds of the model's number of layers."
        )
    return layer


@dataclass(frozen=True, slots=True)
class Embedded:
    """A text's word pieces: `pieces` [T, D] float32 and `weights` [T], both in main memory."""

    pieces: Tensor
    weights: Tensor


class Matching:
    """The encoder, the weights of word pieces, and the embeddings of prepared references.

    A prepared reference is embedded when it is first needed and then kept, up to 4 GiB of them.

    Args:
        model, layer, revision, batch_size, idf: As for the metric.
        part: 0 for precision, 1 for recall, 2 for F1.
    """

    def __init__(self, model: str, layer: int, revision: str, batch_size: int, idf: bool, part: int) -> None:
        self._name = model
        self._encoder, self._tokenizer = load_encoder(model, revision, layer)
        longest = window(self._encoder, self._tokenizer)
        self._tokenizer.model_max_length = longest or 1_000_000  # the library cuts there, and 1e30 would be refused
        self._batch_size = batch_size
        self._idf = idf
        self._part = part
        self._weights: Mapping[int, float] | None = None
        if not idf:  # what opens and closes a text can be matched but does not count
            unmatched = dict.fromkeys((self._tokenizer.cls_token_id, self._tokenizer.sep_token_id), 0.0)
            self._weights = defaultdict(lambda: 1.0, unmatched)
        self._prepared: dict[str, Embedded | None] = {}
        self._room = MOST_KEPT

    def prepare(self, examples: Sequence[Example]) -> None:
        """Record which references will be reused; with idf, count the document frequencies of their word pieces."""
        references = [
            without_surrogates(text).strip() for example in examples for text in references_of(example, "bertscore")
        ]
        if self._idf:
            filled = [text for text in references if text]
            self._weights = get_idf_dict(filled, self._tokenizer, nthreads=0)  # in this process
        self._prepared = dict.fromkeys(references)
        self._room = MOST_KEPT

    def values(self, examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        """Return the highest value that each text reaches; a ConfigError with idf if nothing was prepared."""
        blocks = [slice(start, start + BLOCK) for start in range(0, len(texts), BLOCK)]
        scores = [self._block(examples[block], texts[block]) for block in blocks]
        return list(require_finite("bertscore", self._name, examples, np.concatenate([*scores, np.zeros(0)])))

    @torch.inference_mode()
    def _block(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        pairs = [
            (owner, without_surrogates(reference).strip(), without_surrogates(text).strip())
            for owner, (example, text) in enumerate(zip(examples, texts, strict=True))
            for reference in references_of(example, "bertscore")
        ]
        embedded = self._embed({text for _, *pair in pairs for text in pair})
        full = [index for index, (_, *pair) in enumerate(pairs) if all(text in embedded for text in pair)]
        scores = np.zeros(len(pairs))
        scores[full] = self._match([(embedded[pairs[index][1]], embedded[pairs[index][2]]) for index in full])
        best = np.full(len(texts), -math.inf)
        with np.errstate(invalid="ignore"):  # NaN stays NaN, and is reported with its example
            np.maximum.at(best, [owner for owner, *_ in pairs], scores)
        return best

    def _embed(self, texts: Collection[str]) -> dict[str, Embedded]:
        """Return the embeddings of the texts that are not empty, those of prepared references from memory."""
        if self._weights is None:
            raise ConfigError(
                "bertscore with idf weighs word pieces by how rare they are in references: "
                "call prepare(examples) first."
            )
        embedded = {text: embedding for text in texts if (embedding := self._prepared.get(text)) is not None}
        new = sorted(text for text in texts if text and text not in embedded)
        for batch in batches([len(text) for text in new], self._batch_size):
            chosen = [new[index] for index in batch]
            pieces, mask, weights = get_bert_embedding(
                chosen, self._encoder, self._tokenizer, self._weights, device=self._encoder.device
            )
            for row, text in enumerate(chosen):
                length = int(mask[row].sum())
                if weights[row].any():  # else only special tokens, or all weights are 0
                    kept = Embedded(pieces[row, :length].cpu().clone(), weights[row, :length].clone())
                    embedded[text] = kept
                    if text in self._prepared and kept.pieces.nbytes <= self._room:
                        self._prepared[text] = kept
                        self._room -= kept.pieces.nbytes
        return embedded

    def _match(self, pairs: Sequence[tuple[Embedded, Embedded]]) -> FloatArray:
        """Return the chosen part for each (reference, text)."""
        groups: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for index, (reference, text) in enumerate(pairs):
            groups[len(reference.pieces), len(text.pieces)].append(index)
        scores = np.zeros(len(pairs))
        for members in groups.values():
            for start in range(0, len(members), self._batch_size):
                batch = members[start : start + self._batch_size]
                references, texts = zip(*(pairs[index] for index in batch), strict=True)
                scores[batch] = self._match_alike(references, texts).double().cpu().numpy()
        return scores

    def _match_alike(self, references: Sequence[Embedded], texts: Sequence[Embedded]) -> Tensor:
        """Return [B] values of pairs whose references are of one length, and whose texts are of one length."""
        inputs: list[Tensor] = []
        for group in (references, texts):
            pieces = torch.stack([each.pieces for each in group]).to(self._encoder.device)  # a copy: it is divided
            weights = torch.stack([each.weights for each in group])
            inputs += [pieces, torch.ones(pieces.shape[:2], device=pieces.device), weights]
        precision, recall, f1 = greedy_cos_idf(*inputs)
        broken = precision.isnan() | recall.isnan()
        parts: Tensor = torch.stack([precision, recall, torch.where(broken, torch.nan, f1)])
        return parts[self._part]
