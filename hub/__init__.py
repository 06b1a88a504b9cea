"""The hub: one MCP server to every host of a machine, and the client of all their servers. From top to bottom:

    hubd_script, mcp_hubd_script  copied to bin/ as `hubd` and `mcp-hubd`; `__main__`: which command it is
    cli          commands, the doctor's checks, texts
    daemon       one process: serve, reload, the HTTP listener, what its user may ask of it
    app          one hub, wired and not listening
    projects     folders whose servers hosts see                 | fleet: several hubs behind one balancer
    running_servers  the servers of the user and of projects     | host_views: what attached hosts are shown
    decide_search_mode  which of them find tools by searching
    downstream   how hosts come in: HTTP, unix socket, stdio; their sessions, what they are asked
    routing      from method to handler: names, cached reads, subscriptions, the live catalogue
    rules        who may see and call what; the audit log
    telemetry    one record of each operation that is over, and what is counted of it
    calls        one operation of a host: its intent, the stages it passes, the end of it that its host holds
    sign_in      people who sign in at servers: tickets, pages for their browsers, the flow behind them
    bridge       host and server of different eras               | control: the CLI's socket | shim: `hubd connect`
    catalog      names, URIs and lists that hosts see; pure      | net: sockets and HTTP/1.1, nothing of MCP
    link, wire   the seam to `upstreams`, and the protocol
    linux        all that is particular to Linux; `upstreams` and `cache` import these three and nothing else

What always holds: an operation crosses in one place, `await upstream.call(operation, exchange)`; an id, token, cursor
or session of one hop is never seen on another; shared state changes only in functions without `await`, so no locks.
"""
