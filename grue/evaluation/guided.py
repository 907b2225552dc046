"""Guided decoding: at every step the logits of a model are changed, and its weights stay as they are.

B = batch, T = response time, V = vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grue.errors import ConfigError
from grue.evaluation.best_of import Batch, Guides, Worth, draws, is_oracle, make_worth
from grue.evaluation.predict import Response, Spent, as_predictions, as_responses
from grue.lm import checkpoint
from grue.lm.constraints import end_ids, find_stops
from grue.lm.device import scoring_device
from grue.lm.forward import Steps, encode
from grue.lm.load import LoadedModel, family_of, load_language_model
from grue.lm.model import eos_id, is_seq2seq
from grue.lm.reward_folder import REWARD
from grue.lm.sampling import Begun, sample_responses
from grue.lm.seeds import derived_seed, example_uniforms
from grue.lm.tokens import Tokens
from grue.records import Example, Prediction
from grue.tasks import Generation, Task

SEPARATOR = ";"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a decoder is applied.

    Attributes:
        loaded: The model whose decoding is guided.
        examples: All that are to be answered; metrics are prepared on them.
        generation: How responses are drawn from the guided distribution.
    """

    loaded: LoadedModel
    task: Task
    examples: Sequence[Example]
    generation: Generation
    seed: int
    spent: Spent

    def worth(self, reward: str) -> Worth:
        """Return the function that values texts by a reward, without references unless it is an oracle."""
        return make_worth(reward, is_oracle(reward), self.task, self.examples, self.spent)

    def model(self, name: str) -> LoadedModel:
        """Load another model that reads and writes the same tokens.

        Raises:
            ConfigError: It is a reward model, is of another family, or has another vocabulary.
            DataError: It is not available.
        """
        model, tokenizer = self.loaded
        folder = folder_of(name)
        if (Path(folder) / REWARD).exists():
            raise ConfigError(
                f"{name}: a reward model that values whole texts; here, the next token must have a value. Train a "
                "language model on the pairs: grue train --algo dpo --set reference_free=true --set data=PAIRS."
            )
        family = family_of(folder)
        if is_seq2seq(model) != (family == "seq2seq"):
            raise ConfigError(f"{name}: is of the family {family}, and the model that it guides is not.")
        other, its_tokenizer = load_language_model(family, folder)
        if its_tokenizer.get_vocab() != tokenizer.get_vocab():
            raise ConfigError(f"{name}: has another tokenizer than the model that it guides, so their tokens differ.")
        other.to(scoring_device())  # type: ignore[arg-type]  # a decorated method that the checker cannot read
        return other.eval(), its_tokenizer


@dataclass(frozen=True, slots=True)
class Decoder:
    """A way to guide decoding; a file in `grue/evaluation/decoders` each.

    Attributes:
        settings: A dataclass of its settings. "reward" is a reward, "" for the task's; "aligned_to" another.
        make: Settings and place → what makes the guide of a batch.
        models: The settings that name models; each names one, or several, separated by SEPARATOR.
    """

    settings: type
    make: Callable[[Any, Place], Guides]
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guided:
    """A decoder with its settings.

    Attributes:
        settings: All of them.
        oracle: Whether one of its rewards reads references or descriptions of them.
        weights: Model that it names → its `weights_id`.
        rewards: All that the result is optimised for: its own, and what its models were trained on.
        name: Suffix of a system's name: "deal", "deal-top_k-8".
    """

    decoder: str
    settings: Mapping[str, Any]
    oracle: bool
    weights: Mapping[str, str]
    name: str
    rewards: tuple[str, ...] = ()

    @property
    def pick_by(self) -> str:
        """The rewards that it reads, joined by " and "; "" if none."""
        return " and ".join(rewards_in(self.settings))


def rewards_in(settings: Mapping[str, Any]) -> list[str]:
    """Return the rewards that a decoder's settings name."""
    return [settings[key] for key in ("reward", "aligned_to") if settings.get(key)]


def folder_of(name: str) -> str:
    """Return the folder of a run's checkpoint, or the name of any other model as it is."""
    folder = Path(name)
    return str(checkpoint.find_checkpoint(folder)) if checkpoint.is_checkpoint(folder) else name


