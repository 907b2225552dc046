"""Rewards for other trainers: their inputs and outputs; `grue.rewards` makes the functions."""
