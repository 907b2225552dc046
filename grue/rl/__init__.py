"""What reinforcement learners share."""
