"""Payloads of upstreams, translated to the host's revision: `results`, `errors`, `definitions` of tools and others.

Unknown members may pass to every revision; unknown alternatives and changed types break older readers. So most payloads
pass untouched. Rewritten are: content blocks newer than the host's revision, structured content and schemas that are no
objects, members of the per-request era, errors whose code means something else on the other side, and what belongs to
one hop only.
"""
