"""Reader of user data as by cloud-init at boot; runs with cloud-init's own packages only.

Each input line is user data in base64. Each output line is JSON: what the parser read, and
what the modules that write files and keys would do.
"""

import base64
import json
import logging
import os
import pwd
import shutil
import sys
import tempfile

sys.path.insert(0, sys.argv[1])

from cloudinit import handlers, helpers, util
from cloudinit.config import cc_write_files
from cloudinit.config.schema import SchemaValidationError, validate_cloudconfig_schema
from cloudinit.handlers.boot_hook import BootHookPartHandler
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.handlers.jinja_template import JinjaTemplatePartHandler
from cloudinit.handlers.shell_script import ShellScriptPartHandler
from cloudinit.user_data import UserDataProcessor


class Source:
    """The part of a data source that the handlers use."""

    def get_instance_id(self):
        return 'i-1'


class Hooks(BootHookPartHandler):
    """Keeps boot hooks instead of running them."""

    def handle_part(self, data, ctype, filename, payload, frequency):
        if ctype not in handlers.CONTENT_SIGNALS:
            self._write_part(payload, filename)


class Complaints(logging.Handler):
    """Collects the warnings and errors that cloud-init logs."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def prepare(paths):
    instance = os.path.join(paths.cloud_dir, 'instances', 'i-1')
    os.makedirs(os.path.join(instance, 'scripts'))
    os.makedirs(paths.run_dir)
    os.symlink(instance, paths.instance_link)
    facts = {'v1': {'region': 'east', 'local_hostname': 'web-1'}}
    util.write_file(paths.get_runpath('instance_data_sensitive'), json.dumps(facts))


def text_or_base64(content):
    if isinstance(content, str):
        content = content.encode('utf-8', 'surrogateescape')
    return base64.b64encode(content or b'').decode()


def understood(blob, folder):
    paths = helpers.Paths({'cloud_dir': f'{folder}/cloud', 'run_dir': f'{folder}/run'}, Source())
    prepare(paths)
    message = UserDataProcessor(paths).process(blob)
    parts = [
        [part.get_content_type(), text_or_base64(util.fully_decoded_payload(part))]
        for part in message.walk()
        if part.get_content_maintype() != 'multipart'
    ]
    config, scripts = handle(message, paths)
    return {
        'parts': parts,
        'config': config,
        'mistakes': mistakes_in(message),
        'scripts': scripts,
        'files': write(config.get('write_files') or [], f'{folder}/root'),
    }


def handle(message, paths):
    """Handle a message like cloud-init's stage; return its config and scripts."""
    config = CloudConfigPartHandler(paths)
    script = ShellScriptPartHandler(paths)
    all_of_them = [
        config,
        script,
        Hooks(paths, None),
        JinjaTemplatePartHandler(paths, sub_handlers=[config, script]),
    ]
    by_type = helpers.ContentHandlers()
    for handler in all_of_them:
        by_type.register(handler)
    data = {
        'handlers': by_type, 'handlerdir': paths.get_ipath('handlers'), 'data': None,
        'frequency': 'always', 'handlercount': 0, 'excluded': [],
    }  # fmt: skip
    for handler in all_of_them:
        handlers.call_begin(handler, None, 'always')
    handlers.walk(message, handlers.walker_callback, data=data)
    for handler in all_of_them:
        handlers.call_end(handler, None, 'always')
    scripts = {}
    for kind in ('scripts', 'boothooks'):
        folder = paths.get_ipath_cur(kind)
        for name in sorted(os.listdir(folder) if os.path.isdir(folder) else ()):
            scripts[f'{kind}/{name}'] = text_or_base64(
                util.load_file(f'{folder}/{name}', decode=False)
            )
    return util.load_yaml(util.load_file(paths.get_ipath('cloud_config')), default={}), scripts


def mistakes_in(message):
    """Return the errors that cloud-init's own schema finds in the cloud-config parts."""
    found = []
    for part in message.walk():
        if part.get_content_type() == 'text/cloud-config':
            text = util.fully_decoded_payload(part)
            try:
                validate_cloudconfig_schema(util.load_yaml(text, default={}), strict=True)
            except SchemaValidationError as exc:
                found.append(str(exc))
    return found


def write(entries, root):
    """Write files below a folder, like the module write_files; return the files."""
    written = {}
    for entry in entries:
        path = os.path.normpath(entry['path'])
        # The user of the test run replaces each owner, because that might not exist here.
        mine = {**entry, 'path': root + path, 'owner': pwd.getpwuid(os.getuid()).pw_name}
        cc_write_files.write_files('write_files', [mine], 'root:root')
        found = os.stat(root + path)
        written[path] = {
            'content': text_or_base64(util.load_file(root + path, decode=False)),
            'mode': found.st_mode & 0o7777,
            'owner': list(util.extract_usergroup(entry.get('owner', 'root:root'))),
        }
    return written


def main():
    complaints = Complaints()
    logging.getLogger().addHandler(complaints)
    print(json.dumps({'python': sys.version, 'cloud-init': handlers.__file__}), flush=True)
    for line in sys.stdin:
        folder = tempfile.mkdtemp()
        complaints.texts.clear()
        try:
            answer = understood(base64.b64decode(line), folder)
        except Exception as exc:
            answer = {'error': repr(exc)}
        finally:
            shutil.rmtree(folder)
        print(json.dumps({**answer, 'complaints': list(complaints.texts)}), flush=True)


main()
