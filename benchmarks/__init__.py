"""How fast the bandits are, how that grows, and how near it comes to what memory allows."""
