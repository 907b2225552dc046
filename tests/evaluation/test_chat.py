"""Chat models: the task's conversation in the model's own template, where replies end, and what of them is the answer."""

import json
from dataclasses import replace

import pytest
from support.commands import grue as run
from support.late import late

import grue
from grue import files
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.evaluation.prompting import Asking, answer_in, by_chat, filled
from grue.records import Example
from grue.task_files import load_task, task_folder
from grue.tasks import Chat, Prompt, Shot

tiny, chat_models = late("support.tiny"), late("support.chat_models")
chat, systems = late("grue.evaluation.chat"), late("grue.evaluation.systems")
lm_chat, lm_load, lm_tokens = late("grue.lm.chat"), late("grue.lm.load"), late("grue.lm.tokens")

SAYING = Chat(version=1, system="Be brief.", user="Say: {prompt}", examples=(Shot("a", "b"),))


# --- the conversation ------------------------------------------------------------------------------------------------


def test_what_is_said_to_a_model():
    shown = Asking(str.upper, SAYING, "chat", "h", (Shot("shown", "its answer"),), ("e1",))
    assert shown.question("the {prompt} {0} {{") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say: shown"},
        {"role": "assistant", "content": "its answer"},
        {"role": "user", "content": "Say: THE {PROMPT} {0} {{"},
    ]
    assert shown.record() == {"kind": "chat", "version": 1, "hash": "h", "shots": ["e1"]}
    assert Asking(str.upper).question("plain") == "PLAIN" and Asking(str.upper).record() is None
    assert filled("{{{prompt}}} twice: {prompt}", "x") == "{x} twice: x"


def test_the_draw_does_not_depend_on_the_order_and_leaves_out_what_has_no_reference():
    train = [Example(f"e{n}", f"p{n}", () if n % 2 else (f"r{n}",)) for n in range(20)]

    def drawn(train, seed=3, shots=4):
        prompt = Prompt(9, "left", chat=replace(SAYING, shots=shots, seed=seed))
        return by_chat(replace(load_task("imdb"), prompt=prompt), (), train, str).ids

    assert drawn(train) == drawn(train[::-1]) != drawn(train, seed=4)
    assert len(set(drawn(train))) == 4 and all(int(name[1:]) % 2 == 0 for name in drawn(train))
    assert drawn(train)[:2] == drawn(train, shots=2)


@pytest.mark.parametrize(
    ("cuts", "reply", "answer"),
    [
        ({}, " all\r\nof it \u200b\x1b[2m ", "all\nof it [2m"),
        ({"lines": 1}, "\n\n  first \nsecond", "first"),
        ({"lines": 1}, "the\u2028dog\rran\x85off\nsecond", "the dog ran off"),
        ({"lines": 2}, "a\n\nb\nc", "a\nb"),
        ({"marker": "Answer:"}, "I think.\nAnswer: no, Answer: yes\n", "yes"),
        ({"marker": "Answer:"}, "just yes", "just yes"),
        ({"marker": "</think>", "lines": 1}, "<think>\nhm\n</think>\n\nyes\nbecause", "yes"),
        ({"pattern": r"\[(.*?)\]"}, "it is [this] or [that]", "this"),
        ({"pattern": r"\d+"}, "about 42 or 43", "42"),
        ({"pattern": r"(a)?b"}, "xb", ""),
        ({"pattern": r"\d+", "lines": 1}, "no number\nhere", "no number"),
    ],
)
def test_what_of_a_reply_is_the_answer(cuts, reply, answer):
    assert answer_in(replace(SAYING, **cuts), reply) == answer


