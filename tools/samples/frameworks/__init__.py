"""The same networks with the same weights from several frameworks, each with attributions by its own autodiff."""
