"""Redaction of errors: masks the confidential contents of a build request.

The error of a driver, or of a client library behind it, can quote the request that
failed: user data, files, keys. All errors of a build pass here before they are raised,
and every quotation is masked.
"""

from __future__ import annotations

import base64
import re
import traceback
from typing import TypeVar

from kiln.exceptions import AmphoraComputeError, KilnError
from kiln.models import BuildRequest

# This many characters in common with a content count as a quotation of it, which covers
# whole contents, single lines, and truncated pieces.
_RUN = 12
# An error longer than this quotes whole files, and its end is cut off.
_MAX_TEXT = 2000
# Contents shorter than this are not secret, and occur in many words.
_SHORTEST = 4
_MAX_CAUSES = 50

_E = TypeVar('_E', bound=KilnError)


class QuotingError(Exception):
    """Replaces a foreign error whose text quoted a request; its text is masked."""


def sealed(error: _E, request: BuildRequest) -> _E:
    """Return the error with all quotations of a request masked, in its causes too."""
    mask = _Mask(request)
    error.args = tuple(mask(arg) if isinstance(arg, str) else arg for arg in error.args)
    if isinstance(error, AmphoraComputeError) and error.fault is not None:
        error.fault = mask(error.fault)
    behind = _behind(error)
    cause = _sealed_cause(behind, mask, _MAX_CAUSES)
    if cause is not behind:
        error.__cause__ = cause
    return error


def _sealed_cause(error: BaseException | None, mask: _Mask, depth: int) -> BaseException | None:
    """Return an error, or a replacement if it or its causes quote the request."""
    if error is None or depth == 0:
        return None
    behind = _behind(error)
    cause = _sealed_cause(behind, mask, depth - 1)
    text = ''.join(traceback.format_exception_only(error)).strip()
    # The text of a group omits its members; its repr includes them.
    whole = repr(error)
    if mask(text) == text and mask(whole) == whole and cause is behind:
        return error
    stand_in = QuotingError(mask(text)).with_traceback(error.__traceback__)
    stand_in.__cause__ = cause
    return stand_in


def _behind(error: BaseException) -> BaseException | None:
    """Return the error that a traceback would show before this error."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


class _Mask:
    """Masks whatever a text has in common with the contents of a request."""

    def __init__(self, request: BuildRequest) -> None:
        contents = [file.content for file in request.files]
        # A key can be a mere name, which an error should show; a whole public key has
        # spaces in it.
        contents += [key.encode() for key in request.keys if ' ' in key]
        if request.user_data is not None:
            contents.append(request.user_data)
        texts = [content.decode('utf-8', 'replace') for content in contents]
        self._short = {text for text in texts if _SHORTEST <= len(text) < _RUN}
        encoded = [base64.b64encode(content).decode() for content in contents]
        # No quotation extends over the zero that separates two contents. The name of the
        # request is not secret, even if a content includes it.
        self._all = '\0'.join([*texts, *encoded])
        for word in (request.name, request.build_key):
            # A shorter content is never masked by itself, and would split all contents.
            if word is not None and len(word) >= _RUN:
                self._all = self._all.replace(word, '\0')

    def __call__(self, text: str) -> str:
        if not self._all:
            return text
        if len(text) > _MAX_TEXT:
            text = text[:_MAX_TEXT] + ' [...]'
        for short in self._short:
            text = text.replace(short, '***')
        return self._without_runs(text)

    def _without_runs(self, text: str) -> str:
        kept: list[str] = []
        at = 0
        while at < len(text):
            end = at + _RUN
            if end > len(text) or text[at:end] not in self._all:
                kept.append(text[at])
                at += 1
                continue
            while end < len(text) and text[end - _RUN + 1 : end + 1] in self._all:
                end += 1
            kept.append('***')
            at = end
        # Two adjacent masks are one quotation.
        return re.sub(r'\*{4,}', '***', ''.join(kept))
