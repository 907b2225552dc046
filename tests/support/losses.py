"""The token losses of PPO and A2C on some rows of an experience, scored on the way; and advantages of responses."""

from functools import partial

from grue.algorithms import a2c, ppo, reinforce
from grue.algorithms.cards.rloo import RLOOConfig
from grue.rl import functional as rl
from grue.rl.experience import score_minibatch


def of_ppo(run, state, config, experience, advantages, returns, rows):
    batch = score_minibatch(run.trainer, state, config, experience, rows)
    return ppo.token_losses(batch, config, experience, advantages, returns, partial(ppo.clipped_loss, config))


def of_a2c(run, state, config, experience, advantages, returns, rows):
    batch = score_minibatch(run.trainer, state, config, experience, rows)
    return ppo.token_losses(batch, config, experience, advantages, returns, a2c.gradient_loss)


def response_advantages(experience, config):
    """Of REINFORCE or RLOO, as the class of the settings says."""
    grouped = isinstance(config, RLOOConfig)
    less, size = (rl.leave_one_out, config.samples_per_prompt) if grouped else (rl.centre_groups, config.rollouts)
    return reinforce.response_advantages(config, less, size, experience)[:, 0]
