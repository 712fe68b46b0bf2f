"""``glcb serve``: bandits over HTTP that learn from every reward and lose none.

    request ─► http ─► engine ─► experiment ─► event ─► journal ─► database ─► response

The state of an experiment changes only through numbered events, and a response is sent after its event has
been committed. After a crash, the recorded events are applied again; no decision is made again.
"""
