"""The tokenizers that a metric's option can name."""

from grue.metrics.tokens import Tokenizer, tokens_13a, whitespace, words
from grue.metrics.treebank import treebank
from grue.registry import Registry

TOKENIZERS: Registry[Tokenizer] = Registry(
    "tokenizer", {"words": words, "whitespace": whitespace, "13a": tokens_13a, "treebank": treebank}
)
