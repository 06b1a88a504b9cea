"""The hub as the client of MCP servers. Of `hub` it imports `hub.link`, `hub.wire` and `hub.linux`, nothing else.

    supervisor           all upstreams; applies configurations       runner          keeps one upstream running
    upstream             what the hub calls                          lifecycle       its states as a table
    availability         why it is away, and until when              unasked_events  its events outside of calls
    subscriptions_across_sessions   those of hosts, moved            sessions        which session serves which host
    session_contract     the contract of all transports              transports      stdio, Streamable HTTP, HTTP+SSE
    inventory            what it lists                               subscriptions   what a session is subscribed to
    questions            what it asks, attributed to calls           journal         what it wrote, what became of it
    status_facts         what commands show of it                    retry_pauses    when to try again, or give up
    read_secret_references  values such as ${secret:NAME}            redact          masks secrets in what it says
    oauth                signing in: which authorization server, tokens, renewal    fetch   guarded requests to the web
    running_call         one call, to its deadline                   deadline_watch  tells calls whose time is up
    cold_start           turns and time for servers that a package runner installs first
    demo                 our own MCP server, served without a configuration

What always holds: nobody above `session_contract` writes in the words of a transport or an era. A call is sent at most
once, unless it is certain that it was not sent. A session is opened once and never revived.
"""
