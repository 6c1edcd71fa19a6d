"""Steps of an installation that a start has done, and the snapshot that has them."""

import pathlib
import tempfile
import unittest

from tools.devcloud.steps import Steps


class StepsTest(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.folder = pathlib.Path(folder)
        self.steps = Steps(self.folder)

    def test_a_step_is_done_once_it_is_marked(self):
        self.assertEqual(set(), self.steps.done())
        self.steps.mark(['schema heat 0'])
        self.steps.mark(['contents', 'zone 1'])
        self.assertEqual({'schema heat 0', 'contents', 'zone 1'}, Steps(self.folder).done())

    def test_steps_of_a_start_that_failed_are_in_the_next_snapshot(self):
        self.steps.mark(['schema heat 0'])
        # The start ends here; the next one finds nothing left to do.
        after = Steps(self.folder)
        self.assertTrue(after.unsaved)
        after.saved()
        self.assertFalse(Steps(self.folder).unsaved)

    def test_no_steps_need_no_snapshot(self):
        self.steps.mark([])
        self.assertFalse(self.steps.unsaved)


if __name__ == '__main__':
    unittest.main()