def guiding(task: Task) -> Generation:
    """Return how responses are drawn from guided logits: sampled as the task decodes, or the likeliest token."""
    decoding = task.decoding
    return decoding if decoding.do_sample else greedy(decoding)


def greedy(generation: Generation) -> Generation:
    """Return settings that take the likeliest token of those that the others leave."""
    return replace(generation, do_sample=True, top_k=1, top_p=1.0, num_beams=1, temperature=1.0)


def reach(length: int, place: Place) -> int:
    """Return how many tokens a look-ahead reads; 0 is to the end of the response."""
    longest = place.generation.max_new_tokens
    if length > longest:
        raise ConfigError(f"length={length}: a response of {place.task.name} has {longest} tokens at most.")
    return length or longest


@torch.no_grad()
def predict_guided(place: Place, guides: Guides, examples: Sequence[Example]) -> list[Prediction]:
    """Answer a batch of examples; an answer depends only on the seed and its example, as with plain sampling."""
    settings, spent = place.generation, place.spent
    drawn: list[list[Response]] = []
    for rollout, responses in draws(place.loaded, place.task, examples, settings, place.seed, settings.samples, guides):
        spent.answers += len(examples)
        spent.tokens += int(rollout.responses.mask.sum())
        drawn.append(responses)
    return as_predictions(examples, *drawn)


# --- guides ----------------------------------------------------------------------------------------------------------


class AddedLogits:
    """Adds the weighted logits of other models."""

    def __init__(self, parts: Sequence[tuple[float, LoadedModel]], prompts: Tokens, spent: Spent) -> None:
        self.parts = [(weight, Steps(model, prompts)) for weight, (model, _) in parts]
        self.spent = spent

    @property
    def droppable(self) -> bool:
        """Whether rows can leave the batch."""
        return all(steps.droppable for _, steps in self.parts)

    def keep(self, rows: Tensor) -> None:
        """Continue with only these rows."""
        for _, steps in self.parts:
            steps.keep(rows)

    def __call__(self, logits: Tensor, drawn: Tensor | None, running: Tensor) -> Tensor:
        """Return the sum of the logits, [B, V]."""
        for weight, steps in self.parts:
            logits = logits + weight * steps(drawn)[0].float()
        self.spent.tokens += len(self.parts) * int(running.sum())
        return logits


@dataclass(frozen=True, slots=True)
class Ahead:
    """How candidates for the next token are continued and valued.

    Attributes:
        loaded: The model that continues them.
        candidates: The likeliest tokens that are looked at.
        generation: How it continues; up to `length` tokens of the response are read beyond a candidate.
        rollouts: Continuations of each candidate.
        worth: Example and response → value; −inf if the reward does not apply.
        weight: Nats that one unit of value adds to a candidate's log-probability.
        pool: Values of the continuations [n, rollouts], and their texts → the candidates' values [n].
    """

    loaded: LoadedModel
    candidates: int
    generation: Generation
    length: int
    rollouts: int
    worth: Worth
    weight: float
    pool: Callable[[Tensor, Sequence[Example], Sequence[Sequence[Response]]], Tensor]


