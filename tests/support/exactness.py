"""What the tests of the details of docs/reference/exactness.md share: samplers, and slow ways to the same numbers."""

import math

import torch
from support import oracles, tiny
from support.tiny import ALGORITHMS

from grue.rl.experience import collect
from grue.rl.settings import RolloutConfig
from grue.rl.trainer import start
from grue.runs.algorithms import find_algorithm

# Those with a policy ratio.
LEARNERS = [name for name in ALGORITHMS if issubclass(find_algorithm(name).settings, RolloutConfig)]
MORE = {
    **{name: {"samples_per_prompt": 2} for name in tiny.GROUPED},
    **{name: {"samples_per_prompt": 2, "value_prompts": 12} for name in ("alol", "dapo_advantage")},
    "trpo": {"cg_steps": 3, "critic_epochs": 1},
}
SAMPLERS = {
    "everything": {},
    "temperature": {"temperature": 0.6},
    "top-k": {"top_k": 5, "temperature": 1.3},
    "top-p": {"top_p": 0.7},
    "least length": {"min_new_tokens": 3, "temperature": 4.0},
    "all of them": {"top_k": 15, "top_p": 0.95, "min_new_tokens": 2, "temperature": 3.0},
}
EOS, SEED = 1, 2


def letters(examples, texts):
    """A reward that differs from text to text."""
    return [len(set(text)) / 10 + text.count("a") / 7 for text in texts]


def plain(model, prompt, response, start=0):
    """Logits [T, V] and states [T, H] before each token: no batch, no padding, the model called as its documentation says."""
    if model.config.is_encoder_decoder:
        begun = torch.tensor([[start, *response[:-1]]])
        out = model(input_ids=torch.tensor([prompt]), decoder_input_ids=begun, output_hidden_states=True)
        return out.logits[0], out.decoder_hidden_states[-1][0]
    out = model(input_ids=torch.tensor([prompt + response]), output_hidden_states=True)
    here = slice(len(prompt) - 1, -1)
    return out.logits[0, here], out.hidden_states[-1][0, here]


def alone(model, prompt, response):
    """The logits of one response, as lists."""
    with torch.no_grad():
        return plain(model, prompt, response)[0].tolist()


def greedy(model, prompt, longest, start=0):
    """The likeliest response, one plain call a token."""
    said = []
    while len(said) < longest and EOS not in said:
        with torch.no_grad():
            following = plain(model, prompt, [*said, EOS], start)[0][-1].tolist()
        said.append(following.index(max(following)))
    return said


def at_once(model, prompt, begun):
    """Logits [N, T + 1, V] of beginnings [N, T] of a response to the same prompt."""
    prompts, start = torch.tensor([prompt]).expand(len(begun), -1), torch.zeros_like(begun[:, :1])
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            return model(input_ids=prompts, decoder_input_ids=torch.cat([start, begun], 1)).logits.tolist()
        return model(input_ids=torch.cat([prompts, begun], 1)).logits[:, -begun.shape[1] - 1 :].tolist()


def real(tokens, row):
    return tokens.ids[row][tokens.mask[row]].tolist()


def slow_support(logits, settings, t, masking=None, top_p=None):
    """Ids that may follow: the mask and the end token, less what comes too early, then top-k, then top-p."""
    allowed = set(range(len(logits)))
    early = {EOS} if t < settings.min_new_tokens else set()
    if masking is not None:
        allowed = oracles.nucleus([-math.inf if v in early else x for v, x in enumerate(masking)], top_p) | {EOS}
    ranked = sorted(allowed - early, key=lambda v: -logits[v])
    ranked = ranked[: settings.top_k] if settings.top_k else ranked
    if settings.top_p == 1.0:
        return set(ranked)
    return {ranked[i] for i in oracles.nucleus([logits[v] for v in ranked], settings.top_p)}


def world(family, folder, sampler, masked, n=1, **settings):
    """A run whose policy, reference and masking policy are three different models, and what update `n` collects."""
    task = tiny.task(family, **SAMPLERS[sampler])
    settings = {"kl_coefficient": 0.3, "missing_eos_penalty": 0.25, **settings} | ({"top_p": 0.8} if masked else {})
    run = tiny.run(family, "nlpo" if masked else "ppo", folder, seed=SEED, task_=task, reward=letters, **settings)
    learner = start(run.trainer, run.plan.config)
    learner.reference.load_state_dict(tiny.model(family, seed=5).state_dict())
    torch.nn.init.normal_(learner.critic.head.weight, generator=torch.Generator().manual_seed(3))
    if masked:
        learner.mask_model.load_state_dict(tiny.model(family, seed=6).state_dict())
        learner.mask_age = 1
    return run, learner, collect(run.trainer, learner, run.plan.config, n)
