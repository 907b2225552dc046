"""A model watched while a trainer of others trains it: transformers' Trainer here, TRL's where it is installed."""

import errno
import json
import math
import re
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.late import late

import grue
from grue import callbacks, files
from grue.errors import ConfigError, UnknownName
from grue.records import Draw, Prediction
from grue.task_files import load_task

tiny, watching, own = late("support.tiny"), late("grue.evaluation.watch"), late("grue.evaluation.trainer_watch")
server = late("support.openai_server")
load, chat_models = late("grue.lm.load"), late("support.chat_models")
transformers = late("transformers")

TASK = """
reward = "rouge1"
families = [["rouge1", "rougeL"]]
metrics = [
    { name = "rouge1", axis = "preference", range = [0, 1] },
    { name = "rougeL", axis = "preference", range = [0, 1] },
    { name = "coverage", axis = "preference", range = [0, 1] },
    { name = "rouge2", axis = "naturalness", range = [0, 1] },
]
[data]
sources = [{ kind = "local", files = { train = "rows.jsonl", validation = "rows.jsonl", test = "rows.jsonl" } }]
[prompt]
max_tokens = 10
truncation = "left"
[rollout]
max_new_tokens = 8
do_sample = true
[decoding]
max_new_tokens = 8
[backbone]
family = "causal"
model = "mini:causal"
"""
SCORED = {"preference", "held_out", "naturalness", "reward"}


def task_file(folder):
    rows = [(one.id, one.prompt, list(one.references), dict(one.meta)) for one in tiny.examples()]
    keys = ("id", "prompt", "references", "meta")
    files.write_jsonl(folder / "rows.jsonl", [dict(zip(keys, row, strict=True)) for row in rows])
    (folder / "words.toml").write_text(TASK)
    return folder / "words.toml"


@pytest.fixture
def task(tmp_path):
    return task_file(tmp_path)


