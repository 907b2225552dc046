"""A language model, causal or encoder-decoder, behind one interface."""
