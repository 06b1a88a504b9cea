"""The dashboard: the hub in a browser of its user, below `/ui/` of its own listener.

lazy_dashboard  `Dashboard`: what the daemon and its listener know of it; the rest is loaded when somebody comes
guard           who may ask: Host, Origin, the browser's user, keys
tickets         what signs a browser in, and the keys of pages that are signed in
routes          static files, signing in, and what pages ask for
actions         what may be done: a golden list
details         one server, one call, the configuration
inbox_items_and_decisions  what waits for a decision, shown and decided
feed            what happens, told to pages that are open
overview        the hub as a whole, of which the feed tells what has changed
messages        what pages are told, as JSON (pure)
dependencies    the parts of a hub that pages show
static/         the pages
"""
