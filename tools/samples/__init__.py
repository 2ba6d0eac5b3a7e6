"""The sample models of `sample_models/`: one module a model, remade from Python packages alone."""
