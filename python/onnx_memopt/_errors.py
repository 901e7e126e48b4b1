"""What the package raises, besides OSError for files."""


class Error(Exception):
    """Anything that goes wrong in onnx-memopt, but for files and types."""


class ModelError(Error, ValueError):
    """A model that is broken, or that cannot be trained."""


class OptionError(Error, ValueError):
    """An option that does not fit the model, or that does not exist."""


class BudgetError(Error):
    """A budget that no plan keeps to; the message says what holds it."""
