"""The plan of a whole cluster: its order, its lines, its plain data."""

import json
import unittest

from kiln.clusters.exceptions import ClusterNotFound
from kiln.clusters.models import NodeState
from kiln.clusters.spec import ClusterSpec, Place
from kiln.engine.plan.changes import Shared, placement_rows, where
from kiln.engine.plan.diff import plan_cluster
from tests.unit.engine.groups import (
    changes,
    counted,
    new_group,
    node,
    nodes_in,
    units,
    wanted,
)


def group(name, count, role='worker', **more):
    return wanted(count, name=name, role=role, **more)


def members(name, count, **more):
    return [node(group=name, **more) for _ in range(count)]


class Clusters(unittest.TestCase):
    def test_003_8_two_masters_and_three_minions_are_six_units(self):
        plan = plan_cluster(
            'kube', [group('minion', 3), group('master', 2, 'control')], (), exists=False
        )
        self.assertEqual(['master', 'minion'], [one.group for one in plan.groups])
        self.assertEqual([2, 3], [len(one.adds) for one in plan.groups])
        self.assertEqual(6, units(plan))
        self.assertEqual(
            [
                'kube: + what its nodes share',
                'master: +2 small (fills the largest deficit)',
                'minion: +3 small (fills the largest deficit)',
            ],
            list(plan.lines()),
        )

    def test_003_7_nodes_are_removed_one_by_one_and_shared_resources_stay(self):
        nodes = [*members('master', 2), *members('minion', 3)]
        plan = plan_cluster(
            'kube',
            [group('master', 2, 'control'), group('minion', 2)],
            nodes,
            exists=True,
            victims={nodes[3].id: 'named'},
        )
        self.assertEqual(Shared.KEEP, plan.shared)
        self.assertEqual([(0, 0, 0), (0, 0, 1)], [changes(one) for one in plan.groups])
        self.assertEqual([f'minion: -1 small (named): {nodes[3].name}'], list(plan.lines()))
        self.assertEqual(5, units(plan))

    def test_a_deletion_is_an_empty_plan_with_control_at_the_end(self):
        former = ClusterSpec(
            name='kube',
            groups=(group('control', 1, 'control').group, group('work', 2).group),
        )
        nodes = [*members('control', 1), *members('work', 1), *members('zoo', 1)]
        nodes.append(node(group='work', state=NodeState.DELETING))
        plan = plan_cluster('kube', (), nodes, exists=True, former=former)
        self.assertEqual(['work', 'zoo', 'control'], [one.group for one in plan.groups])
        self.assertTrue(all(act.named for one in plan.groups for act in one.removes))
        self.assertEqual((nodes[3],), plan.groups[0].leaving)
        self.assertEqual(0, units(plan))
        lines = list(plan.lines())
        self.assertIn('control: -1 small (the cluster is deleted)', lines[2])
        self.assertEqual('kube: - what its nodes share', lines[3])

    def test_a_dropped_group_is_removed_after_the_others_are_built(self):
        plan = plan_cluster('k', [group('zzz', 1)], members('aaa', 1), exists=True)
        self.assertEqual(['zzz', 'aaa'], [one.group for one in plan.groups])

    def test_each_group_gets_only_its_own_nodes(self):
        nodes = [*members('a', 1, made_with='old'), *members('b', 2, made_with='old')]
        plan = plan_cluster(
            'k',
            [group('a', 1, made_with='new'), group('b', 2, made_with='new')],
            nodes,
            exists=True,
            replace={nodes[1].id: 'as you asked'},
            upgrade={'a'},
        )
        self.assertEqual([(0, 1, 0), (0, 1, 0)], [changes(one) for one in plan.groups])

    def test_an_id_that_no_group_has_is_refused(self):
        with self.assertRaisesRegex(ClusterNotFound, 'Cluster k has no node a, b'):
            plan_cluster('k', [group('a', 1)], (), exists=True, victims={'b': '', 'a': ''})

    def test_a_cluster_in_its_desired_state_has_an_empty_plan(self):
        nodes = members('a', 1)
        self.assertTrue(plan_cluster('k', [group('a', 1)], nodes, exists=True).empty)
        self.assertFalse(plan_cluster('k', [group('a', 1)], nodes, exists=False).empty)
        self.assertFalse(plan_cluster('k', [group('a', 2)], nodes, exists=True).empty)

    def test_the_problems_of_all_groups_are_reported(self):
        plan = plan_cluster(
            'k', [group('a', 3, max_count=2), group('b', 0, min_count=1)], (), exists=True
        )
        self.assertEqual(
            ['nodegroups[a].count', 'nodegroups[b].count'], [one.path for one in plan.problems]
        )


