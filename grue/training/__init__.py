"""The bundled trainer: pure formulas, one sampler, one file for each algorithm."""
