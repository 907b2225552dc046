"""What a checkpoint says of decoding: a plain generate does as the benchmark does, and the benchmark heeds none of it."""

import dataclasses
import math

import pytest
from support.late import late

from grue.tasks import Generation

torch, hf, tiny, saved = late("torch"), late("transformers"), late("support.tiny"), late("support.saved")
predicting, loading = late("grue.evaluation.predict"), late("grue.lm.load")

FAMILIES = ("causal", "seq2seq")
SEARCHES = [
    Generation(max_new_tokens=8, min_new_tokens=3),
    Generation(max_new_tokens=6, num_beams=3, length_penalty=2.0),
    Generation(max_new_tokens=6, min_new_tokens=2, num_beams=4, length_penalty=0.5),
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("decoding", SEARCHES)
def test_a_plain_generate_decodes_as_the_benchmark_does(family, decoding, tmp_path):
    model = saved.save(tmp_path / "checkpoint", family, decoding=decoding)
    loaded, tokenizer = saved.load(tmp_path / "checkpoint", family)
    task, examples = dataclasses.replace(tiny.task(family), decoding=decoding), tiny.examples(4)
    for example in examples:
        (wanted,) = predicting.predict((model, tiny.tokenizer(family)), task, [example], decoding, seed=1)
        inputs = tokenizer(example.prompt, return_tensors="pt")
        output = loaded.generate(**inputs)[0]
        answer = output if family == "seq2seq" else output[inputs["input_ids"].shape[1] :]
        assert tokenizer.decode(answer, skip_special_tokens=True).strip() == wanted.text


def wide_model():
    """A vocabulary of more than 50 tokens, all about equally likely: what a hidden top-k of 50 cuts off is seen."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 300, "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 64}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, bos_token_id=1, eos_token_id=1, pad_token_id=0)).eval()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [300]),  # transformers' own default would be 50
        ({"top_k": 7}, [7]),
        ({"min_new_tokens": 1}, [299]),
        ({"top_k": 7, "temperature": 0.1, "top_p": 0.5}, range(1, 8)),
    ],
)
def test_a_plain_generate_samples_from_what_the_benchmark_samples_from(settings, expected, tmp_path):
    decoding = Generation(max_new_tokens=1, do_sample=True, **settings)
    model = saved.save(tmp_path / "checkpoint", decoding=decoding, model=wide_model())
    loaded, _ = saved.load(tmp_path / "checkpoint")
    prompt = torch.tensor([[5, 6, 7]])
    asked = {"attention_mask": torch.ones_like(prompt), "output_scores": True, "return_dict_in_generate": True}
    found = loaded.generate(prompt, **asked).scores[0][0].softmax(-1)
    assert (found > 0).sum().item() in expected
    with torch.no_grad():
        logits = model(prompt).logits[0, -1].tolist()
    assert found.tolist() == pytest.approx(oracle_distribution(logits, decoding), abs=1e-5)


def oracle_distribution(logits, decoding):
    """Temperature, then the closed end token, then top-k, then top-p, one token at a time."""
    open_tokens = {token: logit / decoding.temperature for token, logit in enumerate(logits)}
    if decoding.min_new_tokens:
        del open_tokens[1]
    ranked = sorted(open_tokens, key=open_tokens.get, reverse=True)
    ranked = ranked[: decoding.top_k] if decoding.top_k else ranked
    weights = {token: math.exp(open_tokens[token]) for token in ranked}
    kept, mass = [], 0.0
    for token in ranked:
        if mass >= decoding.top_p:
            break
        kept.append(token)
        mass += weights[token] / sum(weights.values())
    total = sum(weights[token] for token in kept)
    return [weights[token] / total if token in kept else 0.0 for token in range(len(logits))]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_generate_does_by_default_changes_no_evaluation(family, tmp_path):
    """A checkpoint's own settings, whatever they say, are not what the benchmark decodes with."""
    other = Generation(max_new_tokens=5, min_new_tokens=5, num_beams=2, length_penalty=3.0)
    model = saved.save(tmp_path / "checkpoint", family, decoding=other)
    before = model.generation_config.to_dict()
    loaded, tokenizer = loading.load_language_model(family, str(tmp_path / "checkpoint"))
    for decoding in (saved.SAMPLED, Generation(max_new_tokens=8), SEARCHES[1]):
        task = dataclasses.replace(tiny.task(family), decoding=decoding)
        one, two = (
            predicting.predict((made, words), task, tiny.examples(6), decoding, seed=1)
            for made, words in ((model, tiny.tokenizer(family)), (loaded, tokenizer))
        )
        assert one == two
    assert model.generation_config.to_dict() == before
