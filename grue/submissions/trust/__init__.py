"""Making a row's runs again: the ladder of trust, reproducing, retraining."""
