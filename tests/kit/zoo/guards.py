"""Wrong guards around a correct driver."""

from kiln.compute.facade import Compute
from kiln.compute.goals import Until
from kiln.compute.stack import StackSettings
from kiln.compute_drivers.calls import Call
from kiln.exceptions import (
    BuildNotRunning,
    BuildOutcomeUnknown,
    BuildTimeout,
    OperationCancelled,
)
from kiln.wrappers.base import DriverWrapper
from kiln.wrappers.executor.settings import ExecutorSettings
from tests.kit.zoo.species import caught_by

_LEAVES_WHAT_RUNS = 'test_a_repeated_build_that_fails_leaves_the_running_instance'
_SAYS_IT_IS_SUSPENDED = 'test_a_repeated_build_reports_at_once_that_its_instance_is_suspended'
_CANCELLED_LEAVES_NOTHING = 'test_a_cancelled_build_leaves_no_orphaned_instance'
_FAILED_LEAVES_NOTHING = 'test_a_build_that_fails_later_leaves_no_orphaned_instance'


class RemovesAfterErrors(Compute):
    """Removes the instance with the key of a build after any error."""

    errors = ()

    def build(self, *args, **given):
        operation = super().build(*args, **given)
        operation.add_done_callback(self.ended)
        return operation

    def ended(self, operation):
        if isinstance(operation.exception(), self.errors):
            self.remove(operation.build_key)

    def remove(self, build_key):
        found = self.driver.find_build(build_key)
        if found is not None:
            self.driver.delete(found.id)


@caught_by(_LEAVES_WHAT_RUNS)
class RemovesWhatIsLate(RemovesAfterErrors):
    """Treats an adopted instance as its own if the build misses its deadline."""

    errors = (BuildTimeout, BuildOutcomeUnknown)


class RemembersBuilds(RemovesAfterErrors):
    """Base of guards that track the builds in flight at their close."""

    def __init__(self, driver):
        super().__init__(driver)
        self.begun, self.in_flight = [], []

    def build(self, *args, **given):
        operation = super().build(*args, **given)
        self.begun.append(operation)
        return operation

    def close(self, *args, **given):
        self.in_flight += [one for one in self.begun if not one.done()]
        super().close(*args, **given)


@caught_by(_LEAVES_WHAT_RUNS)
class RemovesWhatIsCancelled(RemembersBuilds):
    """Removes the instance with the key when a build is cancelled."""

    errors = OperationCancelled

    def ended(self, operation):
        # A close cancels as well.
        if operation not in self.in_flight:
            super().ended(operation)


@caught_by(_LEAVES_WHAT_RUNS)
class RemovesWhatItCloses(RemembersBuilds):
    """Removes at its close the instances that its builds in flight adopted."""

    def close(self, *args, **given):
        super().close(*args, **given)
        for operation in self.in_flight:
            self.remove(operation.build_key)


@caught_by(_SAYS_IT_IS_SUSPENDED)
class RemovesWhatRests(RemovesAfterErrors):
    """Removes an instance that does not run."""

    errors = BuildNotRunning


@caught_by(_SAYS_IT_IS_SUSPENDED, _FAILED_LEAVES_NOTHING)
class TakesAYesForADeed(Compute):
    """Treats a build as active as soon as the backend has accepted it."""

    def build(self, *args, **given):
        return super().build(*args, **given | {'until': Until.ACCEPTED})


class Keeping(DriverWrapper):
    """Reports every delete as done."""

    def perform(self, call, *args):
        return None if call is Call.DELETE else super().perform(call, *args)


@caught_by(_CANCELLED_LEAVES_NOTHING, _FAILED_LEAVES_NOTHING)
class CleansUpNothing(Compute):
    """Trusts that failed builds were cleaned up."""

    def __init__(self, driver):
        settings = StackSettings(executor=ExecutorSettings(cleanup_timeout_s=1))
        super().__init__(Keeping(driver), settings=settings)


@caught_by('test_a_cancelled_build_leaves_the_instance_of_another_owner_with_its_key')
class RemovesForAnybody(RemembersBuilds):
    """Removes what has the key of a cancelled build in the lists of all owners."""

    errors = OperationCancelled

    def ended(self, operation):
        if operation not in self.in_flight:
            super().ended(operation)

    def remove(self, build_key):
        driver = self.driver
        while hasattr(driver, 'inner'):
            driver = driver.inner
        for one in driver.cloud.instances():
            if one.build_key == build_key and one.owner != driver.owner:
                driver.cloud.vanish(one.id)
