"""A small chat model: the causal backbone of mini with a minimal chat template, in a folder; and a task for it."""

from grue import files
from grue.lm.load import load_language_model
from grue.task_files import task_folder

TEMPLATE = (
    "{% for message in messages %}{{ '<cls>' + message['role'] + ': ' + message['content'] + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<cls>assistant: ' }}{% endif %}"
)
"""Turns between special tokens of mini's vocabulary; <eos> ends each."""


def chat_model(folder, template=TEMPLATE, name="mini:causal"):
    """Save the model with a chat template (None: without one); return its folder."""
    model, tokenizer = load_language_model("causal" if "causal" in name else "seq2seq", name)
    tokenizer.chat_template = template
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def greedy_task(path):
    """mini/imdb decoded greedily, as an endpoint is asked to, with a chat prompt that the small model has room for."""
    table = files.read_toml(task_folder() / "mini/imdb.toml")
    table |= {"suite": "own", "name": path.stem, "decoding": {"max_new_tokens": 24}}
    table["prompt"]["chat"] = {"version": 1, "system": "Go on.", "user": "{prompt}", "shots": 1}
    files.write_toml(path, table)
    return path
