"""Guided decoding against slow loops without caches: each token, what it cost, and what is refused."""

from functools import partial

import pytest
from support.commands import grue, printed_json
from support.late import late

from grue.errors import ConfigError, UnknownName

torch, tiny = late("torch"), late("support.tiny")
guided, decoding = late("grue.evaluation.guided"), late("grue.evaluation.decoding")
forward, sampling = late("grue.lm.forward"), late("grue.lm.sampling")
seeds, tokens, stops = late("grue.lm.seeds"), late("grue.lm.tokens"), late("grue.lm.constraints")

FAMILIES = ["causal", "seq2seq"]
COUNT = "support.rewards:count_the"
EOS, LIMIT = 1, 8


def place_of(family, asked, sampled=False, **generation):
    task = tiny.task(family, do_sample=sampled, **generation)
    loaded = (tiny.model(family), tiny.tokenizer(family))
    return guided.Place(loaded, task, asked, guided.guiding(task), 3, guided.Spent())


def answers(place, text, asked, others=None, monkeypatch=None):
    """Texts by `--decode TEXT`; `others` are the models that names stand for."""
    if others:
        monkeypatch.setattr(decoding, "weights_id", str)
        monkeypatch.setattr(guided.Place, "model", lambda self, name: (others[name], self.loaded[1]))
    chosen = decoding.choose_guided(place.task, text)
    return [each.text for each in guided.predict_guided(place, decoding.make_guides(chosen, place), asked)]


class Slow:
    """One prompt's responses, one forward pass over all tokens for each new one."""

    def __init__(self, place, example):
        self.model, self.tokenizer = place.loaded
        self.prompts = tokens.encode_prompts(self.model, self.tokenizer, [example.prompt], place.task.prompt)

    def scores(self, ids, model=None):
        """Logits of the token after `ids`, in float64."""
        row = torch.tensor([[*ids, 0]])
        responses = tokens.Tokens(row, torch.ones_like(row, dtype=torch.bool))
        with torch.no_grad():
            return forward.forward(model or self.model, self.prompts, responses)[0][0, -1].double()

    def text(self, ids):
        return " ".join(self.tokenizer.decode([i for i in ids if i > 2], skip_special_tokens=True).split())

    def finish(self, ids, choose, length=LIMIT):
        """Go on until the end, the limit or `length` more tokens."""
        until = min(LIMIT, len(ids) + length)
        while len(ids) < until and EOS not in ids:
            ids = [*ids, choose(ids)]
        return ids


def slowly(place, asked, choose):
    """The texts of the tokens that `choose(slow, row, ids)` takes."""
    slows = [Slow(place, example) for example in asked]
    return [slow.text(slow.finish([], partial(choose, slow, row))) for row, slow in enumerate(slows)]


def greedy(place, asked, model=None):
    """The texts of the likeliest tokens, by the guided model or another."""
    return slowly(place, asked, lambda slow, row, ids: int(slow.scores(ids, model).argmax()))


def draw(logits, uniform):
    """Invert the cumulative distribution."""
    until = logits.softmax(-1).cumsum(-1)
    return int((until <= uniform * until[-1]).sum())


@pytest.mark.parametrize("family", FAMILIES)
def test_rast_adds_what_training_changed(family, monkeypatch):
    asked = tiny.examples(4)
    place, trained, start = place_of(family, asked), tiny.model(family, seed=5), tiny.model(family, seed=6)
    others = {"trained": trained, "start": start, "itself": place.loaded[0]}

    def choose(slow, row, ids):
        scores = slow.scores(ids) + 2.5 * (slow.scores(ids, trained) - slow.scores(ids, start))
        return int(scores.argmax())

    wanted = slowly(place, asked, choose)
    found = answers(place, "rast:trained=trained,start=start,strength=2.5", asked, others, monkeypatch)
    assert found == wanted
    plain = greedy(place, asked)
    assert answers(place, "rast:trained=trained,start=start,strength=0", asked, others, monkeypatch) == plain != wanted
    # From its own start, what training changed makes the trained model.
    of_trained = answers(place, "rast:trained=trained,start=itself", asked, others, monkeypatch)
    assert of_trained == greedy(place, asked, trained)


