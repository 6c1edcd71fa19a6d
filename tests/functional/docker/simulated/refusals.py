"""An error answer of an engine."""


class Refused(Exception):
    """The status and the words of the engine."""

    def __init__(self, status, words):
        super().__init__(words)
        self.status = status
