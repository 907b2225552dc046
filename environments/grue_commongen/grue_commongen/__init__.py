"""GRUE's CommonGen as a taskset of verifiers; the data and the reward are grue's."""

from grue.rewards import for_verifiers

GrueCommonGen = for_verifiers("0.5*meteor + 0.5*coverage", task="commongen")
__all__ = ["GrueCommonGen"]
