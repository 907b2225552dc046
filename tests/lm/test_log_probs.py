"""Log-probabilities in chunks: equal to those of the whole logits, in value and gradient, and far smaller."""

import pytest
from support import tiny_models
from support.late import lates

from grue.errors import ConfigError

torch, oracles = lates("torch support.oracles")
distributions, forwarding, scoring, lm, tokens = lates("distributions forward log_probs model tokens", "grue.lm.")

TEMPERATURE = 0.7


def with_support(kind):
    model, prompts, responses = tiny_models.batch(kind)
    shape = (*responses.ids.shape, lm.vocabulary_size(model))
    opened = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.5
    opened.scatter_(-1, responses.ids.unsqueeze(-1), responses.mask.unsqueeze(-1))  # closed behind the end
    return model, prompts, responses, opened


def loss(model, prompts, responses, support, chunk, **settings):
    wanted = {"want_entropy": True, "want_states": True, **settings}
    scored = scoring.token_log_probs(model, prompts, responses, TEMPERATURE, support, chunk=chunk, **wanted)
    states = scored.states[responses.mask].square().mean()
    total = scored.plain.sum() + 2 * scored.restricted.square().sum() + 0.3 * scored.entropy.sum() + states
    return scored, tiny_models.gradients(model, total)


def assert_equal(scored, found, whole, gradients):
    for name in ("plain", "restricted", "entropy", "states"):
        assert torch.allclose(getattr(scored, name), getattr(whole, name), atol=1e-5)
    assert found.keys() == gradients.keys()
    for name, gradient in gradients.items():
        assert torch.allclose(found[name], gradient, rtol=1e-5, atol=1e-5 * float(gradient.abs().max() + 1))


@pytest.mark.parametrize("wide", [1, 10**6])
@pytest.mark.parametrize("chunk", [0, 4])
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
def test_every_score_is_the_slow_one(kind, chunk, wide, monkeypatch):
    monkeypatch.setattr(lm, "WIDE", wide)
    model, prompts, responses, opened = with_support(kind)
    with torch.no_grad():
        logits, _ = forwarding.forward(model, prompts, responses)
        support = distributions.pack_bits(opened)
        asked = (model, prompts, responses, TEMPERATURE, support)
        scored = scoring.token_log_probs(*asked, chunk=chunk, want_entropy=True)
    for b, t in responses.mask.nonzero().tolist():
        row, token = [x / TEMPERATURE for x in logits[b, t].tolist()], int(responses.ids[b, t])
        kept = opened[b, t].nonzero().flatten().tolist()
        assert float(scored.plain[b, t]) == pytest.approx(oracles.token_log_prob(row, token), abs=1e-4)
        assert float(scored.restricted[b, t]) == pytest.approx(oracles.token_log_prob(row, token, kept), abs=1e-4)
        expected = oracles.entropy(oracles.softmax([row[v] for v in kept]))
        assert float(scored.entropy[b, t]) == pytest.approx(expected, abs=1e-4)
    for part in (scored.plain, scored.restricted, scored.entropy):
        assert (part[~responses.mask] == 0).all() and part.dtype == torch.float32


@pytest.mark.parametrize("kind", tiny_models.ALL)
def test_blocks_and_open_tokens_alone_change_neither_values_nor_gradients_and_need_no_pass_of_the_head(
    kind, monkeypatch
):
    model, prompts, responses, opened = with_support(kind)
    scoring.assert_head_is_separable(model)
    # Eleven tokens count. Logits made twice, in blocks of eight columns, of sixteen, of all; logits kept, in two ways.
    blocks = [(1, 99, 2**21, 0), (4, 99, 200, 0), (100, 99, 2**21, 0), (0, 1, 100, 0), (0, 1, 2**21, 0)]
    open_tokens_alone = [(0, 1, 2**21, scoring.FEW), (4, 1, 2**21, scoring.FEW)]
    for support in (distributions.pack_bits(opened), None):
        whole, gradients = loss(model, prompts, responses, support, chunk=0)
        for chunk, wide, block, few in (*blocks, *(open_tokens_alone if support is not None else ())):
            with monkeypatch.context() as patch:
                patch.setattr(lm, "WIDE", wide)
                patch.setattr(scoring, "BLOCK", {"cpu": block})
                patch.setattr(scoring, "FEW", few)
                scored, found = loss(model, prompts, responses, support, chunk)
            assert_equal(scored, found, whole, gradients)
    seen, layer = [], model.get_output_embeddings()
    hook = layer.register_forward_hook(lambda layer, given, out: seen.append(out.numel()))
    states, head, _ = scoring.response_states_and_head(model, prompts, responses)
    assert seen == [0] and head(states).shape == opened.shape
    hook.remove()
    assert not layer._forward_pre_hooks


