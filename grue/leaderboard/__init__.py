"""The board: from results to ranked rows."""
