"""Every finding of a review has a test."""

import pathlib
import re
import unittest

TESTS = pathlib.Path(__file__).parents[1]
SECURITY = {
    *('H1', 'H2'),
    *('M1', 'M2', 'M3', 'M4', 'M5', 'M6'),
    *('L1', 'L2', 'L3', 'L4', 'L5', 'L6', 'L7', 'L8'),
}
#: An operator's first day: what was found, by its number, and the tests that would find it again.
FIRST_DAY = {
    1: ('functional/nova/test_notifications.py',
        'test_an_unheard_build_is_noticed_and_polled_until_nova_reports_one'),
    2: ('unit/docs/test_ini.py', 'test_an_example_is_loaded_as_a_file_of_kiln'),
    3: ('unit/cli/driver/test_driver.py',
        'test_the_behaviours_of_each_kit_are_listed_in_the_words_that_select_takes'),
    4: ('functional/telemetry/test_prometheus.py',
        'test_prometheus_finds_no_fault_with_the_metrics_of_a_conductor'),
    5: ('unit/engine/test_conductor.py',
        'test_an_outage_is_written_within_seconds_and_cleared_when_it_is_over'),
    6: ('unit/cluster_service/test_why.py', 'test_nodes_with_one_cause_are_explained_once'),
    7: ('unit/cli/compute/test_compute.py', 'test_a_check_asks_once_and_reports_within_5_seconds'),
    8: ('unit/openstack/test_session.py',
        'test_a_forgotten_password_is_refused_when_the_backend_is_opened'),
    9: ('functional/nova/test_mistakes.py', 'test_an_unknown_region_is_named'),
    10: ('functional/nova/test_mistakes.py',
         'test_networks_and_security_groups_are_given_by_name'),
    11: ('unit/cluster_service/test_why.py',
         'test_a_worker_that_has_died_is_named_with_the_time_it_was_last_heard_from'),
    12: ('unit/cluster_service/test_why.py',
         'test_without_a_conductor_the_explanation_is_that_nobody_watches_and_since_when'),
    13: ('unit/cluster_service/test_service.py',
         'test_a_second_operation_is_refused_while_one_is_under_way'),
    14: ('unit/cli/output/test_operation_progress.py',
         'test_pain_3_a_cause_is_printed_at_once_and_only_once'),
    15: ('unit/docs/test_shape.py', 'test_no_row_of_a_table_is_torn_into_two'),
    16: ('unit/docs/test_shape.py', 'test_each_title_has_an_underline_of_its_length'),
    17: ('unit/cli/driver/test_driver.py',
         'test_listing_circuits_of_each_process_is_refused_instead_of_showing_its_own'),
    18: ('unit/wrappers/test_observer.py',
         'test_the_record_names_backend_operation_traffic_and_subject'),
    19: ('unit/telemetry/test_prometheus.py',
         'test_counters_of_alarms_begin_at_zero_with_the_first_call'),
    20: ('unit/cli/test_main.py',
         'test_the_log_goes_to_the_file_of_the_option_or_the_configuration'),
    21: ('unit/compute/test_backends.py',
         'test_the_error_of_a_backend_without_a_group_says_so_and_lists_the_groups'),
    22: ('unit/cluster_service/test_planning.py',
         'test_a_wrong_image_does_not_hide_wrong_flavors_and_zones'),
    23: ('functional/nova/test_mistakes.py', 'test_an_unknown_flavor_is_named'),
    24: ('unit/tools/test_services.py',
         'test_the_command_of_a_service_is_in_the_shell_of_the_cloud'),
    25: ('unit/cli/output/test_operation_progress.py',
         'test_a_machine_that_boots_as_usual_is_not_reported'),
    26: ('unit/cli/output/test_views.py',
         'test_an_amphora_is_shown_with_its_flavor_image_and_age'),
    27: ('unit/docs/test_shape.py',
         'test_every_page_for_operators_is_in_a_group_that_says_what_it_holds'),
}  # fmt: skip


class FindingsTest(unittest.TestCase):
    def test_each_finding_of_security_is_named_by_the_test_that_runs_its_former_proof(self):
        named = set()
        for path in TESTS.rglob('*.py'):
            for words in re.findall(r'Findings? ((?:[HML]\d(?:, | and )?)+)', path.read_text()):
                named |= set(re.findall(r'[HML]\d', words))
        self.assertEqual(SECURITY, named)

    def test_each_finding_of_the_first_day_has_a_test(self):
        self.assertEqual(set(range(1, 28)), set(FIRST_DAY))
        for number, (path, name) in FIRST_DAY.items():
            with self.subTest(number):
                self.assertIn(f'def {name}(', (TESTS / path).read_text())
