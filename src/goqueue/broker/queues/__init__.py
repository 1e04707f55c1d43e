"""Queue groups: messages delivered one by one, acknowledged, and delivered again."""