def trainer_of(folder, steps=4, **arguments):
    """A supervised Trainer of a tiny model."""
    tokenizer, model = tiny.tokenizer("causal"), tiny.model("causal")
    rows = []
    for example in tiny.examples():
        whole = [*tokenizer(example.prompt).input_ids, *tokenizer(example.references[0]).input_ids, 1]
        whole += [0] * (14 - len(whole))
        rows.append({"input_ids": whole, "labels": whole})
    settings = {"max_steps": steps, "per_device_train_batch_size": 4, "learning_rate": 3e-2, "report_to": "none"}
    settings |= {"use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "logging_steps": 2, **arguments}
    made = transformers.TrainingArguments(str(folder / "trained"), **settings)
    return transformers.Trainer(model=model, args=made, train_dataset=rows, processing_class=tokenizer)


def unheard(warning):
    """Alarms of tiny models are true, and not what is tested."""


def weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A Trainer that was watched at every second of its four steps, and what that left."""
    folder = tmp_path_factory.mktemp("trained")
    task, trainer = task_file(folder), trainer_of(folder)
    trainer.processing_class.save_pretrained(folder / "before")
    callback = callbacks.for_trl(trainer, task, every=2, best="rouge1", folder=folder / "kept", warn=unheard)
    trainer.train()
    return SimpleNamespace(trainer=trainer, history=callback.watch.history, task=task, folder=folder)


def test_what_is_logged_kept_and_left_as_it_was(trained, tmp_path):
    plain, watched, history = trainer_of(tmp_path), trained.trainer, trained.history
    plain.train()
    expected = weights(plain.model)
    assert all(torch.equal(value, expected[name]) for name, value in weights(watched.model).items())
    assert watched.model.training == plain.model.training
    assert [one.step for one in history] == [0, 2, 4]
    lines = [line for _, line in files.read_jsonl(trained.folder / "kept/figures.jsonl")]
    assert lines == [{"step": one.step, **one.figures} for one in history]
    logged = [line for line in watched.state.log_history if "grue/preference" in line]
    assert [line["step"] for line in logged] == [0, 2, 4]
    assert all(
        line[f"grue/{name}"] == one.figures[name] for line, one in zip(logged, history, strict=True) for name in SCORED
    )
    assert "grue/vocabulary" not in logged[0] and "grue/distinct2" in logged[0]
    assert [line["loss"] for line in watched.state.log_history if "loss" in line] == [
        line["loss"] for line in plain.state.log_history if "loss" in line
    ]
    assert history[0].figures["kl"] == 0 and history[2].figures["kl"] > history[1].figures["kl"] / 10 > 0
    assert watched.processing_class.truncation_side == "right"  # the task's prompts are cut on the left
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (trained.folder / "kept/best" / name).read_text() == (trained.folder / "before" / name).read_text()


def test_the_figures_are_those_of_grue_score(trained):
    scores = [grue.score(trained.folder / f"kept/answers-{one.step}.jsonl", trained.task) for one in trained.history]
    for measured, scored in zip(trained.history, scores, strict=True):
        by_name = {score.metric: score.value for score in scored.scores}
        assert measured.figures["preference"] == pytest.approx(scored.preference)
        assert measured.figures["naturalness"] == pytest.approx(scored.naturalness)
        assert measured.figures["held_out"] == pytest.approx(100 * by_name["coverage"])
        assert measured.figures["reward"] == pytest.approx(by_name["rouge1"])
        assert measured.figures["distinct2"] == by_name["distinct2"]
    # A gain's error is that of paired differences of examples.
    first, last = (scored.per_example["coverage"] for scored in (scores[0], scores[-1]))
    differences = [100 * (late - early) for early, late in zip(first, last, strict=True)]
    middle = sum(differences) / 12
    error = math.sqrt(sum((one - middle) ** 2 for one in differences) / 11 / 12)
    assert trained.history[2].figures["held_out_gain"] == pytest.approx(middle)
    assert trained.history[2].figures["held_out_gain_error"] == pytest.approx(error)


def test_the_best_model_answers_as_it_did_when_it_was_measured(trained, tmp_path):
    kept, best = trained.folder / "kept", max(trained.history, key=lambda one: one.figures["rouge1"])
    result = grue.evaluate(str(kept / "best"), trained.task, split="validation", output=tmp_path)
    assert {score.metric: score.value for score in result.scores}["rouge1"] == best.figures["rouge1"]
    answers = (tmp_path / "predictions.jsonl", kept / f"answers-{best.step}.jsonl")
    now, then = ([line for _, line in files.read_jsonl(path)] for path in answers)
    assert now == then


def test_less_is_better_where_a_figure_says_so(tmp_path, task):
    trainer = trainer_of(tmp_path)
    callback = callbacks.for_trl(trainer, task, every=2, best="kl")
    before = weights(trainer.model)
    trainer.train()
    assert min(one.figures["kl"] for one in callback.watch.history) == 0
    kept = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "trained/grue/best").state_dict()
    assert all(torch.equal(kept[name], before[name]) for name in before)


def test_a_resumed_run_goes_on_with_what_is_kept(tmp_path, task):
    whole = trainer_of(tmp_path / "whole")
    callbacks.for_trl(whole, task, every=1)
    whole.train()
    first = trainer_of(tmp_path / "cut", save_strategy="steps", save_steps=2)
    callbacks.for_trl(first, task, every=1)
    first.train()
    second = trainer_of(tmp_path / "cut")
    callback = callbacks.for_trl(second, task, every=1)
    callback._begin(2)
    assert len(callback._values) == 5, "the model in `best` is compared with, also where it is of a later step"
    second.train(resume_from_checkpoint=str(tmp_path / "cut/trained/checkpoint-2"))
    of_whole, of_cut = (
        [line for _, line in files.read_jsonl(tmp_path / f"{name}/trained/grue/figures.jsonl")]
        for name in ("whole", "cut")
    )
    assert [line["step"] for line in of_cut] == [0, 1, 2, 3, 4]
    for one, other in zip(of_whole, of_cut, strict=True):
        same = [name for name in one if name != "seconds"]
        assert all(one[name] == pytest.approx(other[name], abs=1e-6) for name in same)
    assert [one.step for one in callback.watch.history] == [0, 3, 4]  # gains stay over the start of training
    assert [line["step"] for line in second.state.log_history if "grue/preference" in line] == [0, 1, 2, 3, 4]


def test_what_fails_after_the_start_is_a_warning_and_training_goes_on(tmp_path, task, monkeypatch):
    heard, trainer = [], trainer_of(tmp_path)
    callback = callbacks.for_trl(trainer, task, every=2, warn=heard.append)
    original = own.write_predictions

    def full(path, predictions):
        if path.name == "answers-2.jsonl":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        original(path, predictions)

    monkeypatch.setattr(own, "write_predictions", full)
    assert trainer.train().global_step == 4
    assert any(re.match(r"step 2 could not be measured, and training goes on: .*No space left", one) for one in heard)
    assert [line["step"] for _, line in files.read_jsonl(callback.folder / "figures.jsonl")] == [0, 4]
    monkeypatch.setattr(own, "write_predictions", lambda *_: full(Path("answers-2.jsonl"), ()))
    again = trainer_of(tmp_path / "again")
    callbacks.for_trl(again, task, every=2)
    with pytest.raises(OSError, match="No space left"):
        again.train()


def test_mixed_precision_does_not_touch_what_is_measured(tmp_path, task):
    """accelerate wraps `forward`: a copy's would call the original, and the KL from the start would be 0."""
    trainer = trainer_of(tmp_path, bf16=True)
    callback = callbacks.for_trl(trainer, task, every=2, warn=unheard)
    trainer.train()
    model = trainer.accelerator.unwrap_model(trainer.model)
    assert "forward" in vars(model)
    history = callback.watch.history
    assert history[0].figures["kl"] == 0 and history[2].figures["kl"] > 0.1
    copy = type(model)(model.config).eval()
    copy.load_state_dict(model.state_dict())
    again = callbacks.watch(task).measure((copy, trainer.processing_class), 4)
    assert again.figures["preference"] == history[2].figures["preference"]


def adapted(folder, **config):
    """A Trainer of a tiny model with an adapter."""
    peft, trainer = pytest.importorskip("peft"), trainer_of(folder)
    torch.manual_seed(0)
    config |= {"r": 4, "target_modules": ["c_attn"], "fan_in_fan_out": True, "task_type": "CAUSAL_LM"}
    model = peft.get_peft_model(trainer.model, peft.LoraConfig(**config))
    given = {"train_dataset": trainer.train_dataset, "processing_class": trainer.processing_class}
    return transformers.Trainer(model=model, args=trainer.args, **given)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")  # peft calls transformers by old names
def test_an_adapter_is_switched_off_for_the_start(tmp_path, task):
    trainer = adapted(tmp_path)
    callback = callbacks.for_trl(trainer, task, every=2)
    trainer.train()
    history = callback.watch.history
    assert history[0].figures["kl"] == 0 and history[2].figures["kl"] > 0
    assert (tmp_path / "trained/grue/best/adapter_model.safetensors").exists()
    learned = [name for name, one in trainer.model.named_parameters() if one.requires_grad]
    assert learned and all("lora" in name for name in learned)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")
def test_more_than_an_adapter_may_be_trained(tmp_path, task):
    """Biases and whole modules beside it, and an adapter that was trained before: the start is what training began from."""
    trainer = adapted(tmp_path, bias="all", modules_to_save=["ln_f"])
    with torch.no_grad():
        for value in trainer.model.parameters():
            if value.requires_grad:
                value.add_(0.05)
    before = weights(trainer.model)
    callback = callbacks.for_trl(trainer, task, every=4, warn=unheard)
    callback.on_train_begin(trainer.args, trainer.state, trainer.control)
    assert callback.watch.history[0].figures["kl"] == 0
    assert all(torch.equal(value, before[name]) for name, value in weights(trainer.model).items())


def test_what_another_run_left_is_replaced(tmp_path, task):
    for steps in (2, 1):
        trainer = trainer_of(tmp_path, steps)
        callback = callbacks.for_trl(trainer, task, every=1, kl=False, warn=unheard)
        trainer.train()
    assert not any("kl" in one.figures for one in callback.watch.history)
    folder = tmp_path / "trained/grue"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("answers-0.jsonl", "answers-1.jsonl", "best", "figures.jsonl"),
    ]