def test_genarm_multiplies_the_distributions_and_draws_from_them(monkeypatch):
    asked = tiny.examples(6)
    place = place_of("causal", asked, sampled=True, temperature=1.5)
    one, two = tiny.model("causal", seed=5), tiny.model("causal", seed=6)
    uniforms = seeds.example_uniforms(3, asked, LIMIT).tolist()

    def choose(slow, row, ids):
        logs = [slow.scores(ids, model).log_softmax(-1) for model in (None, one, two)]
        return draw((logs[0] + 0.5 * logs[1] + 0.25 * logs[2]) / 1.5, uniforms[row][len(ids)])

    found = answers(place, "genarm:model=one;two,weight=0.5;0.25", asked, {"one": one, "two": two}, monkeypatch)
    assert found == slowly(place, asked, choose)


@pytest.mark.parametrize(("family", "length"), [("causal", 0), ("causal", 2), ("seq2seq", 2)])
def test_deal_takes_the_candidate_with_the_best_look_ahead(family, length):
    asked = tiny.examples(3)
    place, calls = place_of(family, asked), 0

    def choose(slow, row, ids):
        nonlocal calls
        logs = slow.scores(ids).log_softmax(-1)
        worth = {}
        for candidate in logs.argsort(descending=True)[:3].tolist():
            ahead = slow.finish([*ids, candidate], lambda more: int(slow.scores(more).argmax()), length or LIMIT)
            worth[candidate] = float(logs[candidate]) + 40 * len(set(slow.text(ahead).split()))
            calls += 1
        return max(worth, key=worth.__getitem__)

    wanted = slowly(place, asked, choose)
    assert answers(place, f"deal:reward={__name__}:different_words,top_k=3,weight=40,length={length}", asked) == wanted
    assert place.spent.reward_calls == calls and place.spent.answers == len(asked)
    assert place.spent.per_answer()["reward_calls"] == calls / len(asked)
    assert wanted != greedy(place, asked)


@pytest.mark.parametrize(
    ("family", "indirect"), [("causal", ""), ("causal", "count_words"), ("seq2seq", "count_even_words")]
)
def test_transfer_q_values_tokens_by_what_another_model_writes(family, indirect, monkeypatch):
    asked, rollouts = tiny.examples(2), 2
    place, aligned = place_of(family, asked), tiny.model(family, seed=5)
    every = [
        seeds.example_uniforms(seeds.derived_seed(3, "look ahead", 0, number), asked, LIMIT).tolist()
        for number in range(rollouts)
    ]

    def choose(slow, row, ids):
        logs = slow.scores(ids).log_softmax(-1)
        worth = {}
        for candidate in logs.argsort(descending=True)[:3].tolist():
            values, aligned_with = [], []
            for numbers in every:
                ahead = slow.finish(
                    [*ids, candidate], lambda more, u=numbers[row]: draw(slow.scores(more, aligned), u[len(more)])
                )
                said = slow.text(ahead).split()
                values.append(said.count("the"))
                aligned_with.append(len(said) if indirect == "count_words" or len(said) % 2 == 0 else None)
            least = min((other for other in aligned_with if other is not None), default=0)
            aligned_with = [least if other is None else other for other in aligned_with]
            gains = [(value - other) / 0.5 for value, other in zip(values, aligned_with, strict=True)]
            shares = torch.tensor(gains if indirect else [0.0] * rollouts, dtype=torch.float64).softmax(0)
            worth[candidate] = float(logs[candidate] + (shares * torch.tensor(values)).sum() / 0.25)
        return max(worth, key=worth.__getitem__)

    text = f"transfer_q:policy=aligned,reward={COUNT},top_k=3,rollouts={rollouts},alpha=0.25,beta=0.5"
    text += f",aligned_to={__name__}:{indirect}" if indirect else ""
    assert answers(place, text, asked, {"aligned": aligned}, monkeypatch) == slowly(place, asked, choose)


