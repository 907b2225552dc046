"""Predictions: a model's answers to a split, written batch by batch; they do not depend on the batches."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.errors import DataError
from grue.evaluation.predictions import prediction_record, read_predictions, write_predictions
from grue.lm import distributions
from grue.lm.constraints import end_ids, find_stops
from grue.lm.load import LoadedModel
from grue.lm.model import eos_id, is_seq2seq, start_id
from grue.lm.sampling import broken_logits, sample_responses
from grue.lm.seeds import example_uniforms, sample_seed
from grue.lm.tokens import Tokens, decode_responses, encode_prompts
from grue.records import Draw, Example, Prediction
from grue.tasks import Generation, Task

Answer = Callable[[Sequence[Example]], list[Prediction]]


@dataclass(frozen=True, slots=True)
class Response:
    """A response: its text, its ids with the end token, and whether it reached the length limit before ending."""

    text: str
    token_ids: tuple[int, ...]
    truncated: bool


@dataclass(slots=True)
class Spent:
    """What answers cost that are picked from samples or guided.

    Attributes:
        answers: Texts answered.
        reward_calls: Texts that a reward scored.
        tokens: Tokens that models read or drew after the prompts, those of the answers included.
    """

    answers: int = 0
    reward_calls: int = 0
    tokens: int = 0

    def per_answer(self) -> dict[str, float]:
        """Return reward calls and tokens an answer; nothing if nothing was answered."""
        return {key: getattr(self, key) / self.answers for key in ("reward_calls", "tokens") if self.answers}


def predict(
    loaded: LoadedModel, task: Task, examples: Sequence[Example], settings: Generation, seed: int
) -> list[Prediction]:
    """Answer a batch of examples, with as many samples as the settings say."""
    seeds = (sample_seed(seed, number) for number in range(settings.samples))
    return as_predictions(examples, *(respond(loaded, task, examples, settings, draw_seed) for draw_seed in seeds))


@torch.no_grad()
def respond(
    loaded: LoadedModel, task: Task, examples: Sequence[Example], settings: Generation, seed: int
) -> list[Response]:
    """Return the responses to a batch of examples.

    Sampling uses random numbers that depend only on seed and example id, so answers do not depend on their batch;
    greedy and beam search are Hugging Face's.
    """
    model, tokenizer = loaded
    prompts = encode_prompts(model, tokenizer, [example.prompt for example in examples], task.prompt)
    continued = continuations(loaded, prompts, examples, settings, seed, eos_id(model, tokenizer))
    return as_responses(tokenizer, *continued, settings.stop)


@torch.no_grad()
def continuations(
    loaded: LoadedModel, prompts: Tokens, examples: Sequence[Example], settings: Generation, seed: int, eos: int
) -> tuple[Tokens, torch.Tensor]:
    """Return a model's continuations of a batch of prompts, [B, T], and whether each reached the length limit, [B].

    Args:
        eos: The id that ends a response, besides the model's own end tokens.
    """
    model, tokenizer = loaded
    if settings.do_sample:
        uniforms = example_uniforms(seed, examples, settings.max_new_tokens)
        rollout = sample_responses(model, prompts, settings, uniforms, eos, stops=find_stops(tokenizer, settings.stop))
        return rollout.responses, rollout.truncated
    return _search(model, tokenizer, prompts, settings, eos)


def plain_sampling(task: Task, temperature: float = 1.0) -> Generation:
    """Return the settings that sample the policy without truncation, as KL and the frontier are measured."""
    return replace(task.rollout, do_sample=True, temperature=temperature, top_k=0, top_p=1.0)


def as_responses(
    tokenizer: PreTrainedTokenizerBase, tokens: Tokens, truncated: torch.Tensor, stop: Sequence[str]
) -> list[Response]:
    """Return tokens [B, T] as responses; `truncated` [B] is True where the length limit was reached."""
    columns = decode_responses(tokenizer, tokens, truncated, stop), map(tuple, tokens.lists()), truncated.tolist()
    return [Response(*row) for row in zip(*columns, strict=True)]


def reward_inputs(responses: Sequence[Response]) -> dict[str, Any]:
    """Return a reward's arguments for responses, besides examples and step."""
    return {
        "texts": [response.text for response in responses],
        "token_ids": [response.token_ids for response in responses],
        "truncated": [response.truncated for response in responses],
    }