def test_prompts_are_cut_as_text_where_training_cuts_their_tokens(refused):
    """The text that is kept has the tokens that `encode_prompts` keeps."""
    model, tokenizer = tiny.model("causal"), lm_load.load_tokenizer("mini:causal")
    for text in ("Burning Orchard is set over a single night.", "Ein Kätzchen 🐈 sagt:  „Nö!“\nZyx", "a", ""):
        for prompt in (Prompt(most, side) for side in ("left", "right") for most in (1, 3, 7, 500)):
            kept = lm_tokens.encode_prompts(model, tokenizer, [text], prompt).lists()[0]
            found = lm_chat.cut_text(tokenizer, text, prompt)
            assert found in text
            if text and "🐈" not in text:
                assert tokenizer.decode(kept) == tokenizer.decode(tokenizer(found)["input_ids"])
    slow = lm_load.load_tokenizer("mini:causal")
    slow.__class__ = type("Slow", (type(slow),), {"is_fast": False})
    with refused(DataError):
        lm_chat.cut_text(slow, "a b", Prompt(1, "left"))


def test_rows_of_ones_own_that_are_numbered_in_each_file_may_be_shown_and_answered():
    task = load_task("imdb")
    task = replace(task, prompt=replace(task.prompt, chat=replace(SAYING, examples=(), shots=2)))
    train, test = ([Example(str(n), f"{split} {n}", ("yes",)) for n in range(2)] for split in ("train", "test"))
    with pytest.raises(ConfigError, match="the chat prompt shows 0 with its answer"):
        by_chat(task, test, train, str)  # ids of a data set are those of its content
    own = replace(task, data=replace(task.data, format="examples"))
    asked = by_chat(own, test, train, str)
    assert set(asked.ids) == {"0", "1"} and not any(map(asked.shows, test)) and all(map(asked.shows, train))


@pytest.mark.slow
def test_every_shipped_task_can_be_asked():
    for path in sorted((task_folder() / "mini").glob("*.toml")):
        task = load_task(path.stem)
        shown, test = (load_examples(task, split).examples for split in ("validation", "test"))
        asked = by_chat(task, test, shown, str)
        assert len(asked.ids) == task.prompt.chat.shots > 0
        turns = asked.question(test[0].prompt)
        assert len(turns) == 2 + 2 * len(asked.ids) and turns[-1]["content"] == test[0].prompt
    for path in sorted((task_folder() / "grue").glob("*.toml")):
        said = load_task(path.stem, "grue").prompt.chat
        assert said is not None and said.version == 1


# --- the model's template --------------------------------------------------------------------------------------------

SAID = [{"role": "system", "content": "A."}, {"role": "user", "content": "B?"}]


@pytest.fixture(scope="module")
def tokenizer():
    return lm_load.load_tokenizer("mini:causal")


def test_a_template_and_where_its_replies_end(tokenizer):
    for end, token in ("<eos>", "<eos>"), ("<pad>", "<pad>"), ("\n", "<eos>"):
        tokenizer.chat_template = chat_models.TEMPLATE.replace("<eos>", end)
        found = lm_chat.chat_template("m", tokenizer)
        assert found.end == tokenizer.convert_tokens_to_ids(token) and not found.joined
        assert found.render(SAID) == f"<cls>system: A.{end}<cls>user: B?{end}<cls>assistant: "


def test_a_template_without_a_place_for_the_system_message(tokenizer):
    template = chat_models.TEMPLATE
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + template
    ignoring = template.replace("{{ '<cls>'", "{{ '' if message['role'] == 'system' else '<cls>'")
    for tokenizer.chat_template in (refusing, ignoring):
        found = lm_chat.chat_template("m", tokenizer)
        assert found.joined
        assert found.render(SAID) == "<cls>user: A.\n\nB?<eos><cls>assistant: "
        assert found.render(SAID[1:]) == "<cls>user: B?<eos><cls>assistant: "


def test_templates_that_cannot_be_used(tokenizer, refused):
    tokenizer.chat_template = None
    with refused(ConfigError):
        lm_chat.chat_template("m", tokenizer)
    for tokenizer.chat_template in (
        "{{ messages[9].content.x }}",
        "{% for %}",
        "{{ raise_exception('\x1b[31mno') }}",
        "{{ ''.__class__.__mro__ }}{{ messages }}",
        "hello",
    ):
        with refused(DataError):
            lm_chat.chat_template("m", tokenizer)