def different_words(examples, texts):
    return [float(len(set(text.split()))) for text in texts]


def count_words(examples, texts):
    return [float(len(text.split())) for text in texts]


def count_even_words(examples, texts):
    """None where it does not apply."""
    return [float(words) if (words := len(text.split())) % 2 == 0 else None for text in texts]


@pytest.mark.parametrize(("family", "sampled"), [("causal", True), ("seq2seq", False)])
def test_answers_do_not_depend_on_their_batch(family, sampled):
    asked = tiny.examples(10)
    text = f"deal:reward={COUNT},top_k=3,weight=2"
    together = answers(place_of(family, asked, sampled), text, asked)
    assert len(set(together)) > 1
    assert answers(place_of(family, asked, sampled), text, asked[7:4:-1]) == together[7:4:-1]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_response_that_is_continued_is_the_same_as_one_drawn_at_once(family):
    asked = tiny.examples(7)
    task, model, words = tiny.task(family, stop=("cat",)), tiny.model(family), tiny.tokenizer(family)
    prompts = tokens.encode_prompts(model, words, [example.prompt for example in asked], task.prompt)
    uniforms = seeds.example_uniforms(3, asked, LIMIT)
    ending = stops.find_stops(words, task.rollout.stop)
    whole = sampling.sample_responses(model, prompts, task.rollout, uniforms, EOS, stops=ending)
    for begun in (1, 3):
        steps = forward.Steps(model, prompts)
        steps(None)
        for t in range(begun - 1):
            steps(whole.responses.ids[:, t])
        alive = whole.responses.mask[:, begun - 1].nonzero().squeeze(1)
        rows = alive.repeat_interleave(2)
        fork = steps.fork(rows)
        rest = sampling.sample_responses(
            model, prompts.rows(rows), task.rollout, uniforms[rows], EOS, stops=ending,
            begun=sampling.Begun(fork, whole.responses.ids[rows, :begun]),
        )  # fmt: skip
        kept = whole.responses.mask[rows, begun:][:, : rest.responses.mask.shape[1]]
        assert torch.equal(rest.responses.mask, kept)
        assert torch.equal(rest.responses.ids[kept], whole.responses.ids[rows, begun:][:, : kept.shape[1]][kept])
        assert torch.equal(rest.truncated, whole.truncated[rows])


def test_text_that_no_reward_applies_to_is_worth_the_least(monkeypatch):
    asked = tiny.examples(4)
    for reward in ("never", "sometimes"):
        place = place_of("causal", asked)
        found = answers(place, f"deal:reward={__name__}:{reward},top_k=3,weight=9", asked)
        assert len(found) == 4
        assert reward == "sometimes" or found == answers(place, "deal:reward=support.rewards:nothing,top_k=3", asked)


def never(examples, texts):
    return [None] * len(texts)


def sometimes(examples, texts):
    return [None if "the" in text.split() else 1.0 for text in texts]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("deal", "reads references, which no system has. Give one that reads the answer alone"),
        ("deal:topk=3", "'topk=3' is no setting of deal; it has reward, top_k, length, weight"),
        ("deal:top_k=many", "'many' is not a number"),
        ("deal:top_k=1", "top_k: must be at least 2, found 1"),
        (f"deal:reward={COUNT},length=9", "a response of tiny has 8 tokens at most"),
        ("rast:trained=x", "say start, as in rast:start=FOLDER"),
        ("genarm:model=/,weight=1;2", "give one number for each model"),
        (f"transfer_q:policy=mini:causal,aligned_to={COUNT},reward={COUNT}", "weighs several rollouts"),
        ("rast:trained=mini:seq2seq,start=mini:seq2seq", "is of the family seq2seq"),
        ("rast:trained=mini:causal,start=mini:causal", "has another tokenizer than the model that it guides"),
    ],
)
def test_what_cannot_guide_is_refused(text, message):
    place = place_of("causal", tiny.examples(2))
    with pytest.raises(ConfigError) as error:
        decoding.make_guides(decoding.choose_guided(place.task, text), place)
    assert message in str(error.value)


