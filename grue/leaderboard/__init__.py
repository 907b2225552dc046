"""The board: results in, ranked rows out; reads and writes the folder `leaderboard/`."""
