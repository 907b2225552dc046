"""The file of a task of one's own, whose splits are all the file `rows.jsonl` beside it; to be formatted with a metric."""

from support.paths import ROOT

from grue import files

OWN_TASK = """
reward = "rougeL"
metrics = [{{ name = "{metric}", axis = "preference", range = [0, 1] }}]
[data]
sources = [{{ kind = "local", files = {{ train = "rows.jsonl", validation = "rows.jsonl", test = "rows.jsonl" }} }}]
[prompt]
max_tokens = 8
truncation = "left"
[rollout]
max_new_tokens = 8
[backbone]
family = "causal"
model = "mini:causal"
"""


def small_task(folder, name="commongen", **changed):
    """Write a task like that of mini, with two rows for all splits and changed metrics; return its file."""
    table = files.read_toml(ROOT / f"tasks/mini/{name}.toml")
    told = {"cat sit": ["the cat sits", "a cat sat down"], "dog": ["a dog runs"]}
    rows = [
        {"id": name, "prompt": f"with: {words}", "references": references, "meta": {"concepts": words.split()}}
        for name, (words, references) in zip("ab", told.items(), strict=True)
    ]
    files.write_jsonl(folder / "rows.jsonl", rows)
    every = dict.fromkeys(("train", "validation", "test"), "rows.jsonl")
    table |= {"suite": "own", "data": {"sources": [{"kind": "local", "files": every}]}}
    table["metrics"] = [{**one, "name": changed.get(one["name"], one["name"])} for one in table["metrics"]]
    files.write_toml(folder / f"{name}.toml", table)
    return folder / f"{name}.toml"
