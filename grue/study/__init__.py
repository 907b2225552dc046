"""What people think of systems' outputs: questionnaires, the key behind them, answers, and what they say."""
