"""``glcb serve``: decisions over HTTP, from bandits that learn on every reward and lose none.

    request ─► http ─► engine ─► experiment ─► event ─► journal ─► storage ─► answer

An experiment's state changes by events alone, each with its number; what is answered was committed before.
After a crash the same events, applied again, lead to the same state bit by bit.
"""
