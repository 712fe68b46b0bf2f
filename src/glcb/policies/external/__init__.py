"""External policies: bandits from other libraries. They need the extra ``rivals``."""