def answered(texts):
    return [Prediction(example.id, text) for example, text in zip(tiny.examples(), texts, strict=True)]


def test_a_reward_that_parts_from_what_it_stands_for_gives_a_warning(task):
    """Words in disorder: every word of the reference is there (rouge1), no pair of them is (rouge2)."""
    told = []
    watch = callbacks.watch(task, warn=told.append)
    half = [" ".join(example.references[0].split()[:2]) for example in tiny.examples()]
    jumbled = [" ".join(words[::2] + words[1::2]) for words in (one.references[0].split() for one in tiny.examples())]
    whole = [example.references[0] for example in tiny.examples()]
    first, better, worse = (watch.score(answered(texts), step) for step, texts in enumerate((half, whole, jumbled)))
    assert first.alarm == better.alarm == ""
    for name, sign in (("reward", 1), ("naturalness", -1)):
        assert sign * worse.figures[f"{name}_gain"] > 2 * worse.figures[f"{name}_gain_error"]
    assert "step 2: the reward changed by +" in worse.alarm and "naturalness by -" in worse.alarm
    assert "held-out" not in worse.alarm  # coverage has risen, too
    # The same figures without a reward that rose.
    assert callbacks.watch(task, reward="").score(answered(jumbled), 0).alarm == ""


def test_answers_in_another_order(task):
    texts = [one.references[0] if n % 2 else "cat" for n, one in enumerate(tiny.examples())]
    first, second = (
        callbacks.watch(task).score(given, 0).figures for given in (answered(texts), answered(texts)[::-1])
    )
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_several_draws_are_averaged(task):
    """Two draws a prompt, one of them its reference, the other empty and cut."""
    file = task.read_text().replace(
        "[decoding]\nmax_new_tokens = 8", "[decoding]\nmax_new_tokens = 8\ndo_sample = true\nsamples = 2"
    )
    task.write_text(file)
    drawn = [Prediction(one.id, one.references[0], more=(Draw("", truncated=True),)) for one in tiny.examples()]
    figures = callbacks.watch(task).score(drawn, 0).figures
    assert figures["preference"] == pytest.approx(50) and figures["reward"] == pytest.approx(0.5)
    assert (figures["empty"], figures["truncated"]) == (0.5, 0.5)