# --- answers ---------------------------------------------------------------------------------------------------------


def test_an_answer_depends_on_no_batch_and_ends_at_either_end():
    model, tokenizer = lm_load.load_language_model("causal", "mini:causal")
    tokenizer.chat_template = chat_models.TEMPLATE.replace("<eos>", "<pad>")
    task = load_task("commongen")
    prompt = replace(task.prompt, chat=Chat(version=1, user="{prompt}"))
    task = replace(task, prompt=prompt, decoding=replace(task.rollout, min_new_tokens=3))
    examples = load_examples(task, "test").examples[:4]
    found = chat.chatting("m", model, tokenizer, task, by_chat(task, examples, (), str), 5)
    together = found.answer(examples)
    assert together == [found.answer([example])[0] for example in examples]
    assert len({one.text for one in together}) == 4
    assert found.settings.min_new_tokens == 0
    # <eos> ends what is written too, although <pad> ends a turn: what stands behind it is no part of the answer.
    bias = model.lm_head.weight.new_zeros(model.lm_head.weight.shape[0])
    bias[tokenizer.eos_token_id] = 1e4
    model.lm_head.register_forward_hook(lambda module, _, logits: logits + bias)
    ended = found.answer(examples)
    assert [(one.text, one.truncated) for one in ended] == [("", False)] * 4


def test_a_chat_model_is_evaluated_as_another_system(own, tmp_path):
    chat_models.chat_model("tiny")
    files.write_jsonl(tmp_path / "train.jsonl", [{"id": "t", "prompt": "a cat runs", "references": ["It ran."]}])

    def evaluate(chat, *options, code=0):
        task = own(
            data={"sources": [{"kind": "local", "files": {"train": "train.jsonl", "test": "rows.jsonl"}}]},
            backbone={"family": "seq2seq", "model": "mini:seq2seq"},
            prompt={"max_tokens": 8, "truncation": "left", "chat": chat},
            decoding={"num_beams": 4, "max_new_tokens": 8},
        )
        return run("evaluate", "--task", task, "--model", "tiny", "--chat", "--json", *options, code=code)

    (found,) = json.loads(evaluate({"version": 1, "user": "{prompt}", "shots": 1}).stdout)
    assert found["system"]["name"] == "tiny+chat" and found["system"]["algorithm"] == "external"
    prompting = found["generation"]["prompting"]
    assert (prompting["kind"], prompting["shots"]) == ("chat", ["t"])
    assert found["generation"]["num_beams"] == 4  # as the task decodes
    assert 5 * 20 < prompting["prompt_tokens"] < 5 * 200
    assert (tmp_path / "runs/own/words/tiny+chat/seed-1/predictions.jsonl").is_file()
    # What was asked otherwise is never mixed with it.
    other = {"version": 2, "user": "Now: {prompt}"}
    assert "holds an evaluation by another chat prompt (" in evaluate(other, code=2).stderr
    assert json.loads(evaluate(other, "--system", "ours").stdout)[0]["system"]["name"] == "ours"


def test_models_that_cannot_be_asked_by_a_chat_prompt(tmp_path, refused):
    task = load_task("imdb")
    with refused(ConfigError):
        systems.external_system(task, "mini:causal", 1, chat=True)
    with refused(DataError):
        systems.external_system(load_task("commongen"), "mini:seq2seq", 1, chat=True)
    with refused(ConfigError):
        systems.external_system(replace(task, prompt=Prompt(9, "left")), "mini:causal", 1, chat=True)
    chat_models.chat_model(tmp_path / "tiny")
    for options in ({"limit": 2}, {"best_of": 4}):
        with refused(ConfigError):
            grue.evaluate(tmp_path / "tiny", "imdb", chat=True, runs=tmp_path / "runs", **options)
    assert not list((tmp_path / "runs").rglob("*.json"))
