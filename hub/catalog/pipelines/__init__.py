"""Pipelines as the hosts of a view see them. Pure.

Read in this order: `tools_of_steps` (the tools that steps call, what keeps one from being called, and arguments that it
does not have), `pipeline_tools` (the tool that a pipeline is). How one is run: `hub.routing.pipelines`.
"""