@pytest.mark.parametrize("chunk", [0, 3])
@pytest.mark.parametrize("masked", [True, False])
def test_blocks_of_a_large_vocabulary_are_exact_in_value_and_gradient(masked, chunk):
    """Against double precision: a bias, a cap and a temperature; supports that begin late, of one token, and nearly all."""
    chance, count, size = torch.Generator().manual_seed(0), 5, 70_001
    states, weight, bias = (torch.randn(shape, generator=chance) for shape in ((count, 8), (size, 8), (size,)))
    ids = torch.tensor([0, 40_000, size - 1, 8, 69_000])
    opened = torch.ones(count, size, dtype=torch.bool)
    opened[1, :30_000], opened[2], opened[2, -1], opened[3, 9] = False, False, True, False
    layer = torch.nn.Linear(8, size)
    layer.weight.data, layer.bias.data = 4 * weight, bias
    states.requires_grad_()
    head = scoring.Head(layer, None, 30.0)
    packed = distributions.pack_bits(opened) if masked else None
    found = head.scores(states, ids, packed, TEMPERATURE, chunk, want_plain=True, want_entropy=True)
    wanted = torch.randn(3, count, generator=chance)
    leaves = (states, layer.weight, layer.bias)
    gradients = torch.autograd.grad((torch.stack(found) * wanted).sum(), leaves)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    logits = 30 * torch.tanh((exact[0] @ exact[1].T + exact[2]) / 30) / TEMPERATURE
    inside = logits.masked_fill(~opened, -1e9).log_softmax(-1) if masked else logits.log_softmax(-1)
    drawn = [values.gather(1, ids.unsqueeze(1))[:, 0] for values in (inside, logits.log_softmax(-1))]
    expected = [*drawn, -(inside.exp() * inside).sum(-1)]
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one.double(), other, rtol=1e-6, atol=1e-5)
    for one, other in zip(gradients, torch.autograd.grad((torch.stack(expected) * wanted).sum(), exact), strict=True):
        assert torch.allclose(one.double(), other, rtol=1e-4, atol=1e-6 * float(other.abs().max()))


def test_a_token_outside_the_support_has_no_probability(monkeypatch):
    monkeypatch.setattr(lm, "WIDE", 1)
    model, prompts, responses, opened = with_support("llama")
    opened[0, 0] = False
    opened[0, 0, int(responses.ids[0, 0]) - 1] = True
    scored = scoring.token_log_probs(model, prompts, responses, 1.0, distributions.pack_bits(opened), want_entropy=True)
    assert scored.restricted[0, 0] == float("-inf") and scored.entropy[0, 0] == 0
    assert scored.restricted[responses.mask].isfinite().sum() == responses.mask.sum() - 1


def test_all_logits_are_computed_where_many_tokens_are_open_or_the_head_is_not_plain(monkeypatch):
    model, _, responses, opened = with_support("llama")
    packed = distributions.pack_bits(opened)[responses.mask]
    assert scoring.open_tokens(model, packed) is None  # the vocabulary is narrow
    monkeypatch.setattr(lm, "WIDE", 1)
    listed = [row[kept].tolist() for row, kept in zip(*scoring.open_tokens(model, packed), strict=True)]
    assert listed == [row.nonzero().flatten().tolist() for row in opened[responses.mask]]
    assert scoring.open_tokens(model, packed[:0]) is None
    assert scoring.open_tokens(model, torch.cat([packed, torch.zeros_like(packed[:1])])) is None
    monkeypatch.setattr(scoring, "FEW", 3)
    assert scoring.open_tokens(model, packed) is None
    monkeypatch.undo()
    monkeypatch.setattr(lm, "WIDE", 1)
    adapted = tiny_models.model("llama")
    adapted.lm_head = torch.nn.Sequential(adapted.lm_head)
    adapted.lm_head.weight = adapted.lm_head[0].weight
    assert not scoring.has_plain_head(adapted)
    assert not scoring.has_plain_head(louder(tiny_models.model("llama")))


