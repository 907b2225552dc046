"""What other trainers hand to a reward, and what they take from it; `grue.rewards` makes the functions."""
