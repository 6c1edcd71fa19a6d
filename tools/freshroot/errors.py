"""The one error of the tool."""


class FreshrootError(Exception):
    """A root cannot be made, or a run cannot begin; the text says why and what to do."""
