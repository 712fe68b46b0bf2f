"""Who may use the service: API keys, and sessions of people who have signed in with one."""
