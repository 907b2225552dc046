"""Tiny random models, a tiny task and runs on them: seconds instead of minutes, the same code paths."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from grue.algorithms import BUILT_IN
from grue.evaluation.rewards import give_name, make_reward
from grue.files import read_jsonl
from grue.lm.adapters import adapt
from grue.records import COSTS, Example
from grue.rl.trainer import Trainer
from grue.runs.algorithms import find_algorithm
from grue.runs.plan import Plan
from grue.runs.train import Run
from grue.tasks import Backbone, Data, Generation, MetricSpec, Prompt, Source, Split, Task

ALGORITHMS = BUILT_IN
GROUPED = ("alol", "copg", "dapo_advantage", "dpo", "grpo", "pro", "rft", "rloo", "tpo")
# Settings with which an algorithm fits runs of twelve rollouts.
SMALL = {
    **{name: {"samples_per_prompt": 3} for name in GROUPED},
    **{name: {"samples_per_prompt": 3, "value_prompts": 12} for name in ("alol", "dapo_advantage")},
    "props": {"rounds": 3},
    "trpo": {"cg_steps": 3, "critic_epochs": 1, "line_search_steps": 3},
}
WORDS = "the a dog cat man bird sees finds likes red blue small ball house tree in on near and runs".split()


def tokenizer(family):
    """One token a word; <pad>, <eos> and <unk> are 0, 1 and 2."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<eos>", "<unk>", *WORDS])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.decoder = decoders.WordPiece(prefix="##")
    if family == "seq2seq":
        inner.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def model(family, seed=0, spread=1.0):
    """A random model with a distribution far from uniform, so that masks and ratios mean something."""
    torch.manual_seed(seed)
    size = len(WORDS) + 3
    if family == "causal":
        config = GPT2Config(
            vocab_size=size, n_layer=2, n_embd=32, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=1, pad_token_id=0,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
        made = GPT2LMHeadModel(config)
        made.transformer.wte.weight.data.mul_(5 * spread)
        return made.eval()
    config = T5Config(
        vocab_size=size, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, dropout_rate=0.0,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    made = T5ForConditionalGeneration(config)
    made.shared.weight.data.mul_(spread)
    return made.eval()


def examples(count=12):
    """Prompts of different lengths, each with two references."""
    out = []
    for i in range(count):
        words = [WORDS[(i * 7 + j * 3) % len(WORDS)] for j in range(2 + i % 4)]
        references = (" ".join(["the", *words]), " ".join(["a", *reversed(words)]))
        out.append(Example(id=f"e{i}", prompt=" ".join(words), references=references, meta={"concepts": words}))
    return out


def task(family, **rollout):
    generation = Generation(**{"max_new_tokens": 8, "do_sample": True, **rollout})
    return Task(
        schema=1,
        name="tiny",
        suite="tests",
        version=1,
        title="",
        description="",
        data=Data(
            format="commongen",
            language="en",
            licence="",
            sources=(Source("mini", "commongen"),),
            splits={name: Split(name) for name in ("train", "validation", "test")},
            evaluation="test",
        ),
        prompt=Prompt(max_tokens=10, truncation="left"),
        rollout=generation,
        decoding=generation,
        backbone=Backbone(family=family, model="tiny"),
        reward="rouge1",
        metrics=(MetricSpec("rouge1", "preference", (0.0, 1.0)),),
        recipes={},
    )


def share_of_the(examples, texts):
    """A reward that is easy to learn: the share of words that are `the`."""
    return [text.split().count("the") / max(1, len(text.split())) for text in texts]


class Watcher:
    """Keeps what a run tells."""

    def __init__(self):
        self.lines, self.samples, self.validations, self.warnings = [], [], [], []

    def planned(self, plan):
        pass

    def finished(self, plan):
        pass

    def started(self, plan, done, total):
        self.begin = (done, total)

    def updated(self, done, total, line):
        self.lines.append(dict(line))

    def sampled(self, example, text, score):
        self.samples.append((example.id, text, score))

    def validated(self, done, figures, best):
        self.validations.append((done, dict(figures), best))

    def warned(self, done, message):
        self.warnings.append((done, message))


def run(family, algorithm, folder: Path, *, seed=1, stop=lambda: False, reward=share_of_the, task_=None, **settings):
    """A run on a tiny model, ready to train."""
    defaults = {"learning_rate": 1e-3, "validate_every": 2, "save_every": 1, "micro_batch_size": 64}
    if algorithm != "supervised":
        defaults |= {"updates": 4, "rollouts": 12, "minibatch_size": 6, "epochs": 2}
    if algorithm == "es":  # greedy answers of so small a model need much noise to differ
        defaults |= {"perturbations": 2, "noise": 0.3}
    config = find_algorithm(algorithm).settings(**{**defaults, **settings})
    plan = Plan(task_ or task(family), algorithm, config, "rouge1", seed, algorithm, folder)
    observer = Watcher()
    trainer = Trainer(
        task=plan.task,
        policy=model(family),
        tokenizer=tokenizer(family),
        examples=examples(),
        reward=make_reward(give_name(reward), plan.task, examples()),
        seed=seed,
        precision=config.precision,
        shown=observer.sampled,
    )
    training = dict.fromkeys(COSTS, 0.0)
    return Run(plan=plan, trainer=trainer, validation=examples(4), observer=observer, stop=stop, training=training)


def train(run_):
    """Carry out a run to its end; return it."""
    run_.carry_out(find_algorithm(run_.plan.algorithm))
    return run_


def updated(run_, count=1):
    """Carry out a run's first updates alone, without files, validations and states; return their figures."""
    algorithm, config = find_algorithm(run_.plan.algorithm), run_.plan.config
    adapt(run_.trainer.policy, config)
    state = algorithm.start(run_.trainer, config)
    return [algorithm.update(run_.trainer, state, config, n) for n in range(count)]


def logged(folder):
    """The log of a run without its clock."""
    lines = (line for _, line in read_jsonl(folder / "train.jsonl"))
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def weights(model_):
    return torch.cat([p.detach().flatten() for p in model_.parameters()])
