"""Cold starts: package runners such as npx install a server before they run it, which takes from seconds to minutes.

`recognise_runner` tells which commands start one, `start_timeouts` how long an attempt and its processes may take,
`start_gate` lets attempts take turns and knows which servers have been connected once, `mend_npx_cache` mends the
folder that an interrupted install of npm leaves behind.
"""
