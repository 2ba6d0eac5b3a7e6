"""JAX: functions and Flax modules exported by jax2onnx against jax.grad."""
