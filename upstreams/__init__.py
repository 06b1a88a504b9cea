"""The hub as the client of MCP servers. Of `hub` it imports `hub.link` and `hub.wire`, nothing else.

    supervisor    all upstreams, and what a new configuration makes of them | runner: one of them | lifecycle: its
    states upstream      what the hub calls | notifications, availability, status: what it says, whether it is there
    sessions      which session serves which host        | host_subscriptions: what hosts watch, moved between sessions
    transports    stdio, Streamable HTTP, HTTP+SSE       | session: what all of them do; a credential flow goes here
    inventory     what an upstream lists                 | subscriptions: what is watched | invalidation: for the cache
    questions     what it asks, and whose that is        | journal: what became of it
    facts         structs that commands show             | demo: our own MCP server, served without a configuration

What always holds: nobody above `session` writes in the words of a transport or an era. A call is sent at most once,
unless it is certain that it was not sent at all. A session is opened once and never revived.
"""
