"""Cold starts: package runners such as npx install a server before they run it, which takes from seconds to minutes.

`package_runner` recognises them, `start` says how long an attempt may take, `gate` lets attempts take turns and knows
which servers have been connected once, `patience` watches a process by the work that it does, `npx_cache` and `mending`
deal with the folder that an interrupted install of npm leaves behind, and with what it lacks. `package_runner` and
`start` are pure; only `gate`, `patience` and `mending` wait.
"""
