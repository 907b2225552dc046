"""The file of a task of one's own, whose splits are all the file `rows.jsonl` beside it; to be formatted with a metric."""

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
