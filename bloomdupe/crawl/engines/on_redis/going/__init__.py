"""What only the engine on Redis needs: names by which children are recognised.

A worker whose page runs again, here or elsewhere, yields the same names. All of this
goes with the next version of that engine, which follows
:mod:`bloomdupe.crawl.leases.leases`.
"""
