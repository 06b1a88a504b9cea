"""Errors of the control client. Apart from it, so that a command that fails to reach a hub loads little."""


class HubNotRunning(Exception):
    """Nothing answers on the control socket. The text is one sentence that says what to do."""


class ControlFailed(Exception):
    """The hub refused or failed a control request."""


class NotUnderstood(ControlFailed):
    """The hub's answer cannot be read: the hub is probably another version."""
