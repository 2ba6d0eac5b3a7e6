"""TensorFlow: Keras models exported by tf2onnx against tf.GradientTape."""
