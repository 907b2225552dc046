"""GRUE's rewards in other trainers: TRL, verl, OpenRLHF, verifiers and OpenEnv.

A reward is given as for `grue train --reward`: a metric, a weighted sum, "module:function" or a function of
(examples, texts); None for the task's. The files of `grue data export --format …` have the ids by which these functions
find their examples. Metrics are prepared on the split that `grue train` takes prompts from, and texts are scored
without invisible characters and surrounding white space, so that a reward has the same value everywhere.

All functions here take:
    reward: The reward.
    task: A task, its name in `suite`, or the path of its file.
    split: The split of the prompts, or several: ("rl", "validation"). [default: the one that policies learn from with a
        reward, rl if the task has it, else train; all but TRL also validate, so for them with validation]
    data_dir: A folder with the data set in its original layout, instead of the task's sources.
    offline: Open no connection for data.

and raise UnknownName or ConfigError for an invalid reward or task, DataError for data that is not available, and for an
id that two of the splits have with different content, unless prompts name their split (verl, verifiers, OpenEnv). What
is returned raises TrainingError for a prompt that is not an example of the split, and for a reward that returns no
usable number; a reward here is one number per response, never per token. The functions for TRL, verl and OpenRLHF can
be pickled; where they are read, the call that made them is repeated.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grue.api.examples import AnyTask, as_task
from grue.errors import ConfigError, TrainingError, escaped
from grue.interop.lookup import TextOrChat, text_of
from grue.interop.scorer import Scorer, make_scorer, make_scorer_of_references
from grue.records import Example

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from grue.evaluation.rewards import RewardFunction

Splits = str | Sequence[str]


def for_trl(
    reward: "str | RewardFunction | None" = None,
    *,
    task: AnyTask | None = None,
    suite: str = "mini",
    split: Splits | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> Callable[..., list[float | None]]:
    """Return a reward for `reward_funcs` of TRL's GRPOTrainer and RLOOTrainer (read in TRL 1.16.0).

    It takes B prompts and completions, texts or conversations, and finds their examples by the column `id`, or by the
    prompts if there is none. It returns [B] numbers, None where the reward does not apply, for instance because the
    column `data_source` of a mixed data set names another task. The mean of each term is logged as "reward/NAME".

    The references are the task's, also where the data set has a column `references`. Without a task they are those of
    that column, a text or a list of texts in each row, and the reward is a sum of metrics that need nothing else.

    Arguments and errors as for all functions of this module. A reward may use `token_ids` and `step`, which TRL
    provides, but not `truncated`.
    """
    if task is None and (suite, split, data_dir) != ("mini", None, None):
        raise ConfigError("suite, split and data_dir say where a task's examples are; name the task with task=….")
    scorer = (
        make_scorer_of_references(reward) if task is None else _scorer(reward, task, suite, split, data_dir, offline)
    )
    return TrlReward(scorer)


def for_verl(
    reward: "str | RewardFunction | None" = None,
    *,
    task: AnyTask,
    suite: str = "mini",
    split: Splits | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> Callable[..., dict[str, float]]:
    """Return a `compute_score` for verl's `custom_reward_function` (read in verl 0.9.1).

    It scores one response, whose example is the one with `extra_info["id"]` in the split `extra_info["split"]`, and
    returns {"score": …, "reward/NAME": …} with each term, NaN if one does not apply. Without that split, an id that two
    splits have with different content is a DataError. verl loads the function from a file by its path and name:

        # reward.py: reward.custom_reward_function.path=reward.py reward.custom_reward_function.name=compute_score
        compute_score = for_verl("0.5*meteor + 0.5*coverage", task="commongen")

    Arguments and errors as for all functions of this module. verl validates with the same function, so `split` names
    the splits of both files. A response to which no term applies is an error, since verl needs a number.
    """
    scorer = _scorer(reward, task, suite, split, data_dir, offline, validates=True, rows_name_their_split=True)
    return partial(_verl_score, scorer)


def for_openrlhf(
    reward: "str | RewardFunction | None" = None,
    *,
    task: AnyTask,
    tokenizer: str | Path,
    suite: str = "mini",
    split: Splits | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> Callable[..., dict[str, Any]]:
    """Return a `reward_func` for OpenRLHF's `--reward.remote_url FILE.py` (read in OpenRLHF 0.11.0).

    It takes B queries (prompt, response and special tokens as one text), prompts and labels, the examples' ids
    (`--data.label_key label`); without labels, examples are found by their prompts. It returns "rewards" and "scores",
    float tensors [B], and "extra_logs", "reward/NAME" → a float tensor [B], NaN where a term does not apply. OpenRLHF
    loads it by its name from a file:

        # reward.py
        reward_func = for_openrlhf("0.5*meteor + 0.5*coverage", task="commongen", tokenizer="FOLDER OR HUB ID")

    Arguments and errors as for all functions of this module.

    Args:
        tokenizer: The trained model, or its tokenizer: it separates the response from prompt and special tokens.
    """
    from grue.lm.load import load_tokenizer

    scorer = _scorer(reward, task, suite, split, data_dir, offline, validates=True)
    tokens = load_tokenizer(str(tokenizer))
    return partial(_openrlhf_reward, scorer, tokens)


def for_verifiers(
    reward: "str | RewardFunction | None" = None,
    *,
    task: AnyTask,
    suite: str = "mini",
    split: Splits | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> type[Any]:
    """Return a taskset class for verifiers, evaluated with `vf-eval` and trained on by prime-rl (read in 0.4.0).

    Each example is a task with its id and prompt; the last reply is scored, and each term is the metric "reward/NAME".
    The prompts are those of the first split; `--env.taskset.split validation` takes another of `split`. verifiers loads
    the class from a module on the path, by the module's name:

        # commongen.py
        CommonGen = for_verifiers("0.5*meteor + 0.5*coverage", task="commongen")
        __all__ = ["CommonGen"]

    Arguments and errors as for all functions of this module, and:

    Raises:
        Unavailable: verifiers is not installed.
    """
    from grue.interop.taskset import make_taskset

    return make_taskset(
        _scorer(reward, task, suite, split, data_dir, offline, validates=True, rows_name_their_split=True)
    )


def for_openenv(
    reward: "str | RewardFunction | None" = None,
    *,
    task: AnyTask,
    suite: str = "mini",
    split: Splits | None = None,
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> Any:
    """Return OpenEnv's server of a task, a FastAPI application (read in openenv 0.10.0).

    An episode is one step: `reset(split=…, index=…)` gives the prompt at an index of a split, `reset(seed=…)` one drawn
    from the first; `step({"text": …})` ends it with the reward, and with each term in `observation["terms"]`, None if
    one does not apply. `list_splits`, `num_tasks` and `get_task` are served as well. uvicorn runs it:

        # app.py: uvicorn app:app --port 8000
        app = for_openenv("0.5*meteor + 0.5*coverage", task="commongen")

    Arguments and errors as for all functions of this module, and:

    Raises:
        Unavailable: openenv is not installed.
    """
    from grue.interop.episodes import make_app

    return make_app(_scorer(reward, task, suite, split, data_dir, offline, validates=True, rows_name_their_split=True))


class TrlReward:
    """A reward by whose name TRL logs it; of a `partial` TRL would log the inner function's."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.__name__ = scorer, scorer.name

    def __call__(
        self,
        *,
        prompts: Sequence[TextOrChat],
        completions: Sequence[TextOrChat],
        completion_ids: Sequence[Sequence[int]] | None = None,
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return the rewards of a batch, [B]."""
        scorer = self.scorer
        of_rows, count = not scorer.lookup.source, len(prompts)
        ids = columns.get("id") or [None] * count
        sources = columns.get("data_source") or [None] * count
        if of_rows and "references" not in columns:
            raise TrainingError("The data set has no column 'references'; add it, or name the task with task=….")
        references = columns["references"] if of_rows else [None] * count
        lengths = {
            "completions": completions,
            "completion_ids": completion_ids,
            "id": ids,
            "data_source": sources,
            "references": references,
        }
        for name, values in lengths.items():
            if values is not None and len(values) != count:
                raise TrainingError(f"{len(values)} {name} for {count} prompts; there must be one for each.")
        ours = [row for row, source in enumerate(sources) if of_rows or source in (None, scorer.lookup.source)]
        examples = [
            _of_row(references[row], prompts[row]) if of_rows else _example(scorer, ids[row], prompts[row])
            for row in ours
        ]
        rewarded = scorer.rewards(
            examples,
            [text_of(completions[row], "assistant") for row in ours],
            None if completion_ids is None else [completion_ids[row] for row in ours],
            None if trainer_state is None else trainer_state.global_step,
        )
        if log_metric is not None:
            for name, value in rewarded.means().items():
                log_metric(name, value)
        by_row = dict(zip(ours, rewarded.sums, strict=True))
        return [by_row.get(row) for row in range(count)]


def _verl_score(
    scorer: Scorer,
    /,
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    if data_source != scorer.lookup.source:
        raise TrainingError(
            f"data_source is {data_source!r}, but this reward is for {scorer.lookup.source}; for several tasks, "
            "choose among several for_verl(…) by data_source."
        )
    place = extra_info or {}
    identity = place.get("id")
    if identity is None:
        raise TrainingError(
            "extra_info has no id to find the example by; train on a file of `grue data export --format verl`."
        )
    value, terms = scorer.number(scorer.lookup.by_id(identity, place.get("split")), solution_str, "verl")
    return {"score": value, **terms}


def _openrlhf_reward(
    scorer: Scorer,
    tokens: "PreTrainedTokenizerBase",
    /,
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[Any],
    **more: Any,
) -> dict[str, Any]:
    import torch

    from grue.interop.queries import response_of

    if not len(queries) == len(prompts) == len(labels):
        raise TrainingError(
            f"{len(queries)} queries, {len(prompts)} prompts and {len(labels)} labels; there must be one of each."
        )
    examples = [_example(scorer, label or None, prompt) for label, prompt in zip(labels, prompts, strict=True)]
    texts = [response_of(query, prompt, tokens) for query, prompt in zip(queries, prompts, strict=True)]
    values, terms = scorer.numbers(examples, texts, "OpenRLHF")
    rewards = torch.tensor(values, dtype=torch.float32)
    logs = {name: torch.tensor(term, dtype=torch.float32) for name, term in terms.items()}
    return {"rewards": rewards, "scores": rewards, "extra_logs": logs}


def _scorer(
    reward: "str | RewardFunction | None",
    task: AnyTask,
    suite: str,
    split: Splits | None,
    data_dir: str | Path | None,
    offline: bool,
    validates: bool = False,
    rows_name_their_split: bool = False,
) -> Scorer:
    of_task = as_task(task, suite)
    if split is None:
        split = (of_task.data.reward_split, "validation") if validates else of_task.data.reward_split
    splits = (split,) if isinstance(split, str) else tuple(split)
    if not splits:
        raise ConfigError("split is empty: name the split of the prompts, such as split='train'.")
    scorer = make_scorer(reward, of_task, splits, None if data_dir is None else Path(data_dir), offline)
    if not rows_name_their_split:
        scorer.lookup.refuse_shared_ids()
    return scorer


def _of_row(references: Any, prompt: TextOrChat) -> Example:
    """Return an example of no task, known by its prompt."""
    texts = (references,) if isinstance(references, str) else references
    name = text_of(prompt, "user")
    if not (isinstance(texts, list | tuple) and texts and all(isinstance(text, str) for text in texts)):
        raise TrainingError(
            f"The column 'references' has {escaped(repr(references), 80)} for the prompt '{escaped(name, 80)}'; it "
            "must have a text or a list of texts in each row."
        )
    return Example(name, name, tuple(texts))


def _example(scorer: Scorer, identity: Any, prompt: TextOrChat) -> Example:
    """Return a prompt's example: by its id if it has one, else by its text."""
    return scorer.lookup.by_prompt(prompt) if identity is None else scorer.lookup.by_id(identity)
