"""HOT templates and their files: resolved in one folder, the same in any place."""

import json
import unittest

from kiln.cluster_drivers.heat.hot import MOST_BYTES, bundle_of

HEAD = 'heat_template_version: 2018-08-31\n'
STACK = f"""{HEAD}
parameters:
  count: {{type: number}}
  password: {{type: string, hidden: true, default: ''}}
resources:
  workers:
    type: OS::Heat::ResourceGroup
    properties:
      resource_def: {{type: nodes/worker.yaml}}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {{config: {{get_file: top.sh}}}}
outputs:
  names: {{value: 1}}
"""
WORKER = f"""{HEAD}
resources:
  one:
    type: OS::Heat::SoftwareConfig
    properties: {{config: {{get_file: boot.sh}}}}
  two:
    type: OS::Heat::SoftwareConfig
    properties: {{config: {{get_file: ../top.sh}}}}
"""
FILES = {
    'stack.yaml': STACK, 'nodes/worker.yaml': WORKER, 'nodes/boot.sh': 'boot', 'top.sh': 'top',
}  # fmt: skip


def bundle(folder='/one', **files):
    given = {**FILES, **files}

    def read(name):
        if given.get(name) is None:
            raise FileNotFoundError(2, 'No such file or directory')
        content = given[name]
        return content if isinstance(content, bytes) else content.encode()

    return bundle_of('stack.yaml', read, folder)


class Bundles(unittest.TestCase):
    def mistakes(self, **files):
        return [
            (one.file.removeprefix('/one/'), one.line, one.message) for one in bundle(**files)[1]
        ]

    def test_files_and_nested_templates_are_read_under_relative_names(self):
        found, problems = bundle()
        self.assertEqual((), problems)
        self.assertEqual({'nodes/boot.sh', 'nodes/worker.yaml', 'top.sh'}, set(found.files))
        nested = json.loads(found.files['nodes/worker.yaml'])['resources']
        self.assertEqual('nodes/boot.sh', nested['one']['properties']['config']['get_file'])
        self.assertEqual('top.sh', nested['two']['properties']['config']['get_file'])

    def test_the_same_folder_elsewhere_gives_the_same_template(self):
        one, two = (bundle(folder)[0] for folder in ('/one', '/srv/two'))
        self.assertEqual((one.template, one.files), (two.template, two.files))

    def test_a_change_of_any_file_changes_the_template(self):
        changed, _ = bundle(**{'nodes/boot.sh': 'x'})
        self.assertNotEqual(bundle()[0].files, changed.files)

    def test_parameters_and_outputs_are_known_with_their_places(self):
        found, _ = bundle()
        one = found.parameters['password']
        self.assertEqual(('string', True, True, 5), (one.type, one.hidden, one.optional, one.line))
        self.assertFalse(found.parameters['count'].optional)
        self.assertEqual({'names'}, found.outputs)

    def test_the_version_stays_text(self):
        self.assertEqual('2018-08-31', bundle()[0].template['heat_template_version'])

    def test_what_is_not_in_the_folder_is_refused_with_its_place(self):
        for name in ('../../etc/passwd', '/etc/passwd', 'http://example.com/x', 'file:///etc/x'):
            text = WORKER.replace('boot.sh', name)
            with self.subTest(name):
                ((file, line, message),) = self.mistakes(**{'nodes/worker.yaml': text})
                self.assertEqual(('nodes/worker.yaml', 6), (file, line))
                self.assertIn('is not in the folder of the templates', message)

    def test_a_missing_file_is_a_mistake_where_it_is_named(self):
        ((file, line, message),) = self.mistakes(**{'nodes/boot.sh': None})
        self.assertEqual(('nodes/worker.yaml', 6), (file, line))
        self.assertEqual("file 'nodes/boot.sh' cannot be read: No such file or directory", message)

    def test_a_missing_nested_template_is_a_mistake_where_it_is_named(self):
        ((file, line, _),) = self.mistakes(**{'nodes/worker.yaml': None})
        self.assertEqual(('stack.yaml', 10), (file, line))

    def test_a_file_that_is_not_text_is_a_mistake(self):
        # At each place that names it.
        found = self.mistakes(**{'top.sh': b'\xff\xfe'})
        self.assertEqual(2, len(found))
        self.assertTrue(all('is not UTF-8 text' in message for *_, message in found))

    def test_a_template_that_contains_itself_is_a_mistake(self):
        text = WORKER.replace('type: OS::Heat::SoftwareConfig', 'type: worker.yaml', 1)
        ((file, _, message),) = self.mistakes(**{'nodes/worker.yaml': text})
        self.assertEqual('nodes/worker.yaml', file)
        self.assertIn('contains itself', message)

    def test_nested_templates_are_at_most_as_deep_as_heat_takes(self):
        files = {
            f'n{n}.yaml': f'{HEAD}\nresources: {{r: {{type: n{n + 1}.yaml}}}}\n' for n in range(8)
        }
        stack = f'{HEAD}\nresources: {{r: {{type: n0.yaml}}}}\n'
        ((_, _, message),) = self.mistakes(**{'stack.yaml': stack, **files})
        self.assertIn('5 levels', message)

    def test_what_is_not_a_template_is_a_mistake(self):
        for text in ('', '[]', 'a: 1', f'{HEAD}---\n{HEAD}', 'a: [', 'x: *y'):
            with self.subTest(text):
                self.assertEqual('stack.yaml', self.mistakes(**{'stack.yaml': text})[0][0])

    def test_a_value_that_parsers_read_differently_is_a_mistake(self):
        ((_, line, message),) = self.mistakes(
            **{'stack.yaml': STACK.replace('hidden: true', 'hidden: yes')}
        )
        self.assertEqual(5, line)
        self.assertIn('write it in quotes, or true or false', message)

    def test_a_template_that_heat_would_refuse_for_its_size_is_a_mistake(self):
        ((_, _, message),) = self.mistakes(**{'top.sh': 'x' * MOST_BYTES})
        self.assertIn('Heat takes', message)

    def test_a_parameter_called_type_or_get_file_is_no_file(self):
        stack = f'{HEAD}\nparameters: {{type: {{type: string, default: x.yaml}}}}\nresources: {{}}'
        self.assertEqual([], self.mistakes(**{'stack.yaml': stack}))

    def test_a_secret_stays_hidden_in_nested_templates(self):
        given = '{type: nodes/worker.yaml, properties: {key: {get_param: password}}}'
        stack = STACK.replace('{type: nodes/worker.yaml}', given)
        for hidden, count in ('', 1), (', hidden: true', 0):
            worker = f'{WORKER}parameters: {{key: {{type: string{hidden}}}}}\n'
            found = self.mistakes(**{'stack.yaml': stack, 'nodes/worker.yaml': worker})
            with self.subTest(hidden):
                self.assertEqual(count, len(found), found)
        ((file, line, message),) = self.mistakes(
            **{'stack.yaml': stack, 'nodes/worker.yaml': worker.replace(', hidden: true', '')}
        )
        self.assertEqual(('stack.yaml', 10), (file, line))
        self.assertIn("parameter 'key' of the nested template gets a secret", message)
