"""Hooks: programs of the user that are asked about each call of a tool, before it and after it, in the format of Claude
Code's hooks.

Read in this order: `messages` (what a hook is told, and what it may answer; pure), `run` (how it is asked), `stage`
(what becomes of a call by its answers).

What always holds: a hook that gives no answer denies, unless its setting says otherwise; what it rewrites is judged by
the rules before anything else is done with it.
"""
