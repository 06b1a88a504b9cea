"""Errors of the control client. Apart from it, so that a command that fails to reach a hub loads little."""


class HubNotRunning(Exception):
    """Nothing answers on the control socket. The text is one sentence that says what to do."""


class NothingListens(HubNotRunning):
    """No hub has the control socket: none runs."""


class ControlFailed(Exception):
    """The hub refused or failed a control request."""


class NotUnderstood(ControlFailed):
    """The hub's answer cannot be read: the hub is probably another version."""


class HubHangs(Exception):
    """The hub takes connections and does not answer; whether it ever will, nobody knows."""

    def __init__(self, pid: int) -> None:
        who = f"the hub (process {pid})" if pid else "the hub"
        text = f"{who} hangs: it takes connections and does not answer. It may go on by itself; `hubd stop --force` "
        super().__init__(f"{text}ends it, and the next host, or `hubd start`, starts another")
        self.pid = pid
        """Its process; 0: that is not known."""
