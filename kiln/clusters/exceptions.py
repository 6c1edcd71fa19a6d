"""Cluster errors: every error of clusters that callers of kiln can get."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from kiln.exceptions import Advice, ConfigurationError, KilnError, told


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One mistake in the input, and where it is."""

    message: str
    #: The path of the value: ``nodegroups[1].zones``.
    path: str = ''
    #: The file, and the line and column, from 1; 0 without a file.
    file: str = ''
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        where = f'{self.file or "line"}{":" if self.file else " "}{self.line}:{self.column}: '
        what = f'{self.path}: ' if self.path else ''
        return f'{where if self.line else ""}{what}{self.message}'


class ClusterError(KilnError):
    """Root of all cluster errors."""

    code = 'cluster_error'
    remedy = 'Read the message; it names the object and the next step.'
    retryable: bool = False


class WithProblems(ClusterError):
    """The input is not valid; every mistake in it is listed."""

    code = 'with_problems'
    remedy = 'Correct each line that is named.'
    longest = ConfigurationError.longest

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: Sequence[Problem] = tuple(problems)
        super().__init__('\n'.join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type, tuple[Sequence[Problem]]]:
        return type(self), (self.problems,)


class InvalidCluster(WithProblems):
    """The declaration of a cluster is not valid; nothing was done."""

    code = 'invalid_cluster'
    remedy = 'Correct each line that is named, and check the plan.'


class ClusterNotFound(ClusterError):
    """No cluster, group, node or template has the name or id."""

    code = 'cluster_not_found'
    remedy = (
        "List what exists with 'kiln cluster list'; a deleted cluster has left a receipt, which "
        "'kiln cluster receipt NAME' prints."
    )


class ClusterExists(ClusterError):
    """The name is taken."""

    code = 'cluster_exists'
    remedy = 'Choose another name, or update the existing cluster.'


class TooManyNodes(ClusterError):
    """A cluster, its owner or the site would have more nodes than allowed; nothing was done."""

    code = 'too_many_nodes'
    remedy = 'Write a lower count, delete nodes of other clusters, or raise the option.'

    def __init__(self, message: str, *, option: str = '', count: int = 0, most: int = 0) -> None:
        super().__init__(message)
        #: The option of [clusters], the number of nodes there would be, and the most allowed.
        self.option, self.count, self.most = option, count, most


class ClusterBusy(ClusterError):
    """Another operation is under way, and this one cannot join it."""

    code = 'cluster_busy'
    remedy = 'Wait for the operation that is named, or cancel it.'
    retryable = True


class ClusterChanged(ClusterError):
    """Someone else changed the desired state of the cluster; nothing was done."""

    code = 'cluster_changed'
    remedy = 'Check the plan again: it was made before the change.'


class ClusterNotEmpty(ClusterError):
    """Resources of the cluster might be left, so its record is kept."""

    code = 'cluster_not_empty'
    remedy = 'Resolve what keeps them, or abandon them with --force.'


class ClusterDriverError(ClusterError):
    """A cluster driver reports that something cannot be done, and why.

    The only driver error that users are shown as it is; of any other driver error they see
    the driver's name and the error's text.
    """

    code = 'cluster_driver_error'
    remedy = "Correct what the message names; 'kiln driver doc' describes the driver."

    def __init__(self, reason: str, hint: str = '', retryable: bool | None = None) -> None:
        super().__init__(f'{reason} {hint}'.strip())
        self.reason, self.hint = told(reason, self.longest), told(hint, self.longest)
        if retryable is not None:
            self.retryable = retryable
        self.advice = Advice.WAIT if self.retryable else Advice.REPAIR

    def __reduce__(self) -> tuple[type, tuple[str, str, bool]]:
        return type(self), (self.reason, self.hint, self.retryable)


class ClusterDriverDefect(ClusterDriverError):
    """A cluster driver breaks the contract: another error, or a wrong answer.

    The message has the driver, the method, and the place in the driver's files.
    """

    code = 'cluster_driver_defect'
    remedy = 'Report it to the author of the driver.'

    def __init__(
        self,
        reason: str,
        hint: str = 'This is a mistake in the driver: report it to its author.',
        retryable: bool | None = None,
    ) -> None:
        super().__init__(reason, hint, retryable)


class RemovalRefused(ClusterDriverError):
    """A cluster driver does not let so many of the nodes go now; nothing was done."""

    code = 'removal_refused'
    remedy = "Remove fewer nodes, or force it with 'kiln node remove --force'."


class MissingCapability(ClusterDriverError):
    """A cluster driver cannot do what was requested; nothing was done."""

    code = 'missing_capability'
    remedy = 'Move the cluster to a driver that can.'


class InvalidClusterDriver(WithProblems, ConfigurationError):
    """A cluster driver cannot be loaded: its files are wrong."""

    code = 'invalid_cluster_driver'
    remedy = 'Correct each line that is named, and load it again.'


class InvalidHooks(WithProblems, ConfigurationError):
    """The declared hooks are not valid; none of them is used."""

    code = 'invalid_hooks'
    remedy = 'Correct each place that is named; kiln hook list shows what is left.'


class HookNotFound(ClusterError):
    """No hook has the name, or nothing waits for the hook."""

    code = 'hook_not_found'
    remedy = 'See kiln hook list, and what the operation waits for.'


class LeaseLost(ClusterError):
    """Another process holds the cluster's lease now; nothing was written."""

    code = 'lease_lost'
    remedy = 'Nothing to do; the new owner continues from the store.'


class StoreError(ClusterError):
    """The store cannot be used: absent, of another version, or broken."""

    code = 'store_error'
    remedy = 'Correct what the message names.'


class StoreBroken(StoreError):
    """The store is damaged or lacks tables: nothing can go on with it."""

    code = 'store_broken'
    remedy = "See 'kiln db check'; 'kiln db restore FILE' replaces the store by a backup."


class DriverSelectionError(ClusterError, ConfigurationError):
    """No cluster driver can be chosen; nothing was created."""

    code = 'driver_selection_error'
    #: The steps of the choice up to the error, for callers that explain it.
    steps: tuple[str, ...] = ()


class ClusterDriverUnknown(DriverSelectionError):
    """The requested driver is not installed."""

    code = 'cluster_driver_unknown'
    remedy = 'Name a driver that is installed, or install this one.'


class ClusterDriverUnusable(DriverSelectionError):
    """The requested driver is disabled, beta, broken or in conflict."""

    code = 'cluster_driver_unusable'
    remedy = 'Do what the message says for its state, or choose another.'
    #: The command that installs the missing extra; None if no extra is missing.
    install: str | None = None


class ClusterDriverMismatch(DriverSelectionError):
    """The requested driver does not build such clusters."""

    code = 'cluster_driver_mismatch'
    remedy = 'Name one of the drivers that do.'


class NoClusterDriver(DriverSelectionError):
    """No driver builds such clusters."""

    code = 'no_cluster_driver'
    remedy = 'Change what differs from the nearest driver, or install one.'


class AmbiguousClusterDriver(DriverSelectionError):
    """Several drivers build such clusters, and no preference selects one."""

    code = 'ambiguous_cluster_driver'
    remedy = 'Name the driver, or state a preference.'


class ImageWithoutDistro(DriverSelectionError):
    """The image does not name its operating system."""

    code = 'image_without_distro'
    remedy = 'Set the property kiln_distro of the image.'
