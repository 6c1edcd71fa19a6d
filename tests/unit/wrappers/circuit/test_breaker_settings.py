import math
import unittest

from kiln.exceptions import ConfigurationError
from kiln.wrappers.circuit.settings import CircuitSettings

WRONG = {
    'failure_rate': (0, -0.1, 1.1, math.nan),
    'minimum_calls': (0, -1, 2.5),
    'window_s': (0, -1, math.inf, math.nan),
    'slow_call_s': (0, -1, math.inf),
    'slow_call_rate': (0, 1.1),
    'open_s': (0, -1, math.inf),
    'open_factor': (0.5, 101, math.nan),
    'open_max_s': (4.9, math.inf),
    'open_jitter': (-0.1, 1.0),
    'probe_lease_s': (0, -1, math.inf),
    'success_threshold': (0, 1.5),
}
LIMITS = {
    'failure_rate': (0.01, 1),
    'minimum_calls': (1,),
    'slow_call_s': (None, 0.1),
    'open_factor': (1, 100),
    'open_max_s': (30,),
    'open_jitter': (0, 0.99),
    'success_threshold': (1, 3),
}


class CircuitSettingsTest(unittest.TestCase):
    def test_an_invalid_value_is_refused_by_name(self):
        for name, values in WRONG.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    with self.assertRaises(ConfigurationError) as caught:
                        CircuitSettings(**{name: value})
                    self.assertIn(name, str(caught.exception))
                    self.assertIn(repr(value), str(caught.exception))

    def test_values_at_their_limits_are_accepted(self):
        for name, values in LIMITS.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    settings = CircuitSettings(**{name: value})
                    self.assertEqual(value, getattr(settings, name))
