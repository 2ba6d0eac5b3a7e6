"""PyTorch: rules against its autograd, exports of both its exporters against captum."""