def test_tokens_are_not_listed_where_many_are_open(monkeypatch):
    """A list of them takes three bytes for each token of the vocabulary, at each position."""
    model, _, responses, opened = with_support("llama")
    packed, listed, unpack = distributions.pack_bits(opened)[responses.mask], [], distributions.unpack_bits
    monkeypatch.setattr(lm, "WIDE", 1)
    monkeypatch.setattr(distributions, "unpack_bits", lambda *given: listed.append(given) or unpack(*given))
    assert scoring.open_tokens(model, packed) is not None and len(listed) == 1
    monkeypatch.setattr(scoring, "FEW", packed.shape[1] - 1)
    assert scoring.open_tokens(model, packed | 1) is None and len(listed) == 1


def test_chunks_under_autocast_compute_what_autocast_computes():
    model, prompts, responses, opened = with_support("llama")
    support = distributions.pack_bits(opened)
    with torch.autocast("cpu", torch.bfloat16):
        whole, gradients = loss(model, prompts, responses, support, chunk=0)
        scored, found = loss(model, prompts, responses, support, chunk=4)
    assert scored.restricted.dtype == torch.float32
    assert torch.allclose(scored.restricted, whole.restricted, atol=1e-5)
    for name, gradient in gradients.items():  # a sum of bfloat16 terms depends on their grouping
        assert torch.allclose(found[name], gradient, rtol=0.05, atol=0.02 * float(gradient.abs().max()))


def test_a_frozen_encoder_s_states_serve_chunks_too():
    model, prompts, responses, _ = with_support("t5")
    lm.freeze_encoder(model)
    encoded = forwarding.encode(model, prompts)
    plain, again = (loss(model, prompts, responses, None, chunk=4, encoded=given) for given in (None, encoded))
    assert_equal(*again, *plain)


def test_responses_without_a_token_that_counts_score_nothing():
    model, prompts, responses = tiny_models.batch("gpt2")
    silent = tokens.Tokens(responses.ids, torch.zeros_like(responses.mask))
    scored = scoring.token_log_probs(model, prompts, silent, 1.0, chunk=4, want_entropy=True)
    assert (scored.plain == 0).all() and (scored.entropy == 0).all()


def test_a_head_with_more_behind_it_than_is_known_is_refused(refused):
    with refused(ConfigError):
        scoring.assert_head_is_separable(louder(tiny_models.model("llama")))


def louder(model):
    class Louder(type(model)):
        def forward(self, *given, **settings):
            out = super().forward(*given, **settings)
            out.logits = out.logits * 2
            return out

    model.__class__ = Louder
    return model


def test_no_more_logits_live_than_those_of_a_chunk_and_none_where_few_tokens_are_open(monkeypatch):
    # The head's outputs are the only tensors of V columns: count those that a backward pass keeps at a time.
    model, prompts, responses, opened = with_support("gpt2")
    size, kept = lm.vocabulary_size(model), []
    weight = model.get_output_embeddings().weight.untyped_storage().data_ptr()

    def pack(tensor):
        if tensor.ndim > 1 and tensor.shape[-1] == size and tensor.untyped_storage().data_ptr() != weight:
            kept.append(tensor.numel() // size)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        plain = scoring.token_log_probs(model, prompts, responses, 1.0).plain
        assert max(kept) == responses.ids.numel()
        kept.clear()
        chunked = scoring.token_log_probs(model, prompts, responses, 1.0, chunk=2).plain
        assert kept == [] and torch.allclose(plain, chunked, atol=1e-5)
        monkeypatch.setattr(lm, "WIDE", 1)
        support = distributions.pack_bits(opened)
        scoring.token_log_probs(model, prompts, responses, 1.0, support, want_plain=False).restricted.sum().backward()
    assert max(kept, default=0) <= len(responses.ids)  # at the one position that the model computes