def as_predictions(examples: Sequence[Example], *drawn: Sequence[Response]) -> list[Prediction]:
    """Return responses as predictions; each of `drawn` has one response to each example."""
    return [
        Prediction(example.id, first.text, first.truncated, tuple(Draw(draw.text, draw.truncated) for draw in more))
        for example, first, *more in zip(examples, *drawn, strict=True)
    ]


def _search(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompts: Tokens, settings: Generation, eos: int
) -> tuple[Tokens, torch.Tensor]:
    """Decode greedily or with beams, under the model's own constraints; the mask ends at the first end or stop."""
    stops = find_stops(tokenizer, settings.stop)
    ends = [*end_ids(model, eos), *(stops.ids if stops else ())]
    begin = 1 if is_seq2seq(model) else prompts.ids.shape[1]
    config = GenerationConfig(
        max_new_tokens=settings.max_new_tokens,
        min_new_tokens=settings.min_new_tokens or None,
        do_sample=False,
        num_beams=settings.num_beams,
        length_penalty=settings.length_penalty,
        eos_token_id=ends,
        pad_token_id=eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id,
        decoder_start_token_id=start_id(model) if is_seq2seq(model) else None,
    )
    ids = model.generate(  # type: ignore[operator]  # a mixin that the checker takes for a tensor
        prompts.ids,
        attention_mask=prompts.mask.long(),
        generation_config=config,
        logits_processor=[partial(_checked, model)],
        stopping_criteria=[lambda ids, scores: stops.spelled(ids[:, begin:])] if stops else None,
    )[:, begin:]
    end = torch.isin(ids, torch.tensor(ends, device=ids.device))
    if stops:
        end |= stops.completed(ids)
    ended = end.int().cumsum(1)
    return Tokens(ids, (ended == 0) | ((ended == 1) & end)), ended[:, -1] == 0


def _checked(model: PreTrainedModel, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    if distributions.broken(scores).any():
        raise broken_logits(model)
    return scores


def batches_left(examples: Sequence[Example], done: Container[str], size: int) -> Iterator[list[Example]]:
    """Yield batches of prompts of similar length, without those whose examples are all done.

    A batch that is partly done is answered as a whole: rounding depends on the batch.
    """
    order = sorted(examples, key=lambda example: len(example.prompt))
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        if not all(example.id in done for example in batch):
            yield batch


def predict_file(
    examples: Sequence[Example],
    path: Path,
    batch_size: int,
    answer: Answer,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Prediction]:
    """Answer all examples into a predictions file, which is in their order once finished; resumes what is there."""
    done: dict[str, Prediction] = {}
    if path.exists():
        files.drop_torn_line(path)
        done = {prediction.id: prediction for prediction in read_predictions(path)}
    refuse_strangers(path, done, {example.id for example in examples})
    progress(len(done))
    for batch in batches_left(examples, done, batch_size):
        new = [prediction for prediction in answer(batch) if prediction.id not in done]
        files.append_jsonl(path, map(prediction_record, new))
        done |= {prediction.id: prediction for prediction in new}
        progress(len(done))
    predictions = [done[example.id] for example in examples]
    write_predictions(path, predictions)
    return predictions


def refuse_strangers(path: Path, done: Iterable[str], expected: Set[str]) -> None:
    """Refuse a file with answers to other examples than expected, by their ids."""
    if strangers := set(done) - expected:
        raise DataError(f"{path}: holds answers to other examples ({min(strangers)}, …); remove it or write elsewhere.")
