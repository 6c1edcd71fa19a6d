"""Switches for the real Nova's notifications on the message bus."""

import configparser

WISHES = {
    'nova.notifications.notification_format': 'versioned',
    'nova.oslo_messaging_notifications.driver': 'messagingv2',
}


SILENCE = WISHES | {'nova.oslo_messaging_notifications.driver': 'noop'}


def notify(cloud):
    """Let Nova send notifications from now on; return the URL of the bus."""
    return _set(cloud, WISHES)


def mute(cloud):
    """Let Nova send none from now on, as by default; return the URL of the bus."""
    return _set(cloud, SILENCE)


def _set(cloud, wishes):
    cloud.run('up', *(word for option in wishes.items() for word in ('--set', '='.join(option))))
    nova = configparser.RawConfigParser()
    nova.read(cloud.home / 'etc' / 'nova' / 'cmp1.conf')
    return nova['DEFAULT']['transport_url']
