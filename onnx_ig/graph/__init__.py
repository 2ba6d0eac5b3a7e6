"""ONNX: reading, preparing, emitting and saving graphs. Knows no calculus."""
