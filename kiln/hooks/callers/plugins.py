"""Plugin hooks: functions of installed packages, called in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kiln.hooks.callers.watchdog import Watchdog
from kiln.hooks.hook import Hook, Plugin, PluginFunction
from kiln.hooks.points import Point
from kiln.hooks.replies import Answer


def hook(point: Point | str, **policy: Any) -> Callable[[PluginFunction], Hook]:
    """Return a decorator that turns a function into a hook, for an entry point.

    ``policy`` takes the fields of :class:`~kiln.hooks.hook.Hook`. The name of the entry
    point becomes the name of the hook.

    :raises ValueError: there is no such point.
    """
    policy.setdefault('point', Point(point))

    def declared(function: PluginFunction) -> Hook:
        return Hook(**{'name': function.__name__} | policy, target=Plugin(function))

    return declared


def call_plugin(
    watchdog: Watchdog, plugin: Plugin, document: Mapping[str, Any], timeout_s: float
) -> Answer:
    """Call a function; return when it has returned, or at the timeout."""
    try:
        answer = watchdog.run(document['invocation'], lambda: plugin.function(document), timeout_s)
    # Code of a third party: any exception is a failure of the hook.
    except BaseException as exc:
        return Answer.failed(str(exc) or type(exc).__name__)
    if answer is None:
        return Answer.ok()
    if isinstance(answer, Answer):
        return answer
    return Answer.failed(f'it returned {type(answer).__name__}, neither None nor an Answer')
