"""What can go wrong with the local stack, each with the one line its user sees."""


class StackError(Exception):
    """The local stack could not do what was asked; the text is one line for the user."""

    exit_code = 1


class MissingServerError(StackError):
    """A server's program is not on this machine and could not be fetched."""

    exit_code = 2


class FolderBusyError(StackError):
    """Another command or another stack holds this folder."""


class ServerEndedError(StackError):
    """A server's process ended before it answered."""


class NotReadyError(Exception):
    """A server runs but does not yet do its work; only `Server.wait_ready` sees this one."""
