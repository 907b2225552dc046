"""Natural language policy optimisation: PPO that samples inside the nucleus of a masking policy.

Ramamurthy et al. (2023), §4 and Algorithm 1. The mask is a restriction of the sampler (`rl/responses.py`), which any
algorithm that samples can use with the same settings. The mask of each drawn token is stored and replayed in the
update, so that the ratio is that of the restricted, renormalised policies.
"""

from grue.algorithms import ppo
from grue.algorithms.cards.nlpo import CARD
from grue.rl.trainer import implement

ALGORITHM = implement(CARD, ppo.update)
