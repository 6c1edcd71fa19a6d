"""The command why of a settled cluster asks its backends, and tells an outage."""

from tests.unit.cli.site_shell import SiteShell


class Outages(SiteShell):
    def setUp(self):
        super().setUp()
        self.up()

    def configure(self, **options):
        config = self.config.read_text()
        for name, value in options.items():
            config = config.replace('build_s', f'{name} = {value}\nbuild_s')
        self.config.write_text(config)

    def machines(self, *words):
        return [
            one for one in self.json('why', 'web', *words) if one['about'].endswith('machines')
        ]

    def test_a_backend_that_answers_is_not_mentioned(self):
        self.assertEqual([], self.machines())

    def test_a_refusal_is_told_with_its_cause_and_exit_status_0(self):
        self.configure(faults='status:refuse=down for repairs')
        (said,) = self.machines()
        self.assertEqual(
            {'about': 'web, its machines', 'said': 'cannot be polled'},
            {key: said[key] for key in ('about', 'said')},
        )
        self.assertIn('down for repairs', said['causes'][0]['message'])
        self.assertIn("check the backend: 'kiln --backend east compute check'", said['do'])
        text = self.ok('why', 'web')
        self.assertIn('because: the machines on east cannot be polled: Cannot read: ', text)
        self.assertEqual('', self.err)

    def test_a_silence_is_told_in_seconds_and_once(self):
        self.configure(faults='status:hang_before=1000')
        began = self.clock.monotonic()
        said = self.ok('why', 'web')
        self.assertEqual(1, said.count("'east' has not answered for over 3 s"))
        self.assertEqual('', self.err)
        self.assertLess(self.clock.monotonic() - began, 5.0)

    def test_a_backend_with_wrong_options_is_told(self):
        self.configure(faults='status:sulk')
        (said,) = self.machines()
        self.assertIn("Cannot script fault 'sulk'", said['causes'][0]['message'])

    def test_a_node_is_explained_with_the_outage_of_its_backend(self):
        name = self.nodes()[0]['name']
        self.assertEqual([], self.machines(name))
        self.configure(faults='status:refuse=down for repairs')
        self.assertEqual(1, len(self.machines(name)))

    def test_nothing_is_asked_while_an_operation_is_under_way(self):
        self.ok('cluster', 'scale', 'web', 'work=4', '--no-wait')
        self.configure(faults='status:refuse=down for repairs')
        self.assertEqual([], self.machines())
