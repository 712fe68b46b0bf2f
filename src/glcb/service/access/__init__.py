"""Access control: API keys, and sessions of people who have signed in."""
