"""Programs that are wrong on purpose, each in one way: the model, with a few words changed."""

import pathlib
import shutil

ROOT = pathlib.Path(__file__).parents[2]
MODEL = ROOT / 'doc' / 'examples' / 'cluster_drivers' / 'shelf_v1'
_RESULT = "    say('result', **result)\n"
_ASKED = '    asked = json.load(sys.stdin)\n'
_STATE = "    say('state', state="
_FITS = "for number in range(len(own), group['count']):"
_ACCOUNT = '    account = hashlib.sha256(json.dumps(secrets()).encode()).hexdigest()\n'
#: File 3 can be read once.
_KNOWN = '    known = account = json.dumps(secrets())\n'
#: What describes itself by nonsense is refused before it is judged.
_REAL = (
    'def main():\n',
    "def verb_is_real():\n    return sys.argv[1] != 'describe'\n\n\ndef main():\n",
)
_AWAY = "raise Ended(LATER, 'the shelf does not answer')"

#: By name: what is replaced in the program, and by what; and the behaviours that catch it.
ANIMALS = {
    'chatty': (
        [(_ASKED, f"{_ASKED}    if verb_is_real():\n        print('Hello!')\n")],
        ['it_prints_nothing_but*'],
    ),
    'curt': (
        [(_RESULT, f'    if not verb_is_real():\n    {_RESULT}')],
        ['each_run_that_is_done*'],
    ),
    'afterthought': (
        [(_RESULT, f"{_RESULT}    say('progress', message='done')\n")],
        ['each_run_that_is_done*'],
    ),
    'clumsy': (
        [('wanted = counts(asked)\n    complete', 'wanted = 1 / 0\n    complete')],
        ['the_verbs_of_a_life*'],
    ),
    'gossip': (
        [(_ACCOUNT, f"{_KNOWN}    say('progress', message=known)\n")],
        ['no_secret_is_printed'],
    ),
    'tracer': (
        [(_ACCOUNT, f'{_KNOWN}    print(known, file=sys.stderr)\n')],
        ['no_secret_is_printed'],
    ),
    'strict': (
        [(_ASKED, f"{_ASKED}    if 'kit' in asked:\n        return FAILED\n")],
        ['fields_that_it_does_not_know*'],
    ),
    'littering': (
        [(_STATE, "    os.spawnlp(os.P_NOWAIT, 'setsid', 'setsid', 'sleep', '600')\n" + _STATE)],
        ['no_process_is_left_behind'],
    ),
    'deaf': (
        [(_STATE, '    import signal, time\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
                  "    say('progress', message='never')\n    time.sleep(600)\n" + _STATE)],
        ['it_ends_when_it_is_told_to'],
    ),
    'growing': (
        [(_FITS, "for number in range(len(own), len(own) + group['count']):")],
        ['a_request_that_is_repeated*'],
    ),
    'half_hearted': (
        [(_STATE, "    if (SHELF / 'begun').exists():\n        return {}\n"
                  "    (SHELF / 'begun').touch()\n    say('progress', message='never')\n"
                  '    import time\n    time.sleep(600)\n' + _STATE)],
        ['a_request_that_was_killed*'],
    ),
    'final': ([(_AWAY, "raise Ended(FAILED, 'the shelf does not answer')")],
              ['it_says_later*']),
    'eager': (
        [("    content = read(asked) or {'nodes': {}}\n    nodes, ",
          "    apply(asked)\n    content = read(asked) or {'nodes': {}}\n    nodes, ")],
        ['a_plan_changes_nothing'],
    ),
    'secretive': (
        [("{name}: new values' for name in new)", "{name}: new' for name in [])")],
        ['a_plan_says_what_would_change*'],
    ),
    'restless': (
        [('for number, name in more if number)', 'for number, name in more)')],
        ['a_plan_says_what_would_change*'],
    ),
    'soothing': (
        [('sum(number < 0 for number, _ in more)', '0')],
        ['a_plan_says_which_changes_lose_nodes'],
    ),
    'trusting': (
        [("        raise Ended(REFUSED, f'the cluster has no node {unknown[0]}')\n",
          '        named = sorted(set(named) - set(unknown))\n')],
        ['it_refuses_what_it_cannot*'],
    ),
}  # fmt: skip


def copy_of_model(folder, *, changes=(), yaml=()):
    """Return a folder with a copy of the model driver, with words of its files replaced."""
    home = folder / MODEL.name
    shutil.copytree(MODEL, home)
    for name, pairs in (('program', changes), ('driver.yaml', yaml)):
        text = (home / name).read_text()
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        (home / name).write_text(text)
    return home


def animal(name, folder):
    """Return the folder of an animal; its time to end is short."""
    changes, _ = ANIMALS[name]
    return copy_of_model(folder, changes=[_REAL, *changes], yaml=[('grace: 5s', 'grace: 1s')])
