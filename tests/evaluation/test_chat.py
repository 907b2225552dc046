"""Chat models: the task's conversation in the model's own template, where replies end, and what of them is the answer."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from support import tiny
from support.chat_models import TEMPLATE, chat_model

import grue
from grue import files
from grue.cli.main import main
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.evaluation.chat import chatting
from grue.evaluation.prompting import Asking, answer_in, by_chat, draw, filled
from grue.evaluation.systems import external_system
from grue.lm.chat import chat_template, cut_text
from grue.lm.load import load_language_model, load_tokenizer
from grue.lm.tokens import encode_prompts
from grue.records import Example
from grue.task_files import load_task, task_folder
from grue.tasks import Chat, Prompt, Shot

SAYING = Chat(version=1, system="Be brief.", user="Say: {prompt}", examples=(Shot("a", "b"),))


# --- the conversation ------------------------------------------------------------------------------------------------


def test_what_is_said_to_a_model():
    shown = Asking(str.upper, SAYING, "h", (Shot("shown", "its answer"),), ("e1",))
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
    chat = replace(SAYING, shots=4, seed=3)
    first = [example.id for example in draw(chat, train)]
    assert first == [example.id for example in draw(chat, train[::-1])]
    assert len(set(first)) == 4 and all(int(name[1:]) % 2 == 0 for name in first)
    assert first != [example.id for example in draw(replace(chat, seed=4), train)]
    assert first[:2] == [example.id for example in draw(replace(chat, shots=2), train)]


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


def test_prompts_are_cut_as_text_where_training_cuts_their_tokens():
    """The text that is kept has the tokens that `encode_prompts` keeps."""
    model, tokenizer = tiny.model("causal"), load_tokenizer("mini:causal")
    for text in ("Burning Orchard is set over a single night.", "Ein Kätzchen 🐈 sagt:  „Nö!“\nZyx", "a", ""):
        for side in ("left", "right"):
            for most in (1, 3, 7, 500):
                prompt = Prompt(most, side)
                kept = encode_prompts(model, tokenizer, [text], prompt).lists()[0]
                found = cut_text(tokenizer, text, prompt)
                assert found in text
                if text and "🐈" not in text:
                    assert tokenizer.decode(kept) == tokenizer.decode(tokenizer(found)["input_ids"])
    slow = load_tokenizer("mini:causal")
    slow.__class__ = type("Slow", (type(slow),), {"is_fast": False})
    with pytest.raises(DataError, match=r"give the task a backbone with a tokenizer\.json"):
        cut_text(slow, "a b", Prompt(1, "left"))


@pytest.mark.slow
def test_every_shipped_task_asks_without_showing_what_it_asks():
    for path in sorted((task_folder() / "mini").glob("*.toml")):
        task = load_task(path.stem)
        train, test = (load_examples(task, split).examples for split in ("train", "test"))
        asked = by_chat(task, test, train, str)
        assert len(asked.ids) == task.prompt.chat.shots > 0
        turns = asked.question(test[0].prompt)
        assert len(turns) == 2 + 2 * len(asked.ids) and turns[-1]["content"] == test[0].prompt
    for path in sorted((task_folder() / "grue").glob("*.toml")):
        chat = load_task(path.stem, "grue").prompt.chat
        assert chat is not None and chat.version == 1


# --- the model's template --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("mini:causal")


def test_a_template_and_where_its_replies_end(tokenizer):
    tokenizer.chat_template = TEMPLATE
    found = chat_template("m", tokenizer)
    assert (found.joined, found.end) == (False, tokenizer.eos_token_id)
    text = found.render([{"role": "system", "content": "A."}, {"role": "user", "content": "B?"}])
    assert text == "<cls>system: A.<eos><cls>user: B?<eos><cls>assistant: "
    tokenizer.chat_template = TEMPLATE.replace("<eos>", "<pad>")  # a turn ends by another token than a text does
    assert chat_template("m", tokenizer).end == tokenizer.convert_tokens_to_ids("<pad>") != tokenizer.eos_token_id
    tokenizer.chat_template = TEMPLATE.replace("<eos>", "\n")
    assert chat_template("m", tokenizer).end == tokenizer.eos_token_id


def test_a_template_without_a_place_for_the_system_message(tokenizer):
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TEMPLATE
    ignoring = TEMPLATE.replace("{{ '<cls>'", "{{ '' if message['role'] == 'system' else '<cls>'")
    for template in (refusing, ignoring):
        tokenizer.chat_template = template
        found = chat_template("m", tokenizer)
        assert found.joined
        said = [{"role": "system", "content": "A."}, {"role": "user", "content": "B?"}]
        assert found.render(said) == "<cls>user: A.\n\nB?<eos><cls>assistant: "
        assert found.render(said[1:]) == "<cls>user: B?<eos><cls>assistant: "


def test_templates_that_cannot_be_used(tokenizer):
    tokenizer.chat_template = None
    with pytest.raises(ConfigError, match=r"^m: its tokenizer has no chat template, so it is no chat model"):
        chat_template("m", tokenizer)
    for template, told in (
        ("{{ messages[9].content.x }}", "its chat template cannot be applied: "),
        ("{% for %}", "its chat template cannot be applied: "),
        ("{{ raise_exception('\x1b[31mno') }}", r"cannot be applied: \\x1b\[31mno\."),
        ("{{ ''.__class__.__mro__ }}{{ messages }}", "cannot be applied: access to attribute '__class__'"),
        ("hello", "leaves out what is asked"),
    ):
        tokenizer.chat_template = template
        with pytest.raises(DataError, match=told):
            chat_template("m", tokenizer)


# --- answers ---------------------------------------------------------------------------------------------------------


def chat_task(**chat):
    task = load_task("commongen")
    prompting = Chat(version=1, user="{prompt}", **chat)
    return replace(task, prompt=replace(task.prompt, chat=prompting), decoding=replace(task.rollout, min_new_tokens=3))


def test_an_answer_depends_on_no_batch_and_ends_at_either_end(tmp_path):
    model, tokenizer = load_language_model("causal", "mini:causal")
    tokenizer.chat_template = TEMPLATE.replace("<eos>", "<pad>")
    task = chat_task()
    examples = load_examples(task, "test").examples[:4]
    found = chatting("m", model, tokenizer, task, by_chat(task, examples, (), str), 5)
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


def evaluate(*options):
    return CliRunner().invoke(main, ["evaluate", *map(str, options)])


def test_a_chat_model_is_evaluated_as_another_system(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chat_model("tiny")
    table = files.read_toml(task_folder() / "mini/wmt16.toml")  # whose backbone is an encoder-decoder
    table |= {
        "suite": "own",
        "name": "short",
        "metrics": [m for m in table["metrics"] if m["name"] == "chrf"],
        "families": [],
    }
    table["prompt"]["chat"] = {"version": 1, "user": "{prompt}", "shots": 1}
    files.write_toml(tmp_path / "short.toml", table)
    result = evaluate("--task", "short.toml", "--model", "tiny", "--chat", "--limit", 3, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)[0]
    assert found["system"]["name"] == "tiny+chat" and found["system"]["algorithm"] == "external"
    assert found["generation"]["prompting"]["kind"] == "chat" and len(found["generation"]["prompting"]["shots"]) == 1
    assert found["generation"]["num_beams"] == 4  # as the task decodes
    assert 3 * 20 < found["generation"]["prompting"]["prompt_tokens"] < 3 * 200
    assert (tmp_path / "runs/own/short/tiny+chat/seed-1/predictions.jsonl").is_file()
    result = evaluate("--task", "short.toml", "--model", "tiny", "--chat", "--limit", 3, "--system", "ours", "--json")
    assert json.loads(result.stdout)[0]["system"]["name"] == "ours"
    # What was asked otherwise is never mixed with it.
    table["prompt"]["chat"] = {"version": 2, "user": "Now: {prompt}"}
    files.write_toml(tmp_path / "short.toml", table)
    result = evaluate("--task", "short.toml", "--model", "tiny", "--chat", "--limit", 3)
    assert result.exit_code == 2 and "holds an evaluation by another chat prompt (" in result.stderr


def test_models_that_cannot_be_asked_by_a_chat_prompt(tmp_path):
    task = load_task("imdb")
    with pytest.raises(ConfigError, match="mini:causal: its tokenizer has no chat template"):
        external_system(task, "mini:causal", 1, chat=True)
    with pytest.raises(
        DataError, match="mini:seq2seq cannot be loaded as a causal language model: it is an encoder-decoder"
    ):
        external_system(load_task("commongen"), "mini:seq2seq", 1, chat=True)
    with pytest.raises(ConfigError, match=r"\[prompt\.chat\]"):
        external_system(replace(task, prompt=Prompt(9, "left")), "mini:causal", 1, chat=True)
    chat_model(tmp_path / "tiny")
    with pytest.raises(
        ConfigError, match=r"the conversation takes \d+ tokens and the reply up to 24, .* has 256 positions"
    ):
        grue.evaluate(tmp_path / "tiny", "imdb", chat=True, limit=2, runs=tmp_path / "runs")
    with pytest.raises(ConfigError, match="one reply is taken; leave --best-of out"):
        grue.evaluate(tmp_path / "tiny", "imdb", chat=True, best_of=4, runs=tmp_path / "runs")
    assert not list((tmp_path / "runs").rglob("*.json"))