def test_names_settings_and_labels(tmp_path, monkeypatch):
    (tmp_path / "reward.json").write_text("{}")
    with pytest.raises(ConfigError, match="the next token must have a value"):
        place_of("causal", tiny.examples(2)).model(str(tmp_path))
    task = tiny.task("causal")
    with pytest.raises(UnknownName, match="Did you mean 'deal'"):
        decoding.choose_guided(task, "dael")
    monkeypatch.setitem(decoding.DECODERS._things, "of a package", 7)
    with pytest.raises(ConfigError, match="must be a grue.evaluation.guided.Decoder, found int"):
        decoding.choose_guided(task, "of a package")
    plain, wide = (decoding.choose_guided(task, f"deal:reward={COUNT}{more}") for more in ("", ",top_k=8"))
    assert (plain.name, wide.name) == ("deal-by-support.rewards-count_the", "deal-top_k-8-by-support.rewards-count_the")
    assert not plain.oracle and decoding.choose_guided(task, "deal:reward=rouge2").oracle
    assert decoding.choose_guided(task, "deal:reward=rouge2").name == "deal-oracle-by-rouge2"
    peeking = f"transfer_q:policy=mini:causal,reward={COUNT},aligned_to=rouge2,rollouts=2"
    assert decoding.choose_guided(task, peeking).oracle, "what weighs the rollouts must not read references unseen"


@pytest.fixture
def command(own):
    """The command that evaluates mini's causal model by the lengths of its answers."""
    metrics = [{"name": "mean_length", "axis": "preference", "range": [0, 1]}]
    task = own(reward="rougeL", metrics=metrics, rollout={"max_new_tokens": 8})
    return "evaluate", "--baseline", "zero-shot", "--task", task, "--seed", 2


def test_a_guided_system_is_another_with_its_settings_and_its_costs(command, tmp_path):
    guided = (*command, "--output", tmp_path / "guided")
    longest = ("--decode", "deal:reward=mean_length,length=2,top_k=3")
    (plain,), (result,) = printed_json(*command), printed_json(*guided, *longest)
    assert result["system"]["name"] == "zero-shot+deal-top_k-3-length-2-by-mean_length"
    told = result["generation"]["guided"]
    assert told["settings"] == {"reward": "mean_length", "top_k": 3, "length": 2, "weight": 20.0}
    assert (told["decoder"], told["oracle"], told["rewards"]) == ("deal", False, ["mean_length"])
    assert result["scores"][0]["value"] >= plain["scores"][0]["value"]
    assert result["timing"]["reward_calls_per_answer"] >= 3 and "tokens_per_answer" not in plain["timing"]
    for other, told in ((["--decode", "deal:reward=mean_length"], "guided.setting"), ([], "guided = {")):
        assert f"holds an evaluation with {told}" in grue(*guided, *other, code=2).stderr


def test_an_oracle_warns_and_one_answer_is_not_picked_from_several(command):
    done = grue(*command, "--decode", "deal:reward=rougeL,length=1", "--limit", 2)
    assert "rougeL reads the references, so picking by it is an oracle" in done.stderr
    assert "zero-shot+deal-oracle-length-1 on own/words" in done.stdout  # the task's reward
    both = grue(*command, "--decode", "deal", "--best-of", 2, code=2)
    assert "leave best_of (--best-of) or decode (--decode) out" in both.stderr
    copy = grue("evaluate", "baseline:copy", "--task", "imdb", "--decode", "deal", code=2)
    assert "leave --decode out" in copy.stderr
