"""What a checkpoint says of decoding: a plain generate does as the benchmark does, and the benchmark heeds none of it."""

import dataclasses
import math

import pytest
from support.late import lates

from grue.tasks import Generation

torch, tiny, tiny_models, saved, exactness, oracles = lates(
    "torch support.tiny support.tiny_models support.saved support.exactness support.oracles"
)
predicting, loading = lates("grue.evaluation.predict grue.lm.load")

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
    model = saved.save(tmp_path / "checkpoint", decoding=decoding, model=tiny_models.wide())
    loaded, _ = saved.load(tmp_path / "checkpoint")
    prompt = torch.tensor([[5, 6, 7]])
    asked = {"attention_mask": torch.ones_like(prompt), "output_scores": True, "return_dict_in_generate": True}
    found = loaded.generate(prompt, **asked).scores[0][0].softmax(-1)
    assert (found > 0).sum().item() in expected
    (logits,) = exactness.alone(model, [5, 6, 7], [0])
    now = [logit / decoding.temperature for logit in logits]
    allowed = exactness.slow_support(now, decoding, 0)
    chances = [math.exp(oracles.token_log_prob(now, v, allowed)) if v in allowed else 0.0 for v in range(300)]
    assert found.tolist() == pytest.approx(chances, abs=1e-5)


@pytest.mark.filterwarnings("ignore:.*are not applied. no_repeat_ngram_size")
@pytest.mark.parametrize("family", FAMILIES)
def test_what_generate_does_by_default_changes_no_evaluation(family, tmp_path):
    other = Generation(max_new_tokens=5, min_new_tokens=5, num_beams=2, length_penalty=3.0)
    model = saved.save(tmp_path / "checkpoint", family, decoding=other)
    before = model.generation_config.to_dict()
    elsewhere = saved.load(tmp_path / "checkpoint", family)[0]
    elsewhere.generation_config.update(forced_eos_token_id=1, no_repeat_ngram_size=1, min_length=9)
    elsewhere.save_pretrained(tmp_path / "elsewhere")
    tiny.tokenizer(family).save_pretrained(tmp_path / "elsewhere")
    loaded = [loading.load_language_model(family, str(tmp_path / name)) for name in ("checkpoint", "elsewhere")]
    for decoding in (saved.SAMPLED, Generation(max_new_tokens=8), SEARCHES[1]):
        task = dataclasses.replace(tiny.task(family), decoding=decoding)
        wanted, *found = (
            predicting.predict(system, task, tiny.examples(6), decoding, seed=1)
            for system in ((model, tiny.tokenizer(family)), *loaded)
        )
        assert found == [wanted, wanted]
    assert model.generation_config.to_dict() == before
