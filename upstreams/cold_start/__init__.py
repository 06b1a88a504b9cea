"""Cold starts: package runners such as npx install a server before they run it, which takes from seconds to minutes.

`package_runner` recognises them, `start` says how long an attempt may take, `gate` lets attempts take turns and knows
which servers have been connected once, `patience` watches a process by the work that it does, `npx_cache` mends the
folder that an interrupted install of npm leaves behind. `package_runner` and `start` are pure.
"""
