"""Projects: folders whose servers the hosts at work there see beside the common ones.

`projects` starts, shows and ends them; `host_roots` finds out where a host works; `project_files` which project a
folder belongs to, and whether the user allows what its files say. Nothing of a project runs until it is allowed.
"""
