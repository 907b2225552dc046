"""The token losses of PPO and A2C on some rows of an experience, scored on the way."""

from functools import partial

from grue.algorithms import a2c, ppo
from grue.rl.experience import score_minibatch


def of_ppo(run, state, config, experience, advantages, returns, rows):
    batch = score_minibatch(run.trainer, state, config, experience, rows)
    return ppo.token_losses(batch, config, experience, advantages, returns, partial(ppo.clipped_loss, config))


def of_a2c(run, state, config, experience, advantages, returns, rows):
    batch = score_minibatch(run.trainer, state, config, experience, rows)
    return ppo.token_losses(batch, config, experience, advantages, returns, a2c.gradient_loss)
