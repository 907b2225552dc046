"""GRUE: a benchmark harness and leaderboard for reinforcement learning on language generation."""

__version__ = "0.1.0"
