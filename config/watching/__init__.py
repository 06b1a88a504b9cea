"""Watching configuration files: notices that their content may have changed, in whatever way.

`watcher` inspects the files, waits for events in their directories and reports changes.
"""