def test_what_the_reward_raises_is_not_held_out(task, monkeypatch):
    assert callbacks.watch(task).optimised == {"rouge1", "rougeL"}
    assert callbacks.watch(task, reward="0.5*coverage + rouge2").optimised == {"coverage", "rouge2"}
    assert callbacks.watch(task, reward=lambda examples, texts: [1.0] * len(texts)).optimised == set()
    with monkeypatch.context() as patch:  # a reward model raises what its pairs were judged by, as on the board
        patch.setattr(watching, "recorded", lambda reward, task: [{"judge": "coverage"}, {"judge": "people"}])
        assert watching.optimised_by("model:DIR", load_task(str(task))) == {"model:DIR", "coverage", "people"}
    without = callbacks.watch(task, reward="").score(answered(["the dog"] * 12), 0).figures
    assert not {"reward", "held_out"} & without.keys() and "preference" in without


def test_a_reward_that_the_callback_is_not_told_is_warned_of(tmp_path, task):
    trainer = trainer_of(tmp_path)
    for names, more, warned in (
        (["rouge1"], {}, 0),
        (["coverage"], {"reward": "coverage"}, 0),
        (["0.5*rouge1+coverage", "polite"], {}, 1),
    ):
        trainer.reward_func_names, heard = names, []
        callbacks.for_trl(trainer, task, kl=False, warn=heard.append, **more)
        assert len(heard) == warned
    assert "0.5*rouge1+coverage and polite" in heard[0] and "rouge1: name" in heard[0]


def test_a_model_without_room_is_refused(task):
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    model.config.max_position_embeddings = 17
    with pytest.raises(ConfigError, match="prompt and response take 18 tokens, but .* has 17 positions"):
        callbacks.watch(task).measure((model, tokenizer), 0)
    task.write_text(task.read_text().replace("[rollout]", '[prompt.chat]\nversion = 1\nuser = "{prompt}"\n[rollout]'))
    model, tokenizer = load.load_language_model("causal", "mini:causal")
    tokenizer.chat_template, model.config.max_position_embeddings = chat_models.TEMPLATE, 12
    with pytest.raises(ConfigError, match="the conversation takes .* has 12 positions"):
        callbacks.watch(task, chat=True).measure((model, tokenizer), 0)


