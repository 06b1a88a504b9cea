"""Projects: folders whose servers the hosts that work there see beside the user's own.

`hosts_in_projects` starts, shows and ends them; `find_project_of_host` finds out where a host works, which project that
is part of and whether the user allows its files, and watches these. Nothing of a project runs until the user has
allowed it.
"""
