"""Projects: folders whose servers the hosts that work there see beside the user's own.

`projects` starts, shows and ends them; `workplaces` finds out where a host works, which project that is part of and
whether the user allows its files, and watches these; `profile_hosts` shows hosts what their profiles choose, and
decides which of them find tools by searching. Nothing of a project runs until the user has allowed it.
"""
