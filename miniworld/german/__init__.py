"""The German half of the mini world: one event, an English and a German sentence that say the same."""
