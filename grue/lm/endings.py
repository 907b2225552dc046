"""Keeping a tokenizer from appending tokens to a text that a causal model is to continue.

Tokenizers such as Llama's (`add_eos_token`) and BERT's append an end token to every text. Tokens that they put before a
text stay.
"""

import json
from typing import Any

from tokenizers import processors
from transformers import PreTrainedTokenizerBase


def append_nothing(tokenizer: PreTrainedTokenizerBase) -> None:
    """Change a tokenizer, and so its saved copies, to append nothing to a text.

    It raises a ValueError if its post-processor drops the text.
    """
    if getattr(tokenizer, "add_eos_token", False):
        tokenizer.add_eos_token = False
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        _open_in_python(tokenizer)
    elif backend.post_processor is not None:
        before = json.loads(backend.post_processor.__getstate__())
        after = _open(before)
        if after != before:
            processor = processors.TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
            processor.__setstate__(json.dumps(after).encode())
            backend.post_processor = processor


def _open(processor: dict[str, Any]) -> dict[str, Any]:
    """Return a post-processor's description without the part after the text."""
    kind = processor["type"]
    if kind == "Sequence":
        return processor | {"processors": [_open(part) for part in processor["processors"]]}
    if kind == "TemplateProcessing":
        return processor | {"single": _up_to_text(processor["single"]), "pair": _up_to_text(processor["pair"])}
    if kind in ("BertProcessing", "RobertaProcessing"):
        token, number = processor["cls"]
        start = {"SpecialToken": {"id": token, "type_id": 0}}
        texts = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
        special = {token: {"id": token, "ids": [number], "tokens": [token]}}
        template = {"type": "TemplateProcessing", "special_tokens": special}
        template |= {"single": [start, texts[0]], "pair": [start, *texts]}
        if kind == "BertProcessing":
            return template
        spaces = {key: processor[key] for key in ("add_prefix_space", "trim_offsets")}
        return {"type": "Sequence", "processors": [{"type": "ByteLevel", "use_regex": True, **spaces}, template]}
    return processor


def _up_to_text(template: list[dict[str, Any]]) -> list[dict[str, Any]]:
    texts = [place for place, part in enumerate(template) if "Sequence" in part]
    if not texts:
        raise ValueError("its post_processor leaves out the text")
    return template[: texts[-1] + 1]


def _open_in_python(tokenizer: PreTrainedTokenizerBase) -> None:
    build, probe = tokenizer.build_inputs_with_special_tokens, -1
    whole = build([probe])
    behind = len(whole) - 1 - whole.index(probe)
    if behind:
        tokenizer.build_inputs_with_special_tokens = lambda ids, pair=None: build(ids, pair)[:-behind]
