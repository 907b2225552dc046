"""What the tests of checkpoints share: a tiny model saved, and loaded by transformers alone."""

from support import tiny
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from grue.lm import checkpoint
from grue.tasks import Generation

MANIFEST = checkpoint.CheckpointManifest(
    suite="tests",
    task="tiny",
    task_hash="0",
    system="ppo",
    algorithm="ppo",
    backbone="tiny",
    seed=1,
    update=3,
    config_sha256="0",
    validation={"reward": 0.5},
    training={"tokens": 10.0},
)
SAMPLED = Generation(max_new_tokens=8, do_sample=True)
AUTO = {"causal": AutoModelForCausalLM, "seq2seq": AutoModelForSeq2SeqLM}


def save(folder, family="causal", seed=0, decoding=SAMPLED, model=None):
    model = tiny.model(family, seed) if model is None else model
    checkpoint.save_checkpoint(folder, model, tiny.tokenizer(family), MANIFEST, decoding, "# A card\n")
    return model


def load(folder, family="causal"):
    return AUTO[family].from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
