"""Bugs of the pass that scores a policy's tokens, as wrappers of `token_log_probs`."""

from support.late import late

torch, tokens = late("torch"), late("grue.lm.tokens")


def without_mask(of, model, prompts, responses, temperature, support=None, **named):
    return of(model, prompts, responses, temperature, None, **named)


def support_of_another_row(of, model, prompts, responses, temperature, support=None, **named):
    return of(model, prompts, responses, temperature, support.roll(1, 0), **named)


def padding_that_is_read(of, model, prompts, responses, *rest, **named):
    return of(model, tokens.Tokens(prompts.ids, torch.ones_like(prompts.mask)), responses, *rest, **named)
