"""Watching configuration files: notices that their content may have changed, in whatever way.

`watcher` waits for events and reports changes; `inspection` tells what the files contain, and which directories to
watch.
"""
