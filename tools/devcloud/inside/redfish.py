"""Settings of sushy-emulator, which plays the controllers of two machines over Redfish."""

import os

SUSHY_EMULATOR_STATE_DIR = os.environ['KILN_REDFISH_STATE']
SUSHY_EMULATOR_FAKE_SYSTEMS = [
    {
        'uuid': f'{number:08}-0000-4000-8000-000000000000',
        'name': f'redfish-{number}',
        'power_state': 'Off',
        'external_notifier': False,
        'nics': [{'mac': f'52:54:00:00:01:{number:02x}', 'ip': f'192.0.2.{100 + number}'}],
    }
    for number in (1, 2)
]
