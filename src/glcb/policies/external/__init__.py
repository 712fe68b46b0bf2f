"""External policies: bandits of other libraries. They need the extra ``rivals``."""
