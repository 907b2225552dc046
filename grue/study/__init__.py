"""Human evaluation of systems' outputs: questionnaires, the key behind them, answers, and their analysis."""
