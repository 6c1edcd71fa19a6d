# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible callback: tells the tasks of a playbook as JSON lines, and nothing else.

It runs inside Ansible, so it has Ansible's licence; no other file of kiln imports it.
"""

import json

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: kiln_progress
type: stdout
short_description: JSON lines for kiln
description: A line for each task, and for each result that failed or has changed something.
"""


class CallbackModule(CallbackBase):
    """Prints one JSON object on each line."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = 'stdout'
    CALLBACK_NAME = 'kiln_progress'

    def _tell(self, event, **fields):
        print(json.dumps({'event': event, **fields}), flush=True)

    def _of(self, event, result, **fields):
        task = result._task.get_name()
        self._tell(event, host=result._host.get_name(), task=task, **fields)

    def v2_playbook_on_task_start(self, task, is_conditional):
        """Tell a task that begins."""
        self._tell('task', task=task.get_name())

    def v2_runner_on_ok(self, result):
        """Tell what a task has changed, or would change."""
        if result._result.get('changed'):
            named = result._result.get('changes')
            said = f'{result._host.get_name()}: {result._task.get_name()}'
            self._of('changed', result, changes=[said] if named is None else named)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """Tell why a task failed."""
        if not ignore_errors:
            self._of('failed', result, message=_message(result))

    def v2_runner_on_unreachable(self, result):
        """Tell why a machine could not be reached."""
        self._of('unreachable', result, message=_message(result))


def _message(result):
    # Without a message where a task is not to be logged.
    return str(result._result.get('msg') or 'it failed').strip()
