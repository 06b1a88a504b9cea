"""The doctor: what is wrong between hosts, hub and servers of this machine, or soon will be; and what to do about it.

`machine_state` gathers what there is to look at. Each check in `servers`, `variables_servers_lack`, `stores`, `hosts`,
`running_hub`, `what_hub_reports` and `other_and_dead_hubs` is a small function that looks at that, or at one thing of
the machine, and yields `findings`, which `doctor` lists. Nothing is changed, no server is started, and no request is
sent: a URL is only connected to. But the store that hubs share is logged in to. `judge_token` stands beside: it judges
one token, and asks the issuer of that.
"""
