"""``glcb serve``: bandits over HTTP that learn from every reward and lose none.

    request ─► http ─► engine ─► experiment ─► event ─► journal ─► database ─► response

The state of an experiment changes only through numbered events, and a response is sent after its event has
been committed. After a crash, replaying the same events restores the same state bit for bit.
"""