class Lookahead:
    """Values the likeliest next tokens by continuing the response behind each of them; the others are closed."""

    def __init__(self, ahead: Ahead, place: Place, batch: Batch) -> None:
        model, tokenizer = ahead.loaded
        self.ahead, self.place, self.examples, self.prompts = ahead, place, batch.examples, batch.prompts
        own = model is place.loaded[0]
        self.encoded = batch.encoded if own or batch.encoded is None else encode(model, batch.prompts)
        self.steps = Steps(model, batch.prompts, encoded=self.encoded)
        self.eos, self.stops = eos_id(model, tokenizer), find_stops(tokenizer, ahead.generation.stop)
        self.rows = torch.arange(len(batch.examples), device=batch.prompts.ids.device)
        self.tokens = batch.prompts.ids.new_empty(len(batch.examples), 0)
        longest = place.generation.max_new_tokens
        seeds = (derived_seed(place.seed, "look ahead", batch.number, each) for each in range(ahead.rollouts))
        self.uniforms = [example_uniforms(seed, batch.examples, longest) for seed in seeds]

    @property
    def droppable(self) -> bool:
        """Whether rows can leave the batch."""
        return self.steps.droppable

    def keep(self, rows: Tensor) -> None:
        """Continue with only these rows."""
        self.steps.keep(rows)
        self.rows, self.tokens = self.rows[rows], self.tokens[rows]

    def __call__(self, logits: Tensor, drawn: Tensor | None, running: Tensor) -> Tensor:
        """Return log-probabilities plus weighted values of the candidates, minus infinity elsewhere, [B, V]."""
        if drawn is not None:
            self.tokens = torch.cat([self.tokens, drawn.unsqueeze(1)], 1)
        self.steps(drawn)
        if not self.steps.droppable:
            raise ConfigError(
                f"{type(self.steps.model).__name__}: its cache cannot be copied, so nothing is looked at."
            )
        going = running.nonzero().squeeze(1)
        self.place.spent.tokens += len(going)
        log_p = logits[going].log_softmax(-1)
        likeliest, ids = log_p.topk(min(self.ahead.candidates, log_p.shape[-1]), dim=-1)
        valued = likeliest + self.ahead.weight * self._values(going, ids)
        guided = logits.clone()
        guided[going] = torch.full_like(log_p, float("-inf")).scatter_(1, ids, valued)
        return guided

    def _values(self, going: Tensor, ids: Tensor) -> Tensor:
        """Return the values of candidates [b, k] for the rows `going`, [b]."""
        ahead, spent = self.ahead, self.place.spent
        copies = going.repeat_interleave(ids.shape[1])
        begun = torch.cat([self.tokens[copies], ids.flatten().unsqueeze(1)], 1)
        limit = min(begun.shape[1] + ahead.length, self.place.generation.max_new_tokens)
        settings = replace(ahead.generation, max_new_tokens=limit)
        of_each = [self.examples[row] for row in self.rows[copies].tolist()]
        encoded = None if self.encoded is None else self.encoded[self.rows[copies]]
        prompts, texts = self.prompts.rows(self.rows[copies]), list[list[Response]]()
        for drawn in self.uniforms:
            uniforms, forked = drawn[self.rows[copies].cpu()], Begun(self.steps.fork(copies), begun)
            responses, truncated = self._continued(prompts, settings, uniforms, encoded, forked)
            spent.tokens += int(responses.mask.sum()) - len(copies) * self.tokens.shape[1]
            texts.append(as_responses(ahead.loaded[1], responses, truncated, settings.stop))
        values = torch.tensor([ahead.worth(of_each, drawn) for drawn in texts]).T
        values = finite(values.reshape(len(going), -1)).view(values.shape)
        return ahead.pool(values, of_each, texts).view(ids.shape).to(ids.device)

    def _continued(
        self, prompts: Tokens, settings: Generation, uniforms: Tensor, encoded: Tensor | None, begun: Begun
    ) -> tuple[Tokens, Tensor]:
        """Return responses from their first token on, and whether each has no end, [B]."""
        model, eos, stops = self.ahead.loaded[0], self.eos, self.stops
        first = Tokens(begun.tokens, torch.ones_like(begun.tokens, dtype=torch.bool))
        if begun.tokens.shape[1] >= settings.max_new_tokens:
            ended = torch.isin(begun.tokens[:, -1], begun.tokens.new_tensor(end_ids(model, eos)))
            return first, ~(ended if stops is None else ended | stops.completed(begun.tokens)[:, -1])
        rollout = sample_responses(model, prompts, settings, uniforms, eos, encoded=encoded, stops=stops, begun=begun)
        rest = rollout.responses
        whole = Tokens(torch.cat([first.ids, rest.ids], 1), torch.cat([first.mask, rest.mask], 1))
        return whole, rollout.truncated


def finite(values: Tensor) -> Tensor:
    """Return values [b, n] with the least finite one of a row, else 0, where the reward does not apply."""
    least = values.masked_fill(values.isinf(), torch.inf).amin(1, keepdim=True)
    return torch.where(values.isinf(), least.masked_fill(least.isinf(), 0.0), values)