def test_the_kl_of_a_chat_model_is_of_replies_as_they_end(task):
    """One that ends its turn at once, by a token that is not its tokenizer's end, beside a start that knows nothing."""
    task.write_text(task.read_text().replace("[rollout]", '[prompt.chat]\nversion = 1\nuser = "{prompt}"\n[rollout]'))
    model, tokenizer = load.load_language_model("causal", "mini:causal")
    tokenizer.chat_template = chat_models.TEMPLATE.replace("<eos>", "<pad>")
    start, size = watching.start_of(model), model.config.vocab_size
    start.lm_head.register_forward_hook(lambda module, _, logits: torch.zeros_like(logits))
    ends = 1e4 * torch.nn.functional.one_hot(torch.tensor(tokenizer.pad_token_id), size)
    model.lm_head.register_forward_hook(lambda module, _, logits: logits + ends)
    measured = callbacks.watch(task, chat=True).measure((model, tokenizer), 0, lambda: nullcontext(start))
    assert measured.figures["empty"] == 1 and measured.figures["truncated"] == 0
    assert measured.figures["kl"] == pytest.approx(math.log(size))


def test_a_model_behind_an_address(task):
    """One that answers every other prompt with its reference, the others with a word of no reference."""
    said = {one.prompt: one.references[0] if n % 2 else "nonsense" for n, one in enumerate(tiny.examples())}
    with server.serving(reply=lambda body: said[body["prompt"]]) as host:
        watch = callbacks.watch(task)
        measured = watch.ask(grue.Endpoint(host.url, "org/m"), 7)
    assert [one.text for one in measured.predictions] == list(said.values())
    assert measured.step == 7 and measured.figures["preference"] == pytest.approx(50)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning")
def test_bad_input(tmp_path, task, refused):
    trainer, prompted, sharded, misspelt = (trainer_of(tmp_path) for _ in range(4))
    for error, of_task, more in (
        (ConfigError, task, {"every": 0}),
        (ConfigError, task, {"examples": 0}),
        (UnknownName, "commongenn", {}),
        (UnknownName, task, {"reward": "rouge7"}),
    ):
        with refused(error):
            callbacks.for_trl(trainer, of_task, **more)
    trainer.processing_class = None
    sharded.is_fsdp_enabled = True
    peft = pytest.importorskip("peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    prompted.model = peft.get_peft_model(prompted.model, config)
    for one in (trainer, prompted, sharded):
        with refused(ConfigError):
            callbacks.for_trl(one, task)
    with refused(ConfigError):
        callbacks.watch(task).ask(grue.Endpoint("http://localhost:1/v1"), 0)
    callbacks.for_trl(misspelt, task, best="preferense")
    with refused(ConfigError):
        misspelt.train()


@pytest.mark.skipif(find_spec("trl") is None, reason="not installed: trl")
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # TRL calls transformers by old names
@pytest.mark.parametrize("method", ["GRPO", "DPO"])
def test_trl(tmp_path, task, method):
    trl = late("trl")
    for part in (tiny.tokenizer("causal"), tiny.model("causal")):
        part.save_pretrained(tmp_path / "model")
    rows, drawn = [{"prompt": one.prompt, "id": one.id} for one in tiny.examples()], {}
    if method == "GRPO":
        drawn = {"num_generations": 4, "max_completion_length": 8}
    else:
        answers = [f" {one.references[0]}" for one in tiny.examples()]
        rows = [row | {"chosen": answer, "rejected": " cat cat"} for row, answer in zip(rows, answers, strict=True)]
    settings = {"max_steps": 2, "per_device_train_batch_size": 4, "report_to": "none", "use_cpu": True}
    settings |= {"logging_steps": 2, "disable_tqdm": True, "learning_rate": 1e-2, **drawn}
    arguments = getattr(trl, f"{method}Config")(str(tmp_path / "trl"), **settings)
    given = {"reward_funcs": grue.rewards.for_trl("rouge1", task=task)} if drawn else {}
    data = late("datasets").Dataset.from_list(rows)
    model = str(tmp_path / "model")
    trainer = getattr(trl, f"{method}Trainer")(model=model, args=arguments, train_dataset=data, **given)
    callback = callbacks.for_trl(trainer, task, every=1, warn=unheard)
    trainer.train()
    assert [one.step for one in callback.watch.history] == [0, 1, 2]
    assert callback.watch.history[0].figures["kl"] == 0 and callback.watch.history[2].figures["kl"] > 0
    assert Path(tmp_path / "trl/grue/best/config.json").exists()
    if given:  # TRL's own figures cover all steps since they were last logged
        (line,) = [line for line in trainer.state.log_history if "reward" in line]
        assert line["step"] == 2 and json.dumps(line)