class Words(unittest.TestCase):
    def plan(self):
        nodes = [
            *nodes_in({('x', 'az1'): 6}),
            node('old', 'az2'),
            node('x', 'az2', state=NodeState.UNKNOWN),
        ]
        one = wanted(flavors={'x': 3, 'y': 2}, zones=counted(az1=2, az2=3))
        return nodes, plan_cluster('k', [one], nodes, exists=True)

    def test_equal_changes_are_shown_in_one_line(self):
        nodes, plan = self.plan()
        self.assertEqual(
            [
                f'work: ~1 old in az2 -> y in az2 (flavor old is not declared): {nodes[6].name}',
                f'work: ~1 x in az1 -> y in az2 (one too many): {nodes[2].name}',
                'work: -3 x in az1 (one too many): '
                f'{nodes[5].name}, {nodes[4].name}, {nodes[3].name}',
                f'work: =1 (the backend cannot report its state): {nodes[7].name}',
            ],
            list(plan.lines()),
        )

    def test_only_three_of_many_nodes_are_named(self):
        nodes = new_group(wanted(9))
        (line,) = plan_cluster('k', [wanted(4)], nodes, exists=True).lines()
        self.assertRegex(line, r'^work: -5 small \(one too many\): c-work-\d+, .* and 2 more$')

    def test_plain_data_is_complete(self):
        _, plan = self.plan()
        data = json.loads(json.dumps(plan.to_dict()))
        self.assertEqual(('k', 'keep'), (data['cluster'], data['shared']))
        (found,) = data['groups']
        self.assertEqual(
            [('x', 'az1', 2), ('x', 'az2', 1), ('y', 'az2', 2)],
            [(row['flavor'], row['zone'], row['count']) for row in found['table']],
        )
        self.assertEqual(
            [0, 2, 3, 3], [len(found[key]) for key in ('add', 'replace', 'remove', 'keep')]
        )
        self.assertEqual({'flavor': 'y', 'zone': 'az2'}, found['replace'][0]['by'])
        self.assertEqual('unknown', found['keep'][-1]['state'])

    def test_plain_data_has_problems_and_leaving_nodes(self):
        leaving = node(state=NodeState.DRAINING, doomed='named')
        plan = plan_cluster('k', [wanted(2, max_count=1)], [leaving], exists=True)
        (found,) = plan.to_dict()['groups']
        self.assertEqual('named', found['leaving'][0]['reason'])
        self.assertEqual('nodegroups[work].count', found['problems'][0]['path'])
        self.assertEqual(
            {'flavor': 'small', 'zone': None}, {k: found['add'][0][k] for k in ('flavor', 'zone')}
        )

    def test_a_table_is_shown_with_totals(self):
        placements = {Place('x', 'az1'): 5, Place('x', 'az2'): 5, Place('y', 'az2'): 2}
        self.assertEqual(
            [
                ('flavor', 'az1', 'az2', 'all'),
                ('x', '5', '5', '10'),
                ('y', '0', '2', '2'),
                ('all', '5', '7', '12'),
            ],
            placement_rows(placements),
        )
        self.assertEqual(
            [('flavor', 'any zone', 'all'), ('default', '3', '3'), ('all', '3', '3')],
            placement_rows({Place(): 3}),
        )

    def test_an_open_place_is_shown_as_open(self):
        self.assertEqual(
            ['of the default flavor in az1', 'of the default flavor', 'x in az1'],
            [where(Place(None, 'az1')), where(Place()), where(Place('x', 'az1'))],
        )
